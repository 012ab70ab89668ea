header_type ethernet_t { // error: this is P4-14, another language: Strait reads P4-16
    // help: p4test --std p4-14 --pp new.p4 old.p4
    fields {
        dst : 48;
    }
}
header ethernet_t ethernet;
parser start {
    extract(ethernet);
    return ingress;
}
table t {
    reads { ethernet.dst : exact; }
    actions { nop; }
}
control ingress { apply(t); }
