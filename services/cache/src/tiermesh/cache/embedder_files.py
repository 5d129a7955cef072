"""Where the embedding model lies, and what it must be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "all-minilm-l6-v2-int8-fused"
MANIFEST = "tiermesh-manifest.json"
INPUT = "ids"
"""The graph's one input: token numbers, int64 of shape (1, tokens)."""
MAX_TOKENS = 128
"""Most tokens of a text."""


def embedder_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of the model, in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(cache) / "tiermesh" / "models" / NAME


def is_fetched(folder: Path) -> bool:
    """Tells whether the model is whole: its manifest is written last."""
    return (folder / MANIFEST).is_file()
