"""Follows changes of the configuration file and of the rules beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from tiermesh.shared.config._load import ConfigError, load_config
from tiermesh.shared.config._schema import TiermeshConfig
from watchfiles import awatch


async def watch_config(
    path: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[TiermeshConfig | ConfigError]:
    """Yields the configuration after every change of its folder, or why it cannot be used.

    The folder is watched, not the file: editors and Kubernetes replace files by renaming. A
    rules file in the same folder therefore counts as a change too. The caller keeps what it has
    when it is given an error.
    """
    async for _ in awatch(path.parent, step=50, debounce=200, recursive=False):
        try:
            yield load_config(path, environ)
        except ConfigError as error:
            yield error
