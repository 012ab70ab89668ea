// Tables with more const entries than become code: exact, ternary (the first entry that matches wins) and longest prefix.

#include <core.p4>
#include <v1model.p4>

header query_t {
    bit<8>  which;
    bit<16> number;
    bit<32> address;
    bit<8>  answer;
}

struct headers { query_t query; }
struct metadata { }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.query); transition accept; }
}

control V(inout headers hdr, inout metadata meta) { apply { } }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action say(bit<8> answer) { hdr.query.answer = answer; }
    action miss() { hdr.query.answer = 0xff; }
    table exacts {
        key = { hdr.query.number: exact; }
        actions = { say; miss; }
        const default_action = miss();
        const entries = {
            16w100 : say(0);
            16w101 : say(1);
            16w102 : say(2);
            16w103 : say(3);
            16w104 : say(4);
            16w105 : say(5);
            16w106 : say(6);
            16w107 : say(7);
            16w108 : say(8);
            16w109 : say(9);
            16w110 : say(10);
            16w111 : say(11);
            16w112 : say(12);
            16w113 : say(13);
            16w114 : say(14);
            16w115 : say(15);
            16w116 : say(16);
            16w117 : say(17);
            16w118 : say(18);
            16w119 : say(19);
            16w120 : say(20);
            16w121 : say(21);
            16w122 : say(22);
            16w123 : say(23);
            16w124 : say(24);
            16w125 : say(25);
            16w126 : say(26);
            16w127 : say(27);
            16w128 : say(28);
            16w129 : say(29);
            16w130 : say(30);
            16w131 : say(31);
            16w132 : say(32);
            16w133 : say(33);
            16w134 : say(34);
            16w135 : say(35);
            16w136 : say(36);
            16w137 : say(37);
            16w138 : say(38);
            16w139 : say(39);
            16w140 : say(40);
            16w141 : say(41);
            16w142 : say(42);
            16w143 : say(43);
            16w144 : say(44);
            16w145 : say(45);
            16w146 : say(46);
            16w147 : say(47);
            16w148 : say(48);
            16w149 : say(49);
            16w150 : say(50);
            16w151 : say(51);
            16w152 : say(52);
            16w153 : say(53);
            16w154 : say(54);
            16w155 : say(55);
            16w156 : say(56);
            16w157 : say(57);
            16w158 : say(58);
            16w159 : say(59);
            16w160 : say(60);
            16w161 : say(61);
            16w162 : say(62);
            16w163 : say(63);
            16w164 : say(64);
            16w165 : say(65);
            16w166 : say(66);
            16w167 : say(67);
            16w168 : say(68);
            16w169 : say(69);
            16w170 : say(70);
            16w171 : say(71);
            16w172 : say(72);
            16w173 : say(73);
            16w174 : say(74);
            16w175 : say(75);
            16w176 : say(76);
            16w177 : say(77);
            16w178 : say(78);
            16w179 : say(79);
        }
    }
    table ternaries {
        key = { hdr.query.address: ternary; }
        actions = { say; miss; }
        const default_action = miss();
        const entries = {
            32w0x10203000 &&& 32w0xffffffff : say(0);
            32w0x11213101 &&& 32w0xffffffff : say(1);
            32w0x12223202 &&& 32w0xffffffff : say(2);
            32w0x13233303 &&& 32w0xffffffff : say(3);
            32w0x14243404 &&& 32w0xffffffff : say(4);
            32w0x15253505 &&& 32w0xffffffff : say(5);
            32w0x16263606 &&& 32w0xffffffff : say(6);
            32w0x17273707 &&& 32w0xffffffff : say(7);
            32w0x18283808 &&& 32w0xffffffff : say(8);
            32w0x19293909 &&& 32w0xffffffff : say(9);
            32w0x1a2a3a0a &&& 32w0xffffffff : say(10);
            32w0x1b2b3b0b &&& 32w0xffffffff : say(11);
            32w0x1c2c3c0c &&& 32w0xffffffff : say(12);
            32w0x1d2d3d0d &&& 32w0xffffffff : say(13);
            32w0x1e2e3e0e &&& 32w0xffffffff : say(14);
            32w0x1f2f3f0f &&& 32w0xffffffff : say(15);
            32w0x20304010 &&& 32w0xffffffff : say(16);
            32w0x21314111 &&& 32w0xffffffff : say(17);
            32w0x22324212 &&& 32w0xffffffff : say(18);
            32w0x23334313 &&& 32w0xffffffff : say(19);
            32w0x24340014 &&& 32w0xffff00ff : say(20);
            32w0x25350015 &&& 32w0xffff00ff : say(21);
            32w0x26360016 &&& 32w0xffff00ff : say(22);
            32w0x27370017 &&& 32w0xffff00ff : say(23);
            32w0x28380018 &&& 32w0xffff00ff : say(24);
            32w0x29390019 &&& 32w0xffff00ff : say(25);
            32w0x2a3a001a &&& 32w0xffff00ff : say(26);
            32w0x2b3b001b &&& 32w0xffff00ff : say(27);
            32w0x2c3c001c &&& 32w0xffff00ff : say(28);
            32w0x2d3d001d &&& 32w0xffff00ff : say(29);
            32w0x2e3e001e &&& 32w0xffff00ff : say(30);
            32w0x2f3f001f &&& 32w0xffff00ff : say(31);
            32w0x30400020 &&& 32w0xffff00ff : say(32);
            32w0x31410021 &&& 32w0xffff00ff : say(33);
            32w0x32420022 &&& 32w0xffff00ff : say(34);
            32w0x33430023 &&& 32w0xffff00ff : say(35);
            32w0x34440024 &&& 32w0xffff00ff : say(36);
            32w0x35450025 &&& 32w0xffff00ff : say(37);
            32w0x36460026 &&& 32w0xffff00ff : say(38);
            32w0x37470027 &&& 32w0xffff00ff : say(39);
            32w0x38005800 &&& 32w0xff00ff00 : say(40);
            32w0x39005900 &&& 32w0xff00ff00 : say(41);
            32w0x3a005a00 &&& 32w0xff00ff00 : say(42);
            32w0x3b005b00 &&& 32w0xff00ff00 : say(43);
            32w0x3c005c00 &&& 32w0xff00ff00 : say(44);
            32w0x3d005d00 &&& 32w0xff00ff00 : say(45);
            32w0x3e005e00 &&& 32w0xff00ff00 : say(46);
            32w0x3f005f00 &&& 32w0xff00ff00 : say(47);
            32w0x40006000 &&& 32w0xff00ff00 : say(48);
            32w0x41006100 &&& 32w0xff00ff00 : say(49);
            32w0x42006200 &&& 32w0xff00ff00 : say(50);
            32w0x43006300 &&& 32w0xff00ff00 : say(51);
            32w0x44006400 &&& 32w0xff00ff00 : say(52);
            32w0x45006500 &&& 32w0xff00ff00 : say(53);
            32w0x46006600 &&& 32w0xff00ff00 : say(54);
            32w0x47006700 &&& 32w0xff00ff00 : say(55);
            32w0x48006800 &&& 32w0xff00ff00 : say(56);
            32w0x49006900 &&& 32w0xff00ff00 : say(57);
            32w0x4a006a00 &&& 32w0xff00ff00 : say(58);
            32w0x4b006b00 &&& 32w0xff00ff00 : say(59);
            32w0x40000000 &&& 32w0xf0000000 : say(60);
            32w0x50000000 &&& 32w0xf0000000 : say(61);
        }
    }
    table prefixes {
        key = { hdr.query.address: lpm; }
        actions = { say; miss; }
        const default_action = miss();
        size = 16;
        const entries = {
            32w0x0a000000 &&& 32w0xff000000 : say(0);
            32w0x0a000000 &&& 32w0xffff0000 : say(1);
            32w0x0a000000 &&& 32w0xffffff00 : say(2);
            32w0x0a000000 &&& 32w0xffffffff : say(3);
            32w0x0b000000 &&& 32w0xff000000 : say(4);
            32w0x0b020000 &&& 32w0xffff0000 : say(5);
            32w0x0b020300 &&& 32w0xffffff00 : say(6);
            32w0x0b020304 &&& 32w0xffffffff : say(7);
            32w0x0c000000 &&& 32w0xff000000 : say(8);
            32w0x0c040000 &&& 32w0xffff0000 : say(9);
            32w0x0c040600 &&& 32w0xffffff00 : say(10);
            32w0x0c040608 &&& 32w0xffffffff : say(11);
            32w0x0d000000 &&& 32w0xff000000 : say(12);
            32w0x0d060000 &&& 32w0xffff0000 : say(13);
            32w0x0d060900 &&& 32w0xffffff00 : say(14);
            32w0x0d06090c &&& 32w0xffffffff : say(15);
            32w0x0e000000 &&& 32w0xff000000 : say(16);
            32w0x0e080000 &&& 32w0xffff0000 : say(17);
            32w0x0e080c00 &&& 32w0xffffff00 : say(18);
            32w0x0e080c10 &&& 32w0xffffffff : say(19);
            32w0x0f000000 &&& 32w0xff000000 : say(20);
            32w0x0f0a0000 &&& 32w0xffff0000 : say(21);
            32w0x0f0a0f00 &&& 32w0xffffff00 : say(22);
            32w0x0f0a0f14 &&& 32w0xffffffff : say(23);
            32w0x10000000 &&& 32w0xff000000 : say(24);
            32w0x100c0000 &&& 32w0xffff0000 : say(25);
            32w0x100c1200 &&& 32w0xffffff00 : say(26);
            32w0x100c1218 &&& 32w0xffffffff : say(27);
            32w0x11000000 &&& 32w0xff000000 : say(28);
            32w0x110e0000 &&& 32w0xffff0000 : say(29);
            32w0x110e1500 &&& 32w0xffffff00 : say(30);
            32w0x110e151c &&& 32w0xffffffff : say(31);
            32w0x12000000 &&& 32w0xff000000 : say(32);
            32w0x12100000 &&& 32w0xffff0000 : say(33);
            32w0x12101800 &&& 32w0xffffff00 : say(34);
            32w0x12101820 &&& 32w0xffffffff : say(35);
            32w0x13000000 &&& 32w0xff000000 : say(36);
            32w0x13120000 &&& 32w0xffff0000 : say(37);
            32w0x13121b00 &&& 32w0xffffff00 : say(38);
            32w0x13121b24 &&& 32w0xffffffff : say(39);
            32w0x14000000 &&& 32w0xff000000 : say(40);
            32w0x14140000 &&& 32w0xffff0000 : say(41);
            32w0x14141e00 &&& 32w0xffffff00 : say(42);
            32w0x14141e28 &&& 32w0xffffffff : say(43);
            32w0x15000000 &&& 32w0xff000000 : say(44);
            32w0x15160000 &&& 32w0xffff0000 : say(45);
            32w0x15162100 &&& 32w0xffffff00 : say(46);
            32w0x1516212c &&& 32w0xffffffff : say(47);
            32w0x16000000 &&& 32w0xff000000 : say(48);
            32w0x16180000 &&& 32w0xffff0000 : say(49);
            32w0x16182400 &&& 32w0xffffff00 : say(50);
            32w0x16182430 &&& 32w0xffffffff : say(51);
            32w0x17000000 &&& 32w0xff000000 : say(52);
            32w0x171a0000 &&& 32w0xffff0000 : say(53);
            32w0x171a2700 &&& 32w0xffffff00 : say(54);
            32w0x171a2734 &&& 32w0xffffffff : say(55);
            32w0x18000000 &&& 32w0xff000000 : say(56);
            32w0x181c0000 &&& 32w0xffff0000 : say(57);
            32w0x181c2a00 &&& 32w0xffffff00 : say(58);
            32w0x181c2a38 &&& 32w0xffffffff : say(59);
            32w0x19000000 &&& 32w0xff000000 : say(60);
            32w0x191e0000 &&& 32w0xffff0000 : say(61);
            32w0x191e2d00 &&& 32w0xffffff00 : say(62);
            32w0x191e2d3c &&& 32w0xffffffff : say(63);
            32w0x1a000000 &&& 32w0xff000000 : say(64);
            32w0x1a200000 &&& 32w0xffff0000 : say(65);
            32w0x1a203000 &&& 32w0xffffff00 : say(66);
            32w0x1a203040 &&& 32w0xffffffff : say(67);
            32w0x1b000000 &&& 32w0xff000000 : say(68);
            32w0x1b220000 &&& 32w0xffff0000 : say(69);
            32w0x1b223300 &&& 32w0xffffff00 : say(70);
            32w0x1b223344 &&& 32w0xffffffff : say(71);
            32w0x1c000000 &&& 32w0xff000000 : say(72);
            32w0x1c240000 &&& 32w0xffff0000 : say(73);
            32w0x1c243600 &&& 32w0xffffff00 : say(74);
            32w0x1c243648 &&& 32w0xffffffff : say(75);
            32w0x1d000000 &&& 32w0xff000000 : say(76);
            32w0x1d260000 &&& 32w0xffff0000 : say(77);
            32w0x1d263900 &&& 32w0xffffff00 : say(78);
            32w0x1d26394c &&& 32w0xffffffff : say(79);
        }
    }
    apply {
        standard.egress_spec = 1;
        if (hdr.query.which == 1) {
            exacts.apply();
        } else if (hdr.query.which == 2) {
            ternaries.apply();
        } else {
            prefixes.apply();
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.query); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
