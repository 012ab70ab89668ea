"""PTF, unmodified, with the package `p4runtime`: tables of kinds.p4, a multicast group and packets of the controller.

ptf --test-dir tests/p4runtime/ptf -i 0@q0 -i 1@q1 -i 2@q2 --test-params "address='127.0.0.1:9559'"
"""

import queue

import grpc
import ptf
import ptf.testutils as tu
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc as stubs
from ptf.base_tests import BaseTest

CPU = 64


class P4RuntimeTest(BaseTest):
    """A test whose client is the primary; what it writes is removed at its end."""

    def setUp(self):
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.channel = grpc.insecure_channel(tu.test_param_get("address", "127.0.0.1:9559"))
        self.stub = stubs.P4RuntimeStub(self.channel)
        self.out = queue.Queue()
        self.stream = self.stub.StreamChannel(iter(self.out.get, None))
        message = p4rt.StreamMessageRequest()
        message.arbitration.device_id = 1
        message.arbitration.election_id.low = 1
        self.out.put(message)
        self.assertEqual(next(self.stream).arbitration.status.code, 0)
        request = p4rt.GetForwardingPipelineConfigRequest(device_id=1)
        self.info = self.stub.GetForwardingPipelineConfig(request).config.p4info
        self.written = []

    def tearDown(self):
        for update in reversed(self.written):
            update.type = p4rt.Update.DELETE
            self.write(update)
        self.out.put(None)
        self.channel.close()
        super().tearDown()

    def id(self, name=None):
        if name is None:
            return super().id()
        objects = list(self.info.tables) + list(self.info.actions)
        return next(o.preamble.id for o in objects if o.preamble.name == name)

    def write(self, update):
        request = p4rt.WriteRequest(device_id=1, updates=[update])
        request.election_id.low = 1
        self.stub.Write(request)

    def insert(self, update):
        update.type = p4rt.Update.INSERT
        self.write(update)
        self.written.append(update)

    def send_by_exact(self, dst, port, to):
        update = p4rt.Update()
        entry = update.entity.table_entry
        entry.table_id = self.id("I.exact_")
        entry.match.add(field_id=1).exact.value = dst
        entry.match.add(field_id=2).exact.value = bytes([port])
        entry.action.action.action_id = self.id("I.send")
        entry.action.action.params.add(param_id=1, value=bytes([to]))
        self.insert(update)


class ExactTest(P4RuntimeTest):
    def runTest(self):
        packet = tu.simple_eth_packet(eth_dst="02:00:00:00:00:01", eth_type=0x1001)
        tu.send_packet(self, 0, packet)
        tu.verify_no_packet(self, packet, 2, timeout=0.3)
        self.send_by_exact(b"\x02\x00\x00\x00\x00\x01", 0, 2)
        tu.send_packet(self, 0, packet)
        tu.verify_packets(self, packet, ports=[2])


class MulticastTest(P4RuntimeTest):
    def runTest(self):
        update = p4rt.Update()
        group = update.entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = 1
        for port in (1, 2):
            group.replicas.add(egress_port=port, instance=1)
        self.insert(update)
        packet = tu.simple_eth_packet(eth_type=0x1006)
        tu.send_packet(self, 0, packet)
        tu.verify_packets(self, packet, ports=[1, 2])


class PacketIoTest(P4RuntimeTest):
    def runTest(self):
        packet = tu.simple_eth_packet(eth_type=0x1009)
        tu.send_packet(self, 1, packet)
        message = next(m for m in self.stream if m.HasField("packet"))
        self.assertEqual(message.packet.payload, bytes(packet))
        self.assertEqual({m.metadata_id: m.value for m in message.packet.metadata}, {1: b"\x01", 2: b"\x01"})
        out = p4rt.StreamMessageRequest()
        out.packet.payload = bytes(packet)
        out.packet.metadata.add(metadata_id=1, value=b"\x02")
        out.packet.metadata.add(metadata_id=2, value=b"\x00")
        self.out.put(out)
        tu.verify_packet(self, packet, 2)
