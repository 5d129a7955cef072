"""Where things are: in the checkout, and in the user's cache folder that clones share."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that holds the Makefile."""


@dataclass(frozen=True)
class Paths:
    """Every folder that the bootstrap reads or writes."""

    checkout: Path
    cache: Path
    """Shared by every clone of this user."""
    python: Path = Path(sys.executable)
    """The interpreter that environments are made with."""

    @classmethod
    def of(cls, environ: Mapping[str, str], checkout: Path = CHECKOUT) -> Paths:
        """Returns the folders for an environment; `XDG_CACHE_HOME` moves the cache."""
        home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".cache")
        return cls(checkout, Path(home) / "tiermesh")

    @property
    def base_env(self) -> Path:
        """The environment of everything but language models."""
        return self.checkout / ".venv"

    @property
    def base_python(self) -> Path:
        """Its interpreter."""
        return self.base_env / "bin" / "python"

    @property
    def constraints(self) -> Path:
        """Exact versions of everything that the base environment may hold."""
        return self.checkout / "constraints.txt"

    @property
    def dev_requirements(self) -> Path:
        """Tools of `make test` and `make check`, by name."""
        return self.checkout / "requirements-dev.txt"

    @property
    def engine_requirements(self) -> Path:
        """Everything that the engine environment holds, by name and version."""
        return self.checkout / "services" / "engine" / "requirements-vllm.txt"

    @property
    def engine_pointer(self) -> Path:
        """Names the interpreter of the engine environment that this checkout uses."""
        return self.checkout / ".tiermesh" / "engine-python"

    @property
    def logs(self) -> Path:
        """Where the full output of every step goes."""
        return self.checkout / ".tiermesh" / "logs"

    @property
    def distributions(self) -> tuple[Path, ...]:
        """Our own packages, dependencies first."""
        services = sorted(path.parent for path in (self.checkout / "services").glob("*/pyproject.toml"))
        fixed = [self.checkout / name for name in ("protos", "shared", "mesh", "sdk")]
        return (*fixed[:2], *services, *fixed[2:])

    @property
    def engine_pythonpath(self) -> str:
        """What the engine environment's interpreter needs to import our sources; they are not installed there."""
        return ":".join(str(self.checkout / part) for part in ("protos/gen", "shared/src", "services/engine/src"))
