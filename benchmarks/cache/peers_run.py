"""Makes the environment of the other caches, once, and asks them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements-peers.txt"


def environment() -> Path:
    """Returns the Python of the environment, in the user's cache; None of it touches ours.

    Raises:
        OSError: it cannot be made.
    """
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(cache) / "tiermesh" / "envs" / f"bench-cache-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        print("installing the other caches, once", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OSError(done.stderr.strip()[-400:])
        (folder / "done").touch()
    return python


def ask_peers(pairs: list[dict[str, Any]], model: Path) -> dict[str, list[dict[str, Any]] | str]:
    """Returns, by cache, what it did with each pair, or why it could not be asked."""
    try:
        python = environment()
        done = subprocess.run(
            [str(python), str(HERE / "peers.py"), str(model)],
            input=json.dumps(pairs),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"},
        )
        if done.returncode:
            raise OSError(done.stderr.strip()[-400:])
    except OSError as error:
        return {"gptcache": str(error), "redisvl": str(error)}
    found: dict[str, list[dict[str, Any]] | str] = json.loads(done.stdout)
    return found
