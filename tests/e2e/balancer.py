#!/usr/bin/env python3
"""A load balancer as a site might have one: TCP, and nothing of ours.

balancer.py LISTEN TARGET...: each an ADDRESS:PORT; the first target that answers gets the connection.
"""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(listen, *targets):
    async def forward(reader, writer):
        for target in targets:
            address, port = target.rsplit(":", 1)
            try:
                there, back = await asyncio.open_connection(address, int(port))
            except OSError:
                continue
            await asyncio.gather(copy(reader, back), copy(there, writer))
            return
        writer.close()

    address, port = listen.rsplit(":", 1)
    server = await asyncio.start_server(forward, address, int(port))
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
