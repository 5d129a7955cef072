"""Prompts with the outcomes of a weak and a strong model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One set of prompts."""

    name: str
    prompts: tuple[str, ...]
    weak: NDArray[np.float64]
    """1 where the weak model was right."""
    strong: NDArray[np.float64]
    """1 where the strong model was right."""
    topics: tuple[str, ...] = ()
    """What each prompt is about; for training alone."""

    def folds(self, seed: int, *, apart: bool = True) -> NDArray[np.intp]:
        """Returns a fold for each prompt.

        Args:
            seed: Of the shuffling.
            apart: Whether a prompt that occurs twice has both in one fold. Plain shuffling lets a router
                look up the answer to some prompts, and so flatters those that can memorise.
        """
        if not apart:
            return np.random.default_rng(seed).permutation(len(self.prompts)) % FOLDS
        keys = [hashlib.sha256(f"{seed}:{' '.join(prompt.split())}".encode()).digest() for prompt in self.prompts]
        return np.array([int.from_bytes(key[:6], "big") % FOLDS for key in keys])


def read_outcomes(path: Path) -> dict[str, Outcomes]:
    """Reads outcomes by set: `mmlu` holds all its subjects. No router is shown the subject of a prompt that it scores."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    sets = {}
    for name in dict.fromkeys(str(row["dataset"]).split("/")[0] for row in rows):
        mine = [row for row in rows if str(row["dataset"]).split("/")[0] == name]
        sets[name] = Outcomes(
            name,
            tuple(row["prompt"] for row in mine),
            np.array([row["weak_correct"] for row in mine], float),
            np.array([row["strong_correct"] for row in mine], float),
            tuple(str(row["dataset"]) for row in mine),
        )
    return sets
