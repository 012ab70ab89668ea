"""p4runtime-shell, unmodified, drives every kind of object of kinds.p4, and frames prove it.

Usage: shell_client.py ADDRESS P4INFO PROGRAM INTERFACE...
PROGRAM is pushed; with "-" the program runs already. The interfaces are the far ends of ports 0, 1, 2.
"""

import os
import subprocess
import sys
import time
import traceback

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

from wires import Wires, frame

ADDRESS, P4INFO, PROGRAM = sys.argv[1:4]
HOST, OTHER = 0x020000000001, 0x020000000002


def ended(*error):
    """The shell's threads wait for messages for ever, so a failure ends the process."""
    traceback.print_exception(*error)
    sys.stderr.flush()
    os._exit(1)


sys.excepthook = ended


def check(what, condition):
    print(("ok   " if condition else "FAIL ") + what, flush=True)
    if not condition:
        failed.append(what)


def refused(what, code, act):
    try:
        act()
        check(f"{what} is refused", False)
    except P4RuntimeWriteException as why:
        codes = [error.canonical_code for _, error in why.errors]
        check(f"{what} is refused with {code}", code in codes)
    except Exception as why:  # noqa: BLE001
        check(f"{what} is refused, not {why!r}", False)


failed = []
wires = Wires(sys.argv[4:])
config = None if PROGRAM == "-" else sh.FwdPipeConfig(P4INFO, PROGRAM)
started = time.monotonic()
sh.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), config=config, verbose=False)
print(f"set up after {time.monotonic() - started:.2f} s", flush=True)
check("the API's version", sh.APIVersion() == "1.5.0")


def through(port, sent, expected, what):
    """A frame goes in, and exactly these come out."""
    wires.clear()
    wires.send(port, sent)
    got = sorted(wires.receive(wait=2.0 if expected else 0.3))
    check(f"{what}: {[(p, f[:14].hex()) for p, f in got] if got != sorted(expected) else len(got)}", got == sorted(expected))


# Lpm, with a counter and a meter for each entry.
entry = sh.TableEntry("I.route")(action="I.send_routed")
entry.match["dst"] = "0.0.0.0/8"
entry.action["port"] = "1"
entry.action["dst"] = "02:00:00:00:00:aa"
entry.insert()
through(0, frame(HOST, OTHER, 0x0800), [(1, frame(0x0200000000AA, OTHER, 0x0800))], "lpm")
refused("the same entry", 6, entry.insert)
time.sleep(1.2)
read = [e for e in sh.TableEntry("I.route").read()]
check("one route is read", len(read) == 1 and read[0].match["dst"].lpm.prefix_len == 8)
counter = next(iter(sh.DirectCounterEntry("I.routed").read()))
check(f"the entry's counter: {counter.packet_count} packets", counter.packet_count == 1 and counter.byte_count == len(frame(0, 0, 0)))
counter.packet_count = 0
counter.byte_count = 0
counter.modify()
meter = sh.DirectMeterEntry("I.routed_rate")
meter.table_entry.match["dst"] = "0.0.0.0/8"
meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 1, 1, 1
meter.modify()
got = next(iter(sh.DirectMeterEntry("I.routed_rate").read()))
check(f"the entry's meter: {got.cir} {got.pburst}", (got.cir, got.cburst, got.pir, got.pburst) == (1, 1, 1, 1))
wires.clear()
for _ in range(5):
    wires.send(0, frame(HOST, OTHER, 0x0800))
check("the meter drops", len(wires.receive()) < 5)
entry.delete()
through(0, frame(HOST, OTHER, 0x0800), [], "a deleted route")

# Exact.
entry = sh.TableEntry("exact_")(action="send")
entry.match["dst"] = "02:00:00:00:00:01"
entry.match["port"] = "0"
entry.action["port"] = "2"
entry.insert()
through(0, frame(HOST, OTHER, 0x1001), [(2, frame(HOST, OTHER, 0x1001))], "exact")
through(1, frame(HOST, OTHER, 0x1001), [], "exact, from another port")
entry.action["port"] = "1"
entry.modify()
through(0, frame(HOST, OTHER, 0x1001), [(1, frame(HOST, OTHER, 0x1001))], "a modified entry")

# Idle timeout.
entry.idle_timeout_ns = 300_000_000
entry.modify()
idle = sh.IdleTimeoutNotification().sniff(timeout=3)
ids = [e.table_id for message in idle for e in message.idle_timeout_notification.table_entry]
check(f"an idle entry is reported: {len(ids)} times", len(ids) >= 1)
entry.delete()

# Ternary: the larger priority wins.
low = sh.TableEntry("ternary_")(action="send")
low.match["dst"] = "02:00:00:00:00:00&&&ff:00:00:00:00:00"
low.action["port"] = "1"
low.priority = 1
low.insert()
high = sh.TableEntry("ternary_")(action="send")
high.match["dst"] = "02:00:00:00:00:01&&&ff:ff:ff:ff:ff:ff"
high.action["port"] = "2"
high.priority = 10
high.insert()
through(0, frame(HOST, OTHER, 0x1002), [(2, frame(HOST, OTHER, 0x1002))], "ternary, priority 10")
through(0, frame(OTHER, HOST, 0x1002), [(1, frame(OTHER, HOST, 0x1002))], "ternary, priority 1")
without = sh.TableEntry("ternary_")(action="send")
without.match["dst"] = "02:00:00:00:00:07&&&ff:ff:ff:ff:ff:ff"
without.action["port"] = "2"
refused("a ternary entry without a priority", 3, without.insert)

# Range and optional.
entry = sh.TableEntry("range_")(action="send")
entry.match["dst"] = "1..5"
entry.action["port"] = "1"
entry.priority = 1
entry.insert()
through(0, frame(HOST, OTHER, 0x1003), [(1, frame(HOST, OTHER, 0x1003))], "range")
through(0, frame(9, OTHER, 0x1003), [], "beyond the range")
entry = sh.TableEntry("optional_")(action="send")
entry.match["dst"] = "02:00:00:00:00:01"
entry.action["port"] = "2"
entry.priority = 1
entry.insert()
through(0, frame(HOST, OTHER, 0x1004), [(2, frame(HOST, OTHER, 0x1004))], "optional")

# Members and a group; then the same by a one-shot.
for number, port in ((1, "1"), (2, "2")):
    member = sh.ActionProfileMember("I.selector")(member_id=number, action="send")
    member.action["port"] = port
    member.insert()
group = sh.ActionProfileGroup("I.selector")(group_id=1)
group.add(1, watch_port=b"\x01")
group.add(2, watch_port=b"\x02")
group.insert()
entry = sh.TableEntry("group")
entry.match["dst"] = "02:00:00:00:00:01"
entry.group_id = 1
entry.insert()


def used(expected, what):
    """The ports that 40 flows leave by, which are these within a second."""
    for _ in range(5):
        wires.clear()
        for n in range(40):
            # The last two bits of crc16 are the parity of the last byte: other bytes change, too.
            wires.send(0, frame(HOST, OTHER + 259 * n, 0x1005))
        ports = {port for port, _ in wires.receive(wait=0.5 if expected else 0.2, settle=0.3)}
        if ports == expected:
            break
        time.sleep(0.2)
    check(f"{what}: {ports}", ports == expected)


def link(port, state):
    """The link of a port goes or comes."""
    subprocess.run(["ip", "link", "set", sys.argv[4 + port], state], check=True)


used({1, 2}, "both members of the group are used")
link(1, "down")
used({2}, "a member whose watch port is down is left out")
read = next(iter(sh.ActionProfileGroup("I.selector").read()))
check("the group is read as it was written", [(m.member_id, m.watch_port) for m in read.members] == [(1, b"\x01"), (2, b"\x02")])
refused("the deletion of a member that is left out", 9, sh.ActionProfileMember("I.selector")(member_id=1).delete)
link(2, "down")
# A group without members is no action, so a frame goes where `egress_spec` says from the beginning: port 0.
used({0}, "no member is left")
link(1, "up")
link(2, "up")
used({1, 2}, "both are back")
entry.delete()
group.delete()
for number in (1, 2):
    sh.ActionProfileMember("I.selector")(member_id=number).delete()
entry = sh.TableEntry("group")
entry.match["dst"] = "02:00:00:00:00:01"
one_shot = sh.Oneshot("group")
action = sh.Action("send")
action["port"] = "2"
one_shot.add(action, weight=3)
action = sh.Action("send")
action["port"] = "1"
one_shot.add(action, weight=1, watch_port=b"\x01")
entry.oneshot = one_shot
link(1, "down")
time.sleep(0.2)
entry.insert()
through(0, frame(HOST, OTHER, 0x1005), [(2, frame(HOST, OTHER, 0x1005))], "a one-shot")
read = next(iter(sh.TableEntry("group").read()))
check("the one-shot is read as it was written", [(a.weight, a.watch_port) for a in read.oneshot.actions] == [(3, b""), (1, b"\x01")])
link(1, "up")
used({1, 2}, "the port is back, and both actions are used")
check("its members are not seen", len([m for m in sh.ActionProfileMember("I.selector").read()]) == 0)
entry.delete()

# Multicast and clones.
group = sh.MulticastGroupEntry(1)
group.add(1, 1)
group.add(2, 1)
group.insert()
sent = frame(HOST, OTHER, 0x1006)
through(0, sent, [(1, sent), (2, sent)], "multicast")
session = sh.CloneSessionEntry(5)
session.add(2, 0)
session.insert()
sent = frame(HOST, OTHER, 0x1007)
through(0, sent, [(2, sent)], "a clone")
session = sh.CloneSessionEntry(5)
session.add(1, 1)
session.add(2, 2)
session.modify()
through(0, sent, [(1, sent), (2, sent)], "a clone with two replicas")
check("the session is read as it was written", len(next(iter(sh.CloneSessionEntry(5).read())).replicas) == 2)
check("its group is not seen", [g.group_id for g in sh.MulticastGroupEntry().read()] == [1])

# Counter, meter, register.
wires.send(0, frame(HOST, OTHER, 0x100A))
time.sleep(1.2)
cell = sh.CounterEntry("I.arrived")
cell.index = 3
check("the counter's cell", next(iter(cell.read())).packet_count == 1)
cells = [c for c in sh.CounterEntry("I.arrived").read()]
check(f"all cells are read: {len(cells)}", len(cells) == 8)
meter = sh.MeterEntry("I.rate")
meter.index = 3
meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 1, 2, 2
meter.modify()
read = next(iter(meter.read()))
check(f"the meter's cell: {read.cir} {read.pir}", (read.cir, read.cburst, read.pir, read.pburst) == (1, 1, 2, 2))

# Packets of the controller.
packets = sh.PacketIn()
wires.send(1, frame(HOST, OTHER, 0x1009))
found = []
packets.sniff(lambda packet: found.append(packet), timeout=2)
check(f"packet-in: {len(found)}", len(found) == 1)
if found:
    metadata = {m.metadata_id: m.value for m in found[0].packet.metadata}
    check(f"its metadata: {metadata}", metadata == {1: b"\x01", 2: b"\x01"})
    check("its payload", found[0].packet.payload == frame(HOST, OTHER, 0x1009))
out = sh.PacketOut(frame(HOST, OTHER, 0x1234), egress_port="2", padding="0")
wires.clear()
out.send()
check("packet-out", wires.receive() == [(2, frame(HOST, OTHER, 0x1234))])

# Digests.
digest = sh.DigestEntry("learnt_t")
digest.ack_timeout_ns, digest.max_timeout_ns, digest.max_list_size = 1_000_000_000, 10_000_000, 10
digest.insert()
wires.send(2, frame(HOST, OTHER, 0x1008))
wires.send(2, frame(HOST, OTHER, 0x1008))
lists = list(sh.DigestList().sniff(timeout=2))
learnt = [[m.bitstring for m in d.struct.members] for message in lists for d in message.digest.data]
check(f"equal digests are sent once: {learnt}", learnt == [[OTHER.to_bytes(6, "big"), b"\x02"]])

print("failed: " + ", ".join(failed) if failed else "all passed", flush=True)
os._exit(1 if failed else 0)
