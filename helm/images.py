"""Builds the images that the chart runs, and pushes them where asked.

    python helm/images.py
    python helm/images.py --registry registry.example.com/tiermesh --push
    python helm/images.py --builder buildah router mesh

Without names it builds what the default values need. `cache-semantic` carries the embedding model, `engine-vllm` vLLM
for NVIDIA GPUs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
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
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(RECIPES):
        parser.error(f"no such image: {', '.join(sorted(unknown))}; there are: {', '.join(RECIPES)}")
    names = arguments.names or [name for name, recipe in RECIPES.items() if recipe.by_default]
    for number, name in enumerate(names, 1):
        image = f"{arguments.registry}/{name}:{arguments.tag}"
        print(f"[{number}/{len(names)}] {image}", flush=True)
        commands = [build_command(arguments.builder, image, name)]
        if arguments.push:
            commands.append([arguments.builder, "push", image])
        for command in commands:
            try:
                done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 -- the builder that was asked for
            except FileNotFoundError:
                print(f"{arguments.builder} is not installed: name another with --builder", file=sys.stderr)
                return 1
            if done.returncode:
                print(f"failed: {' '.join(command)}", file=sys.stderr)
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
