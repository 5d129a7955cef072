"""What was learnt, in one file with a checksum: written whole or not at all, and refused where it was damaged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tiermesh.shared.bandit.context import CONTEXT_VERSION, NAMES
from tiermesh.shared.bandit.posterior import Posterior

FORMAT = 1


class StateDamaged(Exception):
    """The file cannot be trusted; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """Beliefs of all tiers, and from when on outcomes count."""

    posteriors: Mapping[str, Posterior] = field(default_factory=dict)
    since_s: float = 0.0
    """Outcomes of requests that arrived earlier are not learnt from, in seconds since the Unix epoch: set by a reset."""
    version: str = "empty"
    """Identifies what was learnt; the same lessons give the same version."""

    @property
    def count(self) -> int:
        """Answers seen, over all tiers."""
        return sum(posterior.count for posterior in self.posteriors.values())


def make_learnt(posteriors: Mapping[str, Posterior], since_s: float) -> Learnt:
    """Returns beliefs with the version that they make."""
    return Learnt(posteriors, since_s, _digest(_body(posteriors, since_s))[:12])


def save_learnt(path: Path, learnt: Learnt) -> None:
    """Writes beliefs; a crash leaves the file as it was.

    Raises:
        OSError: the folder cannot be written to.
    """
    body = _body(learnt.posteriors, learnt.since_s)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(json.dumps({"sha256": _digest(body), **body}) + "\n", "utf-8")
    written.replace(path)


def load_learnt(path: Path) -> Learnt:
    """Reads beliefs; none at all where there is no file.

    Raises:
        StateDamaged: the file is not what was written, or of another version.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        digest = raw.pop("sha256")
        if _digest(raw) != digest:
            raise StateDamaged(_advice(path, "is damaged: its checksum does not match"))
        if (raw["format"], raw["context"]) != (FORMAT, CONTEXT_VERSION):
            raise StateDamaged(_advice(path, "is of another version of tiermesh"))
        posteriors = {name: _posterior(one) for name, one in raw["tiers"].items()}
        return make_learnt(posteriors, float(raw["since_s"]))
    except FileNotFoundError:
        return Learnt()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, np.linalg.LinAlgError) as error:
        raise StateDamaged(_advice(path, f"cannot be read ({type(error).__name__})")) from error


def _posterior(raw: Mapping[str, object]) -> Posterior:
    size = len(NAMES)
    precision = np.array(raw["precision"], np.float64).reshape(size, size)
    response = np.array(raw["response"], np.float64).reshape(size)
    if not (np.isfinite(precision).all() and np.isfinite(response).all()):
        raise ValueError("numbers that are not finite")
    return Posterior(precision, response, int(str(raw["count"]))).solved()


def _body(posteriors: Mapping[str, Posterior], since_s: float) -> dict[str, object]:
    return {
        "format": FORMAT,
        "context": CONTEXT_VERSION,
        "since_s": since_s,
        "tiers": {
            name: {
                "count": one.count,
                "precision": [float(value) for value in one.precision.ravel()],
                "response": [float(value) for value in one.response],
            }
            for name, one in sorted(posteriors.items())
        },
    }


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _advice(path: Path, problem: str) -> str:
    return f"{path}: {problem}; `tiermesh bandit reset {path}` starts anew"
