"""A TCP proxy that counts: `counting.py PORT-FILE COUNT-FILE TARGET RATE`: bytes that clients sent to TARGET, at most RATE bytes a second."""

import asyncio
import sys

port_file, count_file, target, rate = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
host, port = target.rsplit(":", 1)
sent = 0


async def pump(reader, writer, counts):
    global sent
    try:
        while piece := await reader.read(1 << 16):
            if counts:
                sent += len(piece)
                with open(count_file, "w") as file:
                    file.write(str(sent))
                await asyncio.sleep(len(piece) / rate)
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    try:
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, up_writer, True), pump(up_reader, writer, False))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(port_file, "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


asyncio.run(main())
