"""One service as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServiceProcess:
    """A running `python -m tiermesh.x`."""

    process: asyncio.subprocess.Process

    async def ended(self, *, within_s: float = 60.0) -> tuple[int, str]:
        """Waits for its end; returns its exit status and what it wrote to standard error.

        Raises:
            TimeoutError: it did not end within `within_s` seconds.
        """
        async with asyncio.timeout(within_s):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

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
    errors = asyncio.subprocess.PIPE if log is None else log.open("ab")
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
        stderr=errors,
    )
    try:
        yield ServiceProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        if not isinstance(errors, int):
            errors.close()
