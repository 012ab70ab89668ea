// Stateful NAT64 (RFC 6146) whose bindings and sessions a controller writes (`strait controller nat64`): the stateless program with
// ../nat64/controlled.p4. It keeps to what p4c and BMv2 take.

#define STATEFUL
#define CONTROLLED
#include "../nat64/nat64.p4"
