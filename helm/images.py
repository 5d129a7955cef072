"""Builds the images that the chart runs, and pushes them where asked.

    python helm/images.py
    python helm/images.py --registry registry.example.com/tiermesh --push --values images.yaml
    python helm/images.py --builder buildah router mesh

`--values` writes values for the chart that name what was pushed by digest: `helm upgrade ... -f images.yaml`.

Without names it builds what the default values need. `cache-semantic` carries the embedding model, `engine-vllm` vLLM
for NVIDIA GPUs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Recipe:
    """How an image is built."""

    dockerfile: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    by_default: bool = True


RECIPES: Mapping[str, Recipe] = {
    "router": Recipe("services/router/Dockerfile"),
    "classifier": Recipe("services/classifier/Dockerfile"),
    "cache": Recipe("services/cache/Dockerfile"),
    "cache-semantic": Recipe("services/cache/Dockerfile", {"SEMANTIC": "1"}, by_default=False),
    "outcomes": Recipe("services/outcomes/Dockerfile"),
    # Its default, but Buildah 1.28 finds the stage only when it is told.
    "engine": Recipe("services/engine/Dockerfile", {"BACKEND": "plain"}),
    "engine-vllm": Recipe("services/engine/Dockerfile", {"BACKEND": "vllm"}, by_default=False),
    "mesh": Recipe("mesh/Dockerfile"),
}


def version() -> str:
    """Returns the tag that the chart looks for."""
    chart = yaml.safe_load((ROOT / "helm" / "tiermesh" / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["appVersion"])


def build_command(builder: str, image: str, name: str) -> list[str]:
    """Returns the command that builds an image from the repository's root.

    Args:
        builder: `docker`, `podman` or `buildah`.
        image: Full reference to give it.
        name: A key of `RECIPES`.
    """
    recipe = RECIPES[name]
    arguments = [word for key, value in recipe.arguments.items() for word in ("--build-arg", f"{key}={value}")]
    return [builder, "build", "--file", recipe.dockerfile, *arguments, "--tag", image, "."]


def push_command(builder: str, image: str, digest_file: Path) -> list[str]:
    """Returns the command that pushes an image; all builders but Docker write its digest into a file."""
    written = [] if is_docker(builder) else ["--digestfile", str(digest_file)]
    return [builder, "push", *written, image]


def pushed_digest(builder: str, image: str, digest_file: Path) -> str:
    """Returns the digest, `sha256:...`, of an image that was just pushed.

    Raises:
        RuntimeError: the builder tells none.
    """
    if not is_docker(builder):
        return digest_file.read_text(encoding="utf-8").strip()
    command = [builder, "inspect", "--format", '{{join .RepoDigests "\\n"}}', image]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 -- as below
    repository = image.rpartition(":")[0]
    for line in told.splitlines():
        name, _, digest = line.partition("@")
        if name == repository:
            return digest
    raise RuntimeError(f"{builder} tells no digest of {image}")


def is_docker(builder: str) -> bool:
    """Returns whether a builder is Docker, by its name."""
    return Path(builder).name == "docker"


def main() -> int:
    """Builds one after another; the first that fails ends it."""
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"images to build, of: {', '.join(RECIPES)}")
    parser.add_argument("--builder", default="docker", help="docker, podman or buildah (default: docker)")
    parser.add_argument("--registry", default="localhost/tiermesh", help="default: localhost/tiermesh, as the chart's")
    parser.add_argument("--tag", default=version(), help="default: the chart's appVersion")
    parser.add_argument("--push", action="store_true", help="push each image after it is built")
    parser.add_argument("--values", type=Path, help="with --push: file for values that name the images by digest")
    arguments = parser.parse_args()
    if arguments.values and not arguments.push:
        parser.error("--values needs --push: an image has a digest once it is pushed")
    if unknown := set(arguments.names) - set(RECIPES):
        parser.error(f"no such image: {', '.join(sorted(unknown))}; there are: {', '.join(RECIPES)}")
    names = arguments.names or [name for name, recipe in RECIPES.items() if recipe.by_default]
    digests: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        digest_file = Path(folder) / "digest"
        for number, name in enumerate(names, 1):
            image = f"{arguments.registry}/{name}:{arguments.tag}"
            print(f"[{number}/{len(names)}] {image}", flush=True)
            commands = [build_command(arguments.builder, image, name)]
            if arguments.push:
                commands.append(push_command(arguments.builder, image, digest_file))
            for command in commands:
                if status := _run(command):
                    return status
            if arguments.values:
                digests[name] = pushed_digest(arguments.builder, image, digest_file)
    if arguments.values:
        values = {"image": {"registry": arguments.registry, "tag": arguments.tag, "digests": digests}}
        arguments.values.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        print(f"written: {arguments.values}")
    return 0


def _run(command: list[str]) -> int:
    try:
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 -- the builder that was asked for
    except FileNotFoundError:
        print(f"{command[0]} is not installed: name another with --builder", file=sys.stderr)
        return 1
    if done.returncode:
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
