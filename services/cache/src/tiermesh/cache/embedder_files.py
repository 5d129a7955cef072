"""Where the embedding model lies, and what it must be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tiermesh.shared.errors import ModelLoadFailed

NAME = "all-minilm-l6-v2-int8-pruned"
"""Changes with every change of the vectors: replicas compare only those of one name."""
EARLIER = (
    "all-minilm-l6-v2-int8-static",
    "all-minilm-l6-v2-int8-fused",
    "all-minilm-l6-v2-int8-compact",
    "all-minilm-l6-v2-onnx-int8",
)
"""What earlier releases made of the same weights, which this one cannot read."""
MANIFEST = "tiermesh-manifest.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
EMBEDDINGS = "embeddings.npz"
"""`words` (int8) with `word_scales`, one a row, and `places`, to which the token type is added."""
STATE, MASK, SHARE = "embedded", "mask", "share"
"""The graph's inputs, for a number of tokens that is padded to one of `LENGTHS`: the sum of the embeddings, floats of
shape (tokens, 384); what is added to scores, (1, 1, 1, tokens), 0 or, for padding, `HIDDEN`; and each token's
share of the mean, (1, tokens)."""
HIDDEN = -10_000.0
OUTPUT = "embedding"
"""The graph's output, floats of shape (1, 384), normalised."""
MAX_TOKENS = 128
"""Most tokens of a text."""
LENGTHS = (12, 16, 24, 32, 48, 64, 96, MAX_TOKENS)
"""Numbers of tokens that the model is compiled for. Compiled for any number it takes a fifth longer, more where it changes."""


def embedder_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of the model, in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(cache) / "tiermesh" / "models" / NAME


def is_fetched(folder: Path) -> bool:
    """Tells whether the model is whole: its manifest is written last."""
    return (folder / MANIFEST).is_file()


def earlier_folders(folder: Path) -> list[Path]:
    """Returns the folders beside it that earlier releases left."""
    return [other for name in EARLIER if (other := folder.with_name(name)).is_dir()]


def write_manifest(folder: Path, sources: Mapping[str, str]) -> None:
    """Writes the checksums of what is in the folder, and says what it was made of.

    Args:
        folder: The model's, with every file in place.
        sources: SHA-256 of what was downloaded, by name.
    """
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    manifest = {"model": NAME, "license": "Apache-2.0", "sources": dict(sources), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def check_files(folder: Path) -> None:
    """Compares every file with the checksum that it had when it was made.

    Raises:
        ModelLoadFailed: a file is missing or is another one.
    """
    try:
        expected: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        wrong = [name for name in (MODEL, EMBEDDINGS, TOKENIZER) if _sha256(folder / name) != expected[name]]
    except (OSError, ValueError, KeyError) as error:
        raise ModelLoadFailed(f"{folder} is not whole ({error}): {_AGAIN}") from error
    if wrong:
        raise ModelLoadFailed(f"{', '.join(wrong)} in {folder} has changed since it was made: {_AGAIN}")


_AGAIN = "remove the folder and run python -m tiermesh.cache.fetch_embedder"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
