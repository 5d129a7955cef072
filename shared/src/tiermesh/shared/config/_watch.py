"""Follows changes of the configuration file and of the files beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path

from tiermesh.shared.config._load import ConfigError, load_config
from tiermesh.shared.config._schema import TiermeshConfig
from watchfiles import awatch


async def watch_folders(*folders: Path, stop: asyncio.Event | None = None) -> AsyncGenerator[None, None]:
    """Yields once when watching has begun, then after every change, until `stop` is set.

    What a caller has read before may have changed before anyone watched, so it reads again when watching has begun.
    Folders are watched, not files: editors and Kubernetes replace files by renaming.
    """
    changes = awatch(*folders, stop_event=stop, step=50, debounce=200, recursive=False)
    pending = asyncio.ensure_future(anext(changes, None))
    try:
        # Its first step begins to watch; only then it waits.
        await asyncio.sleep(0)
        yield
        while await pending is not None:
            yield
            pending = asyncio.ensure_future(anext(changes, None))
    finally:
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending


async def watch_config(
    path: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[TiermeshConfig | ConfigError]:
    """Yields the configuration when watching has begun and after every change of its folder, or why it cannot be used.

    A rules file in the same folder therefore counts as a change too. The caller keeps what it has
    when it is given an error.
    """
    async with contextlib.aclosing(watch_folders(path.parent)) as changes:
        async for _ in changes:
            try:
                yield load_config(path, environ)
            except ConfigError as error:
                yield error
