"""Follows the configuration file and the key files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tiermesh.mesh.api_keys import key_files
from tiermesh.mesh.publisher import Publisher
from tiermesh.shared.config import watch_config, watch_folders


async def follow(publisher: Publisher, path: Path, *, state: Path, environ: Mapping[str, str]) -> None:
    """Offers every change to the publisher, for ever.

    Args:
        publisher: Has published a first configuration already.
        path: The configuration file.
        state: Folder that relative key files are in.
        environ: Overrides of the configuration.
    """
    moved = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow_config(publisher, path, environ, moved))
        group.create_task(_follow_keys(publisher, state, moved))


async def _follow_config(publisher: Publisher, path: Path, environ: Mapping[str, str], moved: asyncio.Event) -> None:
    async for offered in watch_config(path, environ):
        if publisher.offer(offered):
            # The key files may be others now.
            moved.set()


async def _follow_keys(publisher: Publisher, state: Path, moved: asyncio.Event) -> None:
    while True:
        moved.clear()
        assert publisher.published is not None
        folders = sorted({file.parent for file in key_files(publisher.published.config, state)})
        if not folders:
            await moved.wait()
            continue
        async for _ in watch_folders(*folders, stop=moved):
            publisher.refresh()
