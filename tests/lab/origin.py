#!/usr/bin/env python3
"""A file server for the lab: GET and HEAD, one Range per request (RFC 9110, 14), one thread per connection.

It binds a free port of 127.0.0.1, writes the number to PORTFILE once it listens, and logs one line per request:
method, path, the Range asked for, status, bytes sent.
"""
import argparse
import email.utils
import mimetypes
import os
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 1 << 20
LOG = threading.Lock()


def byte_range(header, size):
    """(first, last) of a single byte range, None when the header is to be ignored; IndexError when it cannot be satisfied."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header.strip())
    if not match or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        if int(last) == 0:
            raise IndexError
        return max(0, size - int(last)), size - 1
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise IndexError
    return int(first), min(int(last), size - 1) if last else size - 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root = "."

    def do_GET(self):
        self.answer(body=True)

    def do_HEAD(self):
        self.answer(body=False)

    def answer(self, body):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        real = os.path.realpath(os.path.join(self.root, path.lstrip("/")))
        if not real.startswith(self.root + os.sep) or not os.path.isfile(real):
            return self.refuse(404)
        with open(real, "rb") as file:
            info = os.fstat(file.fileno())
            etag = f'"{info.st_size:x}-{info.st_mtime_ns:x}"'
            wanted = self.headers.get("Range")
            # a Range of an older version of the file is answered with the whole file
            if wanted and self.headers.get("If-Range", etag) != etag:
                wanted = None
            try:
                span = byte_range(wanted, info.st_size) if wanted else None
            except IndexError:
                return self.refuse(416, {"Content-Range": f"bytes */{info.st_size}"})
            first, last = span or (0, info.st_size - 1)
            self.send_response(206 if span else 200)
            self.send_header("Content-Type", mimetypes.guess_type(real)[0] or "application/octet-stream")
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", email.utils.formatdate(info.st_mtime, usegmt=True))
            if span:
                self.send_header("Content-Range", f"bytes {first}-{last}/{info.st_size}")
            self.end_headers()
            sent = self.copy(file, first, last - first + 1) if body else 0
        self.log(206 if span else 200, sent)

    def copy(self, file, offset, left):
        file.seek(offset)
        sent = 0
        try:
            while left:
                chunk = file.read(min(CHUNK, left))
                if not chunk:
                    break
                self.wfile.write(chunk)
                sent += len(chunk)
                left -= len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        return sent

    def refuse(self, status, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.log(status, 0)

    def log(self, status, sent):
        with LOG:
            print(self.command, self.path, self.headers.get("Range", "-"), status, sent, flush=True)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("root", help="folder to serve")
    p.add_argument("portfile", help="where the port's number is written")
    a = p.parse_args()
    Handler.root = os.path.realpath(a.root)
    server = Server(("127.0.0.1", 0), Handler)
    with open(a.portfile + ".tmp", "w", encoding="ascii") as out:
        out.write(f"{server.server_address[1]}\n")
    os.rename(a.portfile + ".tmp", a.portfile)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
