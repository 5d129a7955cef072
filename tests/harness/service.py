"""One service as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServiceProcess:
    """A running `python -m tiermesh.x`."""

    process: asyncio.subprocess.Process
    errors: Path
    """What it writes to standard error: a file, since a pipe that nobody reads stops its writer once it is full."""
    begun: int
    """Length of that file when it was started."""

    async def ended(self, *, within_s: float = 60.0) -> tuple[int, str]:
        """Waits for its end; returns its exit status and what it wrote to standard error.

        Raises:
            TimeoutError: it did not end within `within_s` seconds.
        """
        async with asyncio.timeout(within_s):
            status = await self.process.wait()
        return status, self.errors.read_bytes()[self.begun :].decode()

    async def terminated(self) -> tuple[int, str]:
        """Asks it to drain, and waits for its end."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()


@asynccontextmanager
async def service_process(
    package: str,
    folder: Path,
    config: str,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> AsyncIterator[ServiceProcess]:
    """Starts a service, by its name or by a module's, with a configuration of its own; ends it whatever comes."""
    path = folder / "mesh.yaml"
    path.write_text(config, encoding="utf-8")
    errors = log or folder / f"stderr-{uuid.uuid4().hex}.log"
    with errors.open("ab") as sink:
        begun = sink.tell()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(
                "-m",
                package if "." in package else f"tiermesh.{package}",
                "--config",
                str(path),
                "--state",
                str(folder),
                *arguments,
            ),
            env={**os.environ, **(environ or {})},
            stderr=sink,
        )
    try:
        yield ServiceProcess(process, errors, begun)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
