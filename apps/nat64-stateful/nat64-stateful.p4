// Stateful NAT64 (RFC 6146): the stateless program with sessions (../nat64/sessions.p4). For Strait only, because its tables learn from packets.

#define STATEFUL
#include "../nat64/nat64.p4"
