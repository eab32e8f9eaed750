"""What scripts/bench fetch fetches from and with.

    origin.py images FOLDER COUNT BYTES      a filled storage folder of the distribution registry: COUNT images that share layers
    origin.py files FOLDER COUNT BYTES SEED  COUNT files of so many bytes together
    origin.py serve FOLDER LOG MS RATE       files over HTTP, with ranges: MS milliseconds before each answer, RATE bytes a
                                             second in all (0: as fast as can be). The port goes to standard output, a line
                                             of `path first-byte bytes-sent` for each answer to LOG
"""

import asyncio
import gzip
import hashlib
import json
import os
import random
import sys

OCI = "application/vnd.oci.image"


def blob(folder, data):
    digest = hashlib.sha256(data).hexdigest()
    path = f"{folder}/docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return digest


def link(folder, path, digest):
    path = f"{folder}/docker/registry/v2/repositories/{path}/link"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"sha256:{digest}")


def layer(folder, chance, size):
    """A layer of noise: nothing makes it smaller, as with the layers of real images, which are compressed already."""
    content = chance.randbytes(size)
    data = gzip.compress(content, compresslevel=0, mtime=0)
    return {
        "descriptor": {"mediaType": f"{OCI}.layer.v1.tar+gzip", "digest": f"sha256:{blob(folder, data)}", "size": len(data)},
        "diff": f"sha256:{hashlib.sha256(content).hexdigest()}",
    }


def images(folder, count, total):
    """Three of ten bytes are in a layer of all images and in layers of five each; the rest is each image's own."""
    chance = random.Random(1)
    everybodys = layer(folder, chance, total // 10)
    families = [layer(folder, chance, total // 5 // 8) for _ in range(8)]
    for number in range(count):
        own = [layer(folder, chance, size) for size in (total * 6 // 10 // count, total // 10 // count)]
        layers = [everybodys, families[number % 8], *own]
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [one["diff"] for one in layers]},
        }).encode()
        config = {"mediaType": f"{OCI}.config.v1+json", "digest": f"sha256:{blob(folder, config)}", "size": len(config)}
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": config,
            "layers": [one["descriptor"] for one in layers],
        }).encode()
        digest, name = blob(folder, manifest), f"bench/app-{number:02}"
        for held in [config, *(one["descriptor"] for one in layers)]:
            hex_ = held["digest"].removeprefix("sha256:")
            link(folder, f"{name}/_layers/sha256/{hex_}", hex_)
        link(folder, f"{name}/_manifests/revisions/sha256/{digest}", digest)
        link(folder, f"{name}/_manifests/tags/v1/current", digest)
        link(folder, f"{name}/_manifests/tags/v1/index/sha256/{digest}", digest)


def files(folder, count, total, seed):
    chance = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        with open(f"{folder}/{number}.bin", "wb") as file:
            file.write(chance.randbytes(total // count))


class Pace:
    """Bytes a second over all connections."""

    def __init__(self, rate):
        self.rate, self.paid = rate, 0.0

    async def take(self, size):
        if self.rate:
            now = asyncio.get_running_loop().time()
            self.paid = max(self.paid, now) + size / self.rate
            await asyncio.sleep(self.paid - now)


async def serve(folder, log, delay, rate):
    pace, log = Pace(rate), open(log, "a", buffering=1)

    async def answer(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                path = lines[0].split(" ")[1].lstrip("/")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                await asyncio.sleep(delay)
                try:
                    with open(f"{folder}/{path}", "rb") as file:
                        body = file.read()
                except OSError:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    log.write(f"{path} - 404\n")
                    continue
                if headers.get("if-none-match") == f"\"{len(body)}\"":
                    writer.write(f"HTTP/1.1 304 Not Modified\r\nETag: \"{len(body)}\"\r\n\r\n".encode())
                    log.write(f"{path} - 304\n")
                    continue
                first = int(headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
                part = f"Content-Range: bytes {first}-{len(body) - 1}/{len(body)}\r\n" if first else ""
                status = "206 Partial Content" if first else "200 OK"
                text = f"HTTP/1.1 {status}\r\nETag: \"{len(body)}\"\r\nContent-Length: {len(body) - first}\r\n{part}\r\n"
                writer.write(text.encode())
                sent = 0
                try:
                    # What is written to a connection that was cut a moment ago counts as sent, though nobody got it: small pieces.
                    for at in range(first, len(body), 8192):
                        piece = body[at : at + 8192]
                        await pace.take(len(piece))
                        writer.write(piece)
                        await writer.drain()
                        sent += len(piece)
                finally:
                    log.write(f"{path} {first} {sent}\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


what, folder, *rest = sys.argv[1:]
match what:
    case "images":
        images(folder, *map(int, rest))
    case "files":
        files(folder, *map(int, rest))
    case "serve":
        asyncio.run(serve(folder, rest[0], int(rest[1]) / 1000, int(rest[2])))
