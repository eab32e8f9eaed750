#!/usr/bin/env python3
"""A name server that knows no names: it answers NXDOMAIN and writes down who asked for what, one JSON object a line.

In an air gap nothing should have to ask; the log shows what did. UDP and TCP (RFC 1035, 4.2).
"""
import argparse
import json
import socketserver
import struct
import threading
import time

TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 13: "HINFO", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 65: "HTTPS"}
LOCK = threading.Lock()


def question(message):
    """(name, type, end) of the first question."""
    labels, at = [], 12
    while message[at]:
        length = message[at]
        if length > 63:
            raise ValueError("compressed question")
        labels.append(message[at + 1:at + 1 + length].decode("ascii", "backslashreplace"))
        at += 1 + length
    kind = struct.unpack_from("!H", message, at + 1)[0]
    return ".".join(labels), TYPES.get(kind, str(kind)), at + 5


def answer(message, client, log):
    try:
        name, kind, end = question(message)
    except (IndexError, ValueError, struct.error):
        return None
    with LOCK:
        print(json.dumps({"time": round(time.time(), 3), "client": client, "name": name, "type": kind}), file=log, flush=True)
    (ident, flags) = struct.unpack_from("!HH", message)
    # response, authoritative, the asker's RD bit kept, RCODE 3 (NXDOMAIN)
    return struct.pack("!HHHHHH", ident, 0x8400 | flags & 0x0100 | 3, 1, 0, 0, 0) + message[12:end]


def handlers(log):
    class Udp(socketserver.BaseRequestHandler):
        def handle(self):
            message, sock = self.request
            reply = answer(message, self.client_address[0], log)
            if reply:
                sock.sendto(reply, self.client_address)

    class Tcp(socketserver.StreamRequestHandler):
        def handle(self):
            while len(head := self.rfile.read(2)) == 2:
                reply = answer(self.rfile.read(struct.unpack("!H", head)[0]), self.client_address[0], log)
                if not reply:
                    return
                self.wfile.write(struct.pack("!H", len(reply)) + reply)

    return Udp, Tcp


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("address")
    p.add_argument("log")
    a = p.parse_args()
    socketserver.ThreadingUDPServer.allow_reuse_address = socketserver.ThreadingTCPServer.allow_reuse_address = True
    with open(a.log, "a", encoding="utf-8") as log:
        udp, tcp = handlers(log)
        servers = socketserver.ThreadingTCPServer((a.address, 53), tcp), socketserver.ThreadingUDPServer((a.address, 53), udp)
        for server in servers:
            server.daemon_threads = True
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        servers[1].serve_forever()


if __name__ == "__main__":
    main()
