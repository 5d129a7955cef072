"""A way to a server that is as slow as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SlowProxy:
    """Passes bytes on; replies wait for `delay_s` seconds, which may change at any time."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.port = 0
        self._to = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection until either side ends it."""
        back, forth = await asyncio.open_connection("127.0.0.1", self._to)
        for pipe in (self._pass(reader, forth, slow=False), self._pass(back, writer, slow=True)):
            task = asyncio.create_task(pipe)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Ends what is passed on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, slow: bool) -> None:
        try:
            while data := await source.read(65_536):
                if slow and self.delay_s:
                    await asyncio.sleep(self.delay_s)
                to.write(data)
                await to.drain()
        except ConnectionError:
            return
        finally:
            to.close()


@asynccontextmanager
async def slow_proxy(port: int) -> AsyncIterator[SlowProxy]:
    """Opens a proxy in front of a port of this machine."""
    proxy = SlowProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.aclose()
