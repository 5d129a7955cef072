"""Makes the environment of the other caches, once, and asks them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cache.progress import Progress
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements-peers.txt"
MARK = "progress:"
"""Begins a line of the other process that says how far it is."""
_INSTALLING_S = 900
_SAID = 2
"""Lines of standard error that are shown where the other caches cannot be asked."""


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
        print(f"  installing the other caches, once, in {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALLING_S)
            except subprocess.TimeoutExpired:
                raise OSError(f"installing them took more than {_INSTALLING_S} s") from None
            if done.returncode:
                raise OSError(_last(done.stderr.splitlines()))
        (folder / "done").touch()
    return python


def ask_peers(pairs: list[dict[str, Any]], embedder: OpenvinoEmbedder) -> dict[str, list[dict[str, Any]] | str]:
    """Returns, by cache, what it did with each pair, or why it could not be asked."""
    try:
        python = environment()
    except OSError as error:
        why = f"its environment cannot be made ({error}); with a package index in reach, run this again"
        return {"gptcache": why, "redisvl": why}
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as answered:
        texts = {pair[text] for pair in pairs for text in ("stored", "asked")}
        embeddings = {text: base64.b64encode(embedder.embed_any(text).tobytes()).decode() for text in texts}
        json.dump({"pairs": pairs, "embeddings": embeddings}, asked)
        asked.seek(0)
        with subprocess.Popen(
            [str(python), str(HERE / "peers.py"), MARK],
            stdin=asked,
            stdout=answered,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        ) as process:
            assert process.stderr is not None
            said = _show(process.stderr)
        answered.seek(0)
        try:
            found: dict[str, list[dict[str, Any]] | str] = json.load(answered)
        except ValueError:
            why = f"the others ended with status {process.returncode}: {_last(said)}"
            return {"gptcache": why, "redisvl": why}
    return found


def _show(lines: Iterable[str]) -> list[str]:
    """Shows how far the caches are; returns what else they said."""
    said: list[str] = []
    bars: dict[str, tuple[Progress, int]] = {}
    for line in lines:
        if not line.startswith(MARK):
            said.append(line.rstrip())
            continue
        name, done, total = line.removeprefix(MARK).split()
        bar, before = bars.get(name) or (Progress(name, int(total)), 0)
        bar.step(int(done) - before)
        bars[name] = bar, int(done)
    return said


def _last(lines: list[str]) -> str:
    return " ".join(lines[-_SAID:])[-600:]
