// `Checksum` of PNA: a header of variable length is added piece by piece. The parser verifies the checksum of IPv4 with its options, and the main
// control computes it again. An `InternetChecksum` of a control that is applied twice begins anew each time.
#include <core.p4>
#include <pna.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header options_t { varbit<320> all; }
header crcs_t { bit<16> crc16; bit<32> crc32; bit<16> pair; bit<16> again; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; options_t options; crcs_t crcs; }
struct meta_t { bit<16> left; }

parser P(packet_in p, out headers hdr, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    Checksum<bit<16>>(PNA_HashAlgorithm_t.ONES_COMPLEMENT16) sum;
    state start {
        p.extract(hdr.ethernet);
        p.extract(hdr.ipv4);
        sum.update(hdr.ipv4);
        transition select(hdr.ipv4.ihl) { 5: done; default: options; }
    }
    state options {
        p.extract(hdr.options, ((bit<32>)hdr.ipv4.ihl - 5) * 32);
        sum.update(hdr.options);
        transition done;
    }
    state done {
        // It is zero if the checksum is right.
        m.left = sum.get();
        transition accept;
    }
}
control Pre(in headers h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control Pair(in bit<16> a, in bit<16> b, out bit<16> result) {
    InternetChecksum() sum;
    apply {
        sum.add({ a, b });
        result = sum.get();
    }
}
control I(inout headers hdr, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    Checksum<bit<16>>(PNA_HashAlgorithm_t.ONES_COMPLEMENT16) sum;
    Checksum<bit<16>>(PNA_HashAlgorithm_t.CRC16) crc16;
    Checksum<bit<32>>(PNA_HashAlgorithm_t.CRC32) crc32;
    Pair() pair;
    apply {
        if (m.left == 0) { send_to_port((PortId_t)1); } else { send_to_port((PortId_t)2); }
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        sum.update({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset });
        sum.update({ hdr.ipv4.ttl, hdr.ipv4.protocol });
        sum.update(hdr.ipv4.src ++ hdr.ipv4.dst);
        if (hdr.options.isValid()) {
            sum.update(hdr.options);
        }
        hdr.ipv4.checksum = sum.get();
        hdr.crcs.setValid();
        crc16.update(hdr.ipv4.ttl);
        crc16.update(hdr.ipv4.protocol);
        hdr.crcs.crc16 = crc16.get();
        crc32.update(hdr.ipv4.src);
        crc32.update(hdr.ipv4.dst);
        hdr.crcs.crc32 = crc32.get();
        pair.apply(hdr.ipv4.length, hdr.ipv4.id, hdr.crcs.pair);
        pair.apply(hdr.ipv4.length, hdr.ipv4.id, hdr.crcs.again);
    }
}
control D(packet_out p, in headers hdr, in meta_t m, in pna_main_output_metadata_t o) { apply { p.emit(hdr); } }
PNA_NIC(P(), Pre(), I(), D()) main;
