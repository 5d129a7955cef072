"""The learnt numbers: what they are, and how they are read from a file that can be trusted."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from tiermesh.classifier.model.grams import ROWS
from tiermesh.classifier.model.structure import NAMES
from tiermesh.classifier.model.subjects import OUTCOMES, SHARED_ROWS, Subjects
from tiermesh.shared.errors import ModelLoadFailed
from tiermesh.shared.rules import TaskName

FORMAT, WITH_SUBJECTS = 1, 2
"""Of the file, without and with `Subjects`. Another number means other features: such weights would be read wrongly, not badly."""
MANIFEST = "model.json"
_OF_SUBJECTS = "subjects_"

Floats = NDArray[np.float32]


class ModelUnusable(ModelLoadFailed):
    """The weights of the learnt model cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A trained model. `h` heads: one for each task type, then complexity, answer length, small right, large right."""

    version: str
    task_types: tuple[TaskName, ...]
    idf: Floats
    """Weight of each row of pieces: (ROWS,)."""
    table: Floats
    """Weight of each row for each head: (ROWS, h)."""
    thresholds: Floats
    """Of the structural numbers: (n, k)."""
    structure_mean: Floats
    structure_scale: Floats
    """Multiplied after the mean is taken off; 0 where training saw no difference: (n + n * k,)."""
    structure_table: Floats
    """(n + n * k, h)."""
    bias: Floats
    """(h,)."""
    temperature: float
    """Of the softmax over the task types."""
    calibration: Floats
    """Slope and intercept for each of the four heads after the task types: (4, 2)."""
    confidence_bounds: Floats
    """Upper bounds of the bands of task confidence: (b,)."""
    confidence_in_band: Floats
    """How often complexity and answer length were right within their tolerance, for each band: (b, 2)."""
    facts: Mapping[str, object]
    """What the manifest says of training and of what was measured."""
    subjects: Subjects | None = None
    """A second opinion on both probabilities of being right."""


def load_weights(folder: Traversable | Path) -> Weights:
    """Reads a model folder: a manifest, and the file of weights that it names.

    Raises:
        ModelUnusable: something is missing, damaged, or of another format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        raw = (folder / str(manifest["file"])).read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unusable(folder, f"cannot be read: {error}") from error
    if manifest.get("format") not in (FORMAT, WITH_SUBJECTS):
        told = f"has format {manifest.get('format')!r}; this version reads formats {FORMAT} and {WITH_SUBJECTS}"
        raise _unusable(folder, told)
    digest = hashlib.sha256(raw).hexdigest()
    if digest != manifest.get("sha256"):
        raise _unusable(folder, f"is damaged: SHA-256 is {digest[:12]}…, the manifest says {manifest.get('sha256')!r}")
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            floats = {
                name: arrays[name].astype(np.float32) for name in arrays.files if not name.startswith(_OF_SUBJECTS)
            }
            subjects = _read_subjects(arrays) if manifest["format"] == WITH_SUBJECTS else None
        weights = Weights(
            version=str(manifest["version"]),
            task_types=_task_types(manifest["task_types"]),
            temperature=float(manifest["temperature"]),
            facts=manifest,
            subjects=subjects,
            **floats,
        )
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise _unusable(folder, f"does not hold what it should: {error}") from error
    _check_shapes(folder, weights)
    return weights


def save_weights(folder: Path, weights: Weights, facts: Mapping[str, object]) -> str:
    """Writes a model folder and returns its version, which is made from the weights themselves."""
    arrays = {
        name: getattr(weights, name)
        for name in (
            "bias", "calibration", "confidence_bounds", "confidence_in_band", "idf", "structure_mean", "structure_scale",
            "structure_table", "table", "thresholds",
        )
    }  # fmt: skip
    large = {"table", "idf"}
    stored = {name: value.astype(np.float16 if name in large else np.float32) for name, value in arrays.items()}
    if weights.subjects is not None:
        stored |= {f"{_OF_SUBJECTS}{one.name}": getattr(weights.subjects, one.name) for one in fields(Subjects)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **stored)
    raw = buffer.getvalue()
    digest = hashlib.sha256(raw).hexdigest()
    version = f"{weights.version}-{digest[:8]}"
    manifest = {
        "format": FORMAT if weights.subjects is None else WITH_SUBJECTS,
        "version": version,
        "file": "model.npz",
        "sha256": digest,
        "bytes": len(raw),
        "task_types": list(weights.task_types),
        "temperature": round(weights.temperature, 6),
        **facts,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.npz").write_bytes(raw)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return version


def _read_subjects(arrays: Mapping[str, NDArray[Any]]) -> Subjects:
    read = {one.name: arrays[f"{_OF_SUBJECTS}{one.name}"] for one in fields(Subjects)}
    table = read.pop("table")
    if table.dtype != np.int8:
        raise ValueError(f"subjects of type {table.dtype}, not int8")
    # Rows that are not in one piece would be put together anew for every request.
    return Subjects(
        table=np.ascontiguousarray(table), **{name: value.astype(np.float32) for name, value in read.items()}
    )


def _task_types(names: Sequence[str]) -> tuple[TaskName, ...]:
    known: tuple[TaskName, ...] = get_args(TaskName)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"unknown task types: {', '.join(unknown)}")
    return tuple(name for wanted in names for name in known if name == wanted)


def _check_shapes(folder: Traversable | Path, weights: Weights) -> None:
    heads = len(weights.task_types) + 4
    encoded = len(NAMES) * (1 + weights.thresholds.shape[-1])
    wanted = {
        "idf": (ROWS,),
        "table": (ROWS, heads),
        "thresholds": (len(NAMES), weights.thresholds.shape[-1]),
        "structure_mean": (encoded,),
        "structure_scale": (encoded,),
        "structure_table": (encoded, heads),
        "bias": (heads,),
        "calibration": (4, 2),
        "confidence_in_band": (len(weights.confidence_bounds), 2),
    }
    found = {name: getattr(weights, name) for name in wanted}
    if weights.subjects is not None:
        wanted |= _shapes_of(weights.subjects)
        found |= {f"{_OF_SUBJECTS}{one.name}": getattr(weights.subjects, one.name) for one in fields(Subjects)}
    for name, shape in wanted.items():
        array = found[name]
        if array.shape != shape:
            raise _unusable(folder, f"has {name} of shape {array.shape}, not {shape}")
        if not np.isfinite(array).all():
            raise _unusable(folder, f"has {name} with values that are not finite")


def _shapes_of(subjects: Subjects) -> dict[str, tuple[int, ...]]:
    """Returns the shapes that go together, by the number of subjects and of landmarks."""
    count, landmarks = len(subjects.right), len(subjects.landmarks)
    numbers = len(NAMES) + 5 + OUTCOMES
    shapes: dict[str, tuple[int, ...]] = {
        "table": (SHARED_ROWS, count + OUTCOMES),
        "step": (1,),
        "prior": (count + OUTCOMES,),
        "right": (count, 2),
        "mean": (numbers,),
        "spread": (numbers,),
        "landmarks": (landmarks, numbers),
        "width": (1,),
        "weights": (landmarks, 2),
        "bias": (2,),
    }
    return {f"{_OF_SUBJECTS}{name}": shape for name, shape in shapes.items()}


def _unusable(folder: Traversable | Path, problem: str) -> ModelUnusable:
    return ModelUnusable(
        f"the classifier's model in {folder} {problem}. Reinstall tiermesh-classifier, train it again with "
        "`make train-classifier`, or set `classifier.model: off` to run on rules alone"
    )
