"""Plays packet tests over P4Runtime with the package `p4runtime` of PyPI: entries by Write, frames over the far ends of the ports.

Usage: stf_client.py ADDRESS PORT=INTERFACE,… CASE.stf…
The program runs already. Cases with statements that are not about entries and packets are left out, and counted.
"""

import ipaddress
import queue
import re
import sys
import time

import grpc
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc as stubs

from wires import Wires


class Left(Exception):
    """The case has something that this client does not know."""


class Switch:
    """A device whose primary this client is."""

    def __init__(self, address):
        self.stub = stubs.P4RuntimeStub(grpc.insecure_channel(address))
        self.out = queue.Queue()
        self.stream = self.stub.StreamChannel(iter(self.out.get, None))
        message = p4rt.StreamMessageRequest()
        message.arbitration.device_id = 1
        message.arbitration.election_id.low = 1
        self.out.put(message)
        assert next(self.stream).arbitration.status.code == 0, "another controller is the primary"
        request = p4rt.GetForwardingPipelineConfigRequest(device_id=1)
        self.info = self.stub.GetForwardingPipelineConfig(request).config.p4info

    def write(self, updates):
        if updates:
            request = p4rt.WriteRequest(device_id=1, updates=updates)
            request.election_id.low = 1
            self.stub.Write(request)

    def read(self, entity):
        for answer in self.stub.Read(p4rt.ReadRequest(device_id=1, entities=[entity])):
            yield from answer.entities

    def clear(self):
        """Removes what earlier cases have written."""
        entity = p4rt.Entity()
        entity.table_entry.SetInParent()
        own = [e for e in self.read(entity) if not e.table_entry.is_const]
        updates = [p4rt.Update(type=p4rt.Update.DELETE, entity=e) for e in own]
        for table in self.info.tables:
            if not table.const_default_action_id:
                entity = p4rt.Entity()
                entity.table_entry.table_id = table.preamble.id
                entity.table_entry.is_default_action = True
                updates.append(p4rt.Update(type=p4rt.Update.MODIFY, entity=entity))
        self.write(updates)

    def find(self, objects, name):
        """The object with a name, or the only one whose name ends so."""
        exact = [o for o in objects if o.preamble.name == name]
        ends = exact or [o for o in objects if o.preamble.name.endswith("." + name)]
        if len(ends) != 1:
            raise Left(f"{len(ends)} objects are called {name}")
        return ends[0]

    def entry(self, line, default):
        """`add TABLE [PRIORITY] KEY:VALUE… ACTION(…)` or `setdefault TABLE ACTION(…)`, as an update."""
        head, args = re.fullmatch(r"(.*?)\((.*)\)\s*", line).groups()
        words = head.split()
        table = self.find(self.info.tables, words[1])
        update = p4rt.Update(type=p4rt.Update.MODIFY if default else p4rt.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id, entry.is_default_action = table.preamble.id, default
        keys = words[2:-1]
        if keys and re.fullmatch(r"\d+", keys[0]):
            entry.priority = int(keys.pop(0))
        for key in keys:
            name, value = key.split(":", 1)
            self.match(entry, table, name, value)
        listed = [a for a in self.info.actions if a.preamble.id in {r.id for r in table.action_refs}]
        action = self.find(listed, words[-1])
        entry.action.action.action_id = action.preamble.id
        for pair in filter(None, (p.strip() for p in args.split(","))):
            name, value = (p.strip() for p in pair.split(":", 1))
            param = next((p for p in action.params if p.name == name), None)
            if param is None:
                raise Left(f"no parameter {name}")
            entry.action.action.params.add(param_id=param.id, value=number(value, param.bitwidth))
        return update

    def match(self, entry, table, name, value):
        field = next((f for f in table.match_fields if f.name == name), None)
        field = field or next((f for f in table.match_fields if f.name.endswith("." + name)), None)
        if field is None:
            raise Left(f"no key {name}")
        kinds, width = p4info_pb2.MatchField, field.bitwidth
        made = p4rt.FieldMatch(field_id=field.id)
        if field.match_type == kinds.EXACT:
            made.exact.value = number(value, width)
        elif field.match_type == kinds.LPM:
            value, _, length = value.partition("/")
            if "*" in value:
                raise Left("a wildcard in a prefix")
            made.lpm.value, made.lpm.prefix_len = number(value, width), int(length or width)
            if made.lpm.prefix_len == 0:
                return
        elif field.match_type == kinds.TERNARY:
            value, mask = wildcards(value, width)
            if mask == 0:
                return
            made.ternary.value, made.ternary.mask = shortest(value & mask), shortest(mask)
        else:
            raise Left("a match kind that this client does not write")
        entry.match.append(made)


def shortest(value):
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def number(text, width):
    try:
        value = int(text, 0)
    except ValueError:
        try:
            value = int(ipaddress.ip_address(text))
        except ValueError as why:
            raise Left(f"the value {text}") from why
    return shortest(value & ((1 << width) - 1))


def wildcards(text, width):
    """The value and the mask of `0x12**` or of a plain number."""
    if "*" in text and text.startswith("0x"):
        digits = text[2:]
        return int(digits.replace("*", "0"), 16), int("".join("0" if d == "*" else "f" for d in digits), 16)
    return int.from_bytes(number(text, width), "big"), (1 << width) - 1


def fits(expected, frame):
    """Whether a frame is what a line expects: `*` is any nibble, and `$` the end of the frame."""
    digits, ended = expected.replace(" ", "").rstrip("$"), expected.rstrip().endswith("$")
    got = frame.hex()
    if len(got) < len(digits) or (ended and len(got) != len(digits)):
        return False
    return all(e in ("*", g) for e, g in zip(digits.lower(), got))


def play(switch, wires, ports, path):
    updates, packets, expected = [], [], {}
    for line in open(path, encoding="utf-8"):
        line = line.strip()
        word = line.split(" ", 1)[0].lower() if line else ""
        if not line or line.startswith("#"):
            continue
        if word in ("add", "setdefault"):
            if packets:
                raise Left("entries behind packets")
            updates.append(switch.entry(line, word == "setdefault"))
        elif word == "packet":
            _, port, data = line.split(" ", 2)
            packets.append((int(port), bytes.fromhex(data.replace(" ", ""))))
        elif word == "expect":
            parts = line.split(" ", 2)
            expected.setdefault(int(parts[1]), []).append(parts[2] if len(parts) > 2 else "")
        elif word in ("no_packet", "wait", "check_counter"):
            # Counters are checked by `strait test`.
            pass
        else:
            raise Left(word)
    used = {port for port, _ in packets} | set(expected)
    if not packets or not used <= set(ports) or any(not 14 <= len(p) <= 1514 for _, p in packets):
        raise Left("ports or frames that cannot be played")
    switch.clear()
    switch.write(updates)
    wires.clear()
    got = {}
    count = 0
    for port, frame in packets:
        wires.send(ports.index(port), frame)
        time.sleep(0.002)
    wanted, end = sum(map(len, expected.values())), time.monotonic() + 2
    while count < wanted and time.monotonic() < end:
        for at, frame in wires.receive(wait=0.3, settle=0.02):
            got.setdefault(ports[at], []).append(frame)
            count += 1
    for at, frame in wires.receive(wait=0.03, settle=0.02):
        got.setdefault(ports[at], []).append(frame)
    for port in set(got) | set(expected):
        lines, frames = expected.get(port, []), got.get(port, [])
        if len(lines) != len(frames) or not all(fits(line, frame) for line, frame in zip(lines, frames)):
            print(f"FAIL {path}: port {port}: {[f.hex() for f in frames]}, not {lines}", flush=True)
            return False
    return True


def main():
    switch = Switch(sys.argv[1])
    pairs = [pair.split("=") for pair in sys.argv[2].split(",")]
    ports = [int(port) for port, _ in pairs]
    wires = Wires([interface for _, interface in pairs])
    played = failed = left = 0
    for path in sys.argv[3:]:
        try:
            played += 1
            failed += not play(switch, wires, ports, path)
        except Left as why:
            played -= 1
            left += 1
            print(f"left out: {path}: {why}", flush=True)
    print(f"{played} played, {failed} failed, {left} left out", flush=True)
    switch.out.put(None)
    return 1 if failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
