"""API keys that the mesh makes for itself."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tiermesh.mesh.local.errors import LocalError
from tiermesh.shared.config import TiermeshConfig


def ensure_keys(config: TiermeshConfig, state: Path) -> None:
    """Writes a random key for every tenant whose key file, relative to the state folder, is missing.

    Raises:
        LocalError: a key file outside the state folder is missing.
    """
    for tenant in config.tenants:
        if tenant.key_file is None:
            continue
        path = state / tenant.key_file
        if path.exists():
            continue
        if tenant.key_file.is_absolute():
            raise LocalError(
                f"tenant {tenant.name!r}: its key file {path} is not there",
                "create it with one key a line, or name a file relative to the state folder, which is then made for you.",
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by nobody else from its first byte on.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"tm-{secrets.token_urlsafe(24)}\n")
