"""A TCP way to a server in this process, which can be cut, can hang, and can be slow."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK = 65_536
# Closing with a linger of no time resets the connection, as the end of a process does.
_RESET = struct.pack("ii", 1, 0)


class Link:
    """Passes bytes on between `port` and a server.

    Args:
        port: Where callers connect.
        to: Port of the server, on this machine.
    """

    def __init__(self, port: int, to: int) -> None:
        self.port = port
        self._to = to
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay_s = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.connections = 0
        """How many have ever been made."""

    async def cut(self) -> None:
        """Resets every connection and refuses new ones, as a killed process does."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in self._writers.copy():
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        passing = self._passing.copy()
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def mend(self) -> None:
        """Takes connections; bytes flow at once."""
        self._delay_s = 0.0
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    def hang(self) -> None:
        """Keeps connections, takes new ones, and lets nothing through."""
        self._flowing.clear()

    def slow(self, delay_s: float) -> None:
        """Holds back whatever comes, in each direction, for `delay_s` seconds."""
        self._delay_s = delay_s

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = {writer}
        self._writers.add(writer)
        try:
            further_reader, further_writer = await asyncio.open_connection("127.0.0.1", self._to)
            mine.add(further_writer)
            self._writers.add(further_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, further_writer))
                group.create_task(self._pass(further_reader, writer))
        except* OSError:
            # One side is gone, which the other learns below.
            pass
        finally:
            self._writers -= mine
            for each in mine:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("the other side has closed")


@asynccontextmanager
async def open_link(port: int, *, to: int) -> AsyncIterator[Link]:
    """Opens a link; leaving the block resets its connections."""
    link = Link(port, to)
    await link.mend()
    try:
        yield link
    finally:
        await link.cut()
