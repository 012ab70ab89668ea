// `Checksum` of PSA: a hash of data that comes in pieces. Each function is continued over pieces of odd and even lengths, over a header, a list
// and fields within a byte, in a parser, in both deparsers and in a control that is applied twice. `clear` and each application begin anew.
#include <core.p4>
#include <psa.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header op_t { bit<8> op; bit<8> count; }
header digits_t { bit<4> high; bit<4> low; bit<32> middle; bit<24> last; bit<8> ninth; }
header item_t { bit<24> value; }
header sums_t {
    bit<32> crc32; bit<16> crc16; bit<16> ones; bit<64> identity;
    bit<8> narrow; bit<48> wide; bit<16> items; bit<32> twice; bit<32> again; bit<32> egress; bit<16> none;
}
struct headers { eth_t eth; op_t op; digits_t d; item_t item; sums_t sums; }
struct meta_t { bit<16> items; }
struct empty_t {}

// Each application begins anew, although the instance is one.
control Sub(in bit<32> value, out bit<32> sum) {
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc;
    apply {
        crc.update(value);
        sum = crc.get();
    }
}

parser IP(packet_in p, out headers hdr, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t r, in empty_t c) {
    Checksum<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) items;
    state start {
        p.extract(hdr.eth);
        p.extract(hdr.op);
        p.extract(hdr.d);
        transition select(hdr.op.count) { 0: done; 1: one; 2: two; default: three; }
    }
    state three { p.extract(hdr.item); items.update(hdr.item); transition two; }
    state two { p.extract(hdr.item); items.update(hdr.item); transition one; }
    state one { p.extract(hdr.item); items.update(hdr.item); transition done; }
    state done {
        m.items = items.get();
        transition accept;
    }
}
control I(inout headers hdr, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    Sub() sub;
    apply {
        send_to_port(o, (PortId_t)1);
        hdr.item.setInvalid();
        hdr.sums.setValid();
        hdr.sums.items = m.items;
        sub.apply(hdr.d.middle, hdr.sums.twice);
        sub.apply(hdr.d.middle, hdr.sums.again);
    }
}
control ID(packet_out b, out empty_t c, out empty_t r, out empty_t n, inout headers hdr, in meta_t m, in psa_ingress_output_metadata_t o) {
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Checksum<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc16;
    Checksum<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) ones;
    Checksum<bit<64>>(PSA_HashAlgorithm_t.IDENTITY) identity;
    Checksum<bit<8>>(PSA_HashAlgorithm_t.CRC32_CUSTOM) narrow;
    Checksum<bit<48>>(PSA_HashAlgorithm_t.CRC16_CUSTOM) wide;
    Checksum<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) none;
    apply {
        // What was added before `clear` does not count.
        crc32.update(hdr.eth.dst);
        ones.update(hdr.op.op);
        identity.update(hdr.op.op);
        crc32.clear();
        ones.clear();
        identity.clear();
        if (hdr.op.op == 1) {
            // In three pieces: 1, 5 and 3 bytes.
            crc32.update({ hdr.d.high, hdr.d.low });
            crc32.update({ hdr.d.middle, hdr.d.last[23:16] });
            crc32.update({ hdr.d.last[15:0], hdr.d.ninth });
            crc16.update({ hdr.d.high, hdr.d.low });
            crc16.update(hdr.d.middle);
            crc16.update({ hdr.d.last, hdr.d.ninth });
            ones.update({ hdr.d.high, hdr.d.low });
            ones.update({ hdr.d.middle, hdr.d.last[23:16] });
            ones.update({ hdr.d.last[15:0], hdr.d.ninth });
            identity.update({ hdr.d.high, hdr.d.low });
            identity.update({ hdr.d.middle, hdr.d.last[23:16] });
            identity.update({ hdr.d.last[15:0], hdr.d.ninth });
        } else {
            // At once.
            crc32.update(hdr.d);
            crc16.update(hdr.d);
            ones.update(hdr.d);
            identity.update(hdr.d.middle);
        }
        narrow.update(hdr.d);
        wide.update(hdr.d);
        hdr.sums.crc32 = crc32.get();
        hdr.sums.crc16 = crc16.get();
        hdr.sums.ones = ones.get();
        hdr.sums.identity = identity.get();
        hdr.sums.narrow = narrow.get();
        hdr.sums.wide = wide.get();
        hdr.sums.none = none.get();
        b.emit(hdr);
    }
}
parser EP(packet_in p, out headers hdr, inout meta_t m, in psa_egress_parser_input_metadata_t i, in empty_t n, in empty_t c, in empty_t e) {
    state start {
        p.extract(hdr.eth);
        p.extract(hdr.op);
        p.extract(hdr.d);
        p.extract(hdr.sums);
        transition accept;
    }
}
control E(inout headers hdr, inout meta_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) { apply {} }
control ED(packet_out b, out empty_t c, out empty_t r, inout headers hdr, in meta_t m, in psa_egress_output_metadata_t o,
           in psa_egress_deparser_input_metadata_t d) {
    Checksum<bit<32>>(PSA_HashAlgorithm_t.TARGET_DEFAULT) crc;
    apply {
        crc.update({ hdr.d.high, hdr.d.low, hdr.d.middle });
        if (hdr.op.op == 1) {
            crc.update({ hdr.d.last, hdr.d.ninth });
        }
        hdr.sums.egress = crc.get();
        b.emit(hdr);
    }
}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
