"""Follows the rules file while a process runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tiermesh.shared.config import ConfigError, TiermeshConfig, watch_config, watch_folders
from tiermesh.shared.rules.book import RuleBook
from tiermesh.shared.rules.load import load_rules
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)


class CurrentRules:
    """The rules in force. Replaced as a whole, so that one judgement sees one version."""

    def __init__(self, book: RuleBook) -> None:
        self.book = book

    async def refresh(self, path: Path) -> None:
        """Puts the rules of a file in force, or keeps the old ones and logs why the new ones cannot be used."""
        try:
            # Trying the patterns out takes long enough to be felt by the calls being served.
            book = await asyncio.to_thread(load_rules, path)
        except ConfigError as error:
            _log.error("rules not changed; the last good ones stay", version=self.book.version, error=str(error))
            return
        if book.version != self.book.version:
            _log.info("rules changed", version=book.version, was=self.book.version)
            self.book = book


async def follow_rules(current: CurrentRules, config_path: Path, environ: Mapping[str, str]) -> None:
    """Keeps `current` at what the configuration's rules file says; never returns.

    The configuration's folder is watched, so a rules file elsewhere is read again only when
    something in that folder changes.
    """
    async for change in watch_config(config_path, environ):
        if isinstance(change, TiermeshConfig):
            await current.refresh(change.rules)
        else:
            _log.error("configuration not changed; the rules in force stay", error=str(change))


async def follow_rules_file(current: CurrentRules, rules_path: Path) -> None:
    """Keeps `current` at what one rules file says; never returns. For processes that need nothing else of the configuration."""
    async for _ in watch_folders(rules_path.parent):
        await current.refresh(rules_path)
