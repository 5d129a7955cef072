"""The last configuration that the mesh accepted, kept so that a wrong file stops nobody from starting or looking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError
from tiermesh.shared.config._load import ConfigError, load_config
from tiermesh.shared.config._schema import TiermeshConfig

_FILE = "last-good.json"


def keep_last_good(config: TiermeshConfig, state: Path) -> None:
    """Keeps an accepted configuration in the state folder. It holds no keys, only where they are."""
    state.mkdir(parents=True, exist_ok=True)
    fresh = state / f"{_FILE}.new"
    fresh.write_text(config.model_dump_json(), encoding="utf-8")
    fresh.replace(state / _FILE)


def load_or_last_good(path: Path, environ: Mapping[str, str], state: Path) -> tuple[TiermeshConfig, ConfigError | None]:
    """Reads the configuration file or, where it has become wrong, what was accepted last.

    Returns:
        The configuration, and what is wrong with the file, or None.

    Raises:
        ConfigError: the file is wrong and nothing was accepted before.
    """
    try:
        return load_config(path, environ), None
    except ConfigError as error:
        try:
            kept = (state / _FILE).read_bytes()
            return TiermeshConfig.model_validate_json(kept), error
        except (OSError, ValidationError):
            raise error from None
