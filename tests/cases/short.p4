// Frames that are shorter than an Ethernet header: unchanged, longer, shorter, dropped.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> value; }
header note_t { bit<32> value; }
header long_t { bit<128> value; }
struct headers { kind_t kind; note_t note; long_t longer; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.kind);
        transition select(hdr.kind.value) { 3: note; 6: note; 7: longer; default: accept; }
    }
    state note { b.extract(hdr.note); transition accept; }
    state longer { b.extract(hdr.longer); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    counter(256, CounterType.packets_and_bytes) seen;
    action longer() {
        hdr.longer.setValid();
        hdr.longer.value = 0xf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff;
    }
    apply {
        seen.count((bit<32>)hdr.kind.value);
        sm.egress_spec = 1;
        switch (hdr.kind.value) {
            1: { hdr.note.setValid(); hdr.note.value = 0xaabbccdd; }
            2: { longer(); }
            3: { hdr.note.setInvalid(); }
            4: { hdr.kind.setInvalid(); }
            5: { mark_to_drop(sm); }
            6: { hdr.note.setInvalid(); longer(); }
            7: { hdr.longer.setInvalid(); }
            8: { hdr.kind.value = 0x80; }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
