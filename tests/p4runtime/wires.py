"""Frames on the other ends of a switch's ports."""

import errno
import select
import socket
import time

ETH_P_ALL = 3


class Wires:
    """The far ends of the switch's ports: interfaces in this network namespace, in the order of the ports' numbers."""

    def __init__(self, interfaces):
        self.sockets = []
        for interface in interfaces:
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            s.bind((interface, 0))
            self.sockets.append(s)

    def send(self, port, frame):
        self.sockets[port].send(frame)

    def clear(self):
        for s in self.sockets:
            while select.select([s], [], [], 0)[0]:
                took(s)

    def receive(self, wait=2.0, settle=0.1):
        """The frames that arrive, as (port, frame) in their order: those of `settle` seconds behind the first one, which has `wait` seconds."""
        found, end = [], time.monotonic() + wait
        while (left := end - time.monotonic()) > 0:
            for s in select.select(self.sockets, [], [], left)[0]:
                frame, address = took(s)
                if frame is None or address[2] == socket.PACKET_OUTGOING:
                    continue
                if not found:
                    end = time.monotonic() + settle
                found.append((self.sockets.index(s), frame))
        return found


def took(s):
    """What has arrived; no frame if it is that the interface went down, which a packet socket says once."""
    try:
        return s.recvfrom(1 << 16)
    except OSError as why:
        if why.errno != errno.ENETDOWN:
            raise
        return None, None


def frame(dst, src, ethertype, payload=b"payload of a frame that is long enough for Ethernet"):
    """A frame; addresses are numbers."""
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ethertype.to_bytes(2, "big") + payload
