"""The cache service as it is, in a process that notes what each lookup takes in its handler.

Run by `service`, as `python timed_service.py --times FILE` and the service's own arguments. At SIGUSR1 the seconds of
all lookups since the last one are written to FILE.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tiermesh.cache import app
from tiermesh.cache.servicer import CacheServicer
from tiermesh.shared.endpoints import CACHE
from tiermesh.shared.process import Process, main

_times: list[float] = []


class TimedServicer(CacheServicer):
    """From the request as it was read to the reply that is about to be written."""

    async def Lookup(self, request: Any, context: Any) -> Any:  # noqa: N802 -- gRPC's signature
        """Notes how long a lookup took."""
        began = time.perf_counter()
        try:
            return await super().Lookup(request, context)
        finally:
            _times.append(time.perf_counter() - began)


def run_with(path: Path) -> int:
    """Serves until the process is told to stop."""

    def tell() -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(_times))
        _times.clear()
        fresh.replace(path)

    async def run(process: Process) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
        await app.run(process)

    # The one thing that differs from the service that is shipped.
    app.CacheServicer = TimedServicer  # type: ignore[misc]
    return main("tiermesh.cache", run, cluster=CACHE, argv=sys.argv[3:])


if __name__ == "__main__":
    sys.exit(run_with(Path(sys.argv[2])))
