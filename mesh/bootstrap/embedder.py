"""What the cache's semantic tier needs: a few packages in the base environment, and its embedding model."""

from __future__ import annotations

import sys

from bootstrap.base_env import pip
from bootstrap.marker import digest_of, is_done, mark_done
from bootstrap.paths import Paths
from bootstrap.steps import Runner

_STEP = "semantic cache"


def install_embedder(paths: Paths, runner: Runner) -> None:
    """Adds the packages and fetches the model, which all clones of a user share.

    Raises:
        StepFailed: pip could not, or the model could not be fetched or is not the one that is expected.
    """
    project = paths.checkout / "services" / "cache"
    digest = digest_of([paths.constraints, project / "pyproject.toml"], [sys.version])
    marker = paths.base_env / ".tiermesh-semantic"
    runner.progress.begin("Preparing the semantic cache (packages and a model of 22 MB)")
    if not is_done(marker, digest):
        extra = f"{project}[semantic]"
        pip(paths, runner, _STEP, ["install", "-c", paths.constraints, "--no-build-isolation", "-e", extra])
        mark_done(marker, digest)
    runner.must(
        [paths.base_python, "-m", "tiermesh.cache.fetch_embedder"],
        step=_STEP,
        advice="check the network and pip's settings (`pip config list`), then run again; or set `cache.semantic_enabled: false`.",
        narrates=True,
    )
    runner.progress.end("ready")
