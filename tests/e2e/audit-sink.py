#!/usr/bin/env python3
"""A receiver of audit events as a site might have one. audit-sink.py ADDRESS:PORT FILE CERTIFICATE KEY: each event is a line of FILE, after the
token that it came with."""

import http.server
import json
import ssl
import sys

address, port = sys.argv[1].rsplit(":", 1)
log = open(sys.argv[2], "a", buffering=1)


class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for event in events["items"]:
            log.write(f"{self.headers['Authorization']} {event['verb']} {event['requestURI']}\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((address, int(port)), Sink)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
