// Incremental checksums of which tc cannot tell what a partial checksum becomes. The others are of IPv4, or follow the rules.
#include <core.p4>
#include <pna.p4>

header ipv4_t { bit<64> first; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
header tcp_t { bit<16> src; bit<16> dst; bit<96> rest; bit<16> checksum; bit<16> urgent; }
header other_t { bit<16> kind; bit<16> value; bit<16> checksum; bit<32> rest; }
struct headers { ipv4_t ipv4; tcp_t tcp; other_t other; }
struct metadata { bit<16> state; bit<16> based; bit<16> hidden; bit<16> number; bit<32> pair; bit<16> nowhere; bit<16> mixed; bit<16> port; }

parser P(packet_in b, out headers hdr, inout metadata m, in pna_main_parser_input_metadata_t i) {
    state start {
        b.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 6: tcp; 200: other; default: accept; }
    }
    state tcp { b.extract(hdr.tcp); transition accept; }
    state other { b.extract(hdr.other); transition accept; }
}
control Pre(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control I(inout headers hdr, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    Register<bit<16>, bit<32>>(16) kept;
    InternetChecksum() of_ipv4;
    InternetChecksum() of_tcp;
    InternetChecksum() of_unknown;
    InternetChecksum() of_constant;
    InternetChecksum() of_mixed;
    InternetChecksum() of_kept;
    InternetChecksum() of_based;
    Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) hash;
    InternetChecksum() of_pair;
    InternetChecksum() of_other;
    action known(bit<16> port, bit<16> nowhere) { m.port = port; m.nowhere = nowhere; hdr.tcp.src = port; }
    table ports {
        key = { hdr.ipv4.src : exact; }
        actions = { known; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply {
        ports.apply();
        of_ipv4.subtract({ hdr.ipv4.checksum, m.nowhere });
        of_ipv4.add(16w7);
        hdr.ipv4.checksum = of_ipv4.get();
        of_tcp.subtract({ hdr.tcp.checksum, hdr.ipv4.src, 8w0, hdr.ipv4.protocol });
        of_tcp.add({ 16w6, hdr.ipv4.src, m.port });
        hdr.tcp.checksum = of_tcp.get() == 0 ? 16w0xffff : of_tcp.get();
        of_unknown.subtract({ hdr.tcp.checksum });
        of_unknown.add({ m.nowhere }); // unsupported: may be in the pseudo-header or not
        hdr.tcp.checksum = of_unknown.get();
        of_constant.subtract({ hdr.tcp.checksum });
        of_constant.add(16w80); // unsupported: may be in the pseudo-header or not
        hdr.tcp.checksum = of_constant.get();
        m.mixed = hdr.tcp.src;
        if (hdr.ipv4.ttl == 3) { m.mixed = hdr.ipv4.src[15:0]; }
        of_mixed.subtract({ hdr.tcp.checksum });
        of_mixed.add(m.mixed); // unsupported: may be in the pseudo-header or not
        hdr.tcp.checksum = of_mixed.get();
        of_kept.subtract({ hdr.tcp.checksum, hdr.tcp.src });
        kept.write(0, of_kept.get_state());
        m.state = kept.read(0); // unsupported: computed by more than the methods
        of_kept.set_state(m.state);
        hdr.tcp.checksum = of_kept.get();
        of_based.subtract({ hdr.tcp.checksum, hdr.tcp.src });
        m.based = hash.get_hash(of_based.get_state(), { hdr.ipv4.ttl }, 16w1); // unsupported: computed by more than the methods
        of_based.set_state(m.based);
        hdr.tcp.checksum = of_based.get();
        m.pair = hdr.tcp.checksum ++ hdr.tcp.urgent;
        of_pair.subtract(m.pair); // unsupported: computed by more than the methods
        hdr.tcp.checksum = of_pair.get();
        m.number = ~hdr.tcp.checksum + 1; // what is only counted does no harm
        of_other.subtract({ hdr.other.checksum, hdr.other.value });
        hdr.other.value = 3;
        of_other.add(hdr.other.value);
        hdr.other.checksum = of_other.get(); // unsupported: not clear whether it covers the payload
        send_to_port((PortId_t) 1);
    }
}
control D(packet_out b, in headers hdr, in metadata m, in pna_main_output_metadata_t o) { apply { b.emit(hdr); } }
PNA_NIC(P(), Pre(), I(), D()) main;
