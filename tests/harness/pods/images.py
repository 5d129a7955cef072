"""The file systems of built images, as Buildah keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.pods.network import run


@dataclass(frozen=True)
class Image:
    """An image ready to run."""

    root: Path
    environ: tuple[str, ...]


class Images:
    """Mounts images; each once, since nobody writes to them."""

    def __init__(self) -> None:
        self._mounted: dict[str, tuple[str, Image]] = {}

    def open(self, reference: str) -> Image:
        """Returns an image of the local storage.

        Raises:
            RuntimeError: it is not there; build it with `make images ARGS="--builder buildah"`.
        """
        if reference not in self._mounted:
            container = run("buildah", "from", "--pull=false", reference)
            config = json.loads(run("buildah", "inspect", container))["OCIv1"]["config"]
            image = Image(Path(run("buildah", "mount", container)), tuple(config.get("Env") or ()))
            self._mounted[reference] = container, image
        return self._mounted[reference][1]

    def close(self) -> None:
        """Gives everything back."""
        for container, _ in self._mounted.values():
            run("buildah", "rm", container, check=False)


def make_place(root: Path, path: str) -> None:
    """Makes the folder that something will be mounted at, as a container runtime does."""
    (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
