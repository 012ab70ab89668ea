//! What happens to a packet.
