"""How a mesh on this machine is found: its state folder, and the note that `tiermesh up` leaves there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tiermesh.shared.config import ConfigError, TiermeshConfig, load_config, load_or_last_good
from tiermesh.shared.config._load import ENV_PREFIX

NOTE = "mesh.json"
_CHECKOUT = Path(__file__).resolve().parents[4]


class MeshNotFound(Exception):
    """No mesh, or more than one, could be meant; the message says what to do."""


@dataclass(frozen=True, slots=True)
class LocalMesh:
    """A mesh that was started on this machine, as its note tells."""

    profile: str
    """Profile name, or the stem of the configuration file."""
    config_path: str
    state: str
    """State folder, absolute."""
    overrides: dict[str, str]
    """The `TIERMESH__` environment that it was started with."""

    def load_config(self) -> TiermeshConfig:
        """Reads its configuration as it is now.

        Raises:
            ConfigError: the file has become wrong or is gone.
        """
        return load_config(Path(self.config_path), self.overrides)

    def config_in_force(self) -> tuple[TiermeshConfig, ConfigError | None]:
        """Reads its configuration or, where the file has become wrong, the one that it accepted last.

        Returns:
            The configuration, and what is wrong with the file, or None.

        Raises:
            ConfigError: the file is wrong and nothing was accepted before.
        """
        return load_or_last_good(Path(self.config_path), self.overrides, Path(self.state))

    def write(self) -> None:
        """Leaves the note in the state folder."""
        (Path(self.state) / NOTE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def overrides_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of an environment that overrides the configuration."""
    return {name: value for name, value in environ.items() if name.startswith(ENV_PREFIX)}


def home_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder that holds `.tiermesh`: `TIERMESH_HOME`, the checkout that this code is in, or the current one."""
    if home := environ.get("TIERMESH_HOME"):
        return Path(home).resolve()
    return _CHECKOUT if (_CHECKOUT / "mesh" / "profiles").is_dir() else Path.cwd()


def state_folder(environ: Mapping[str, str], profile: str) -> Path:
    """Returns the state folder of a profile's mesh; `TIERMESH_STATE` replaces it."""
    if state := environ.get("TIERMESH_STATE"):
        return Path(state).resolve()
    return home_folder(environ) / ".tiermesh" / profile


def read_note(state: Path) -> LocalMesh | None:
    """Returns what the note in a state folder says, or None where there is none."""
    try:
        return LocalMesh(**json.loads((state / NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def find_mesh(environ: Mapping[str, str], profile: str | None = None) -> LocalMesh:
    """Returns the mesh that a command means: the one named, or the only one there is.

    Args:
        environ: `TIERMESH_STATE` or `TIERMESH_PROFILE` name one.
        profile: Names one too, and wins over `TIERMESH_PROFILE`.

    Raises:
        MeshNotFound: there is none, or several.
    """
    wanted = profile or environ.get("TIERMESH_PROFILE")
    if wanted or environ.get("TIERMESH_STATE"):
        state = state_folder(environ, wanted or "")
        found = read_note(state)
        if found is None:
            raise MeshNotFound(
                f"no mesh was started with the state folder {state}; start one with `tiermesh up` or `make up`"
            )
        return found
    parent = home_folder(environ) / ".tiermesh"
    notes = [note for folder in sorted(parent.glob("*")) if (note := read_note(folder)) is not None]
    if not notes:
        raise MeshNotFound("no mesh is running here; start one with `make up`")
    if len(notes) > 1:
        names = ", ".join(note.profile for note in notes)
        raise MeshNotFound(f"several meshes are running ({names}); name one with --profile")
    return notes[0]


def api_key(mesh: LocalMesh, config: TiermeshConfig, environ: Mapping[str, str]) -> str | None:
    """Returns an API key that the mesh takes: `TIERMESH_API_KEY`, or the first that its configuration leads to."""
    if key := environ.get("TIERMESH_API_KEY"):
        return key
    for tenant in config.tenants:
        lines = environ.get(tenant.key_env, "").split(",") if tenant.key_env else []
        if tenant.key_file is not None:
            try:
                lines = (Path(mesh.state) / tenant.key_file).read_text(encoding="utf-8").splitlines()
            except OSError:
                continue
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if keys:
            return keys[0]
    return None


__all__ = [
    "NOTE",
    "LocalMesh",
    "MeshNotFound",
    "api_key",
    "find_mesh",
    "home_folder",
    "overrides_of",
    "read_note",
    "state_folder",
]
