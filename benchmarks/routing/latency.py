"""How long the classifier's own code takes for a request, on the thread that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.classifier.model.subjects import Subjects
from tiermesh.shared.rules import TokenWeights, estimate_tokens, load_rules, measure

TOKENS = 512
MEASURED = (
    "milliseconds of processor time of the thread that works, for one request of about 512 tokens, all texts different, the"
    " least of three turns for each text; *_wall_* is the clock of the same turn"
)
_WARM_UP = 50
_TURNS = 3
"""A neighbour on the same core empties its caches; the least of some turns is what the code itself takes."""


def measure_latency(
    prompts: Sequence[str], rules: Path, rounds: int, subjects: Subjects | None = None
) -> dict[str, float | str]:
    """Returns milliseconds for texts of about 512 tokens that are all different, one request at a time.

    `features` measures a text, which all others build on. `rules` tries all rules. `model` reads pieces and structure and
    applies the heads and the second opinion; `model_shipped` is the built-in one, without it. Figures are of the time that
    the thread itself ran: on a machine that others use, the clock says how long they kept it waiting.
    """
    texts = _texts(prompts, rounds + _WARM_UP)
    book = load_rules(rules)
    shipped = load_builtin()
    model, builtin = LinearModel(replace(shipped, subjects=subjects)), LinearModel(shipped)
    turns = [(Turn("user", text),) for text in texts]
    features = [read_features(turn, book.token_weights) for turn in turns]

    parts: dict[str, Callable[[int], object]] = {
        "features": lambda at: read_features(turns[at], book.token_weights),
        "rules": lambda at: judge(book, turns[at], features[at], tenant=""),
        "model": lambda at: model.predict([features[at]]),
        "model_shipped": lambda at: builtin.predict([features[at]]),
    }
    figures: dict[str, float | str] = {"measured": MEASURED}
    for name, work in parts.items():
        own, wall = _timed(work, len(texts))
        for percent in (50, 99):
            figures[f"{name}_p{percent}"] = _at(own, percent)
            figures[f"{name}_wall_p{percent}"] = _at(wall, percent)
    return figures


def _texts(prompts: Sequence[str], count: int) -> list[str]:
    """Joins prompts until each text has about the wanted number of tokens."""
    texts: list[str] = []
    parts: list[str] = []
    at = 0
    while len(texts) < count:
        parts.append(prompts[at % len(prompts)])
        at += 1
        text = "\n".join(parts)
        while estimate_tokens(measure(text), TokenWeights()) > TOKENS * 1.05:
            text = text[: int(len(text) * 0.97)]
        if estimate_tokens(measure(text), TokenWeights()) > TOKENS * 0.95:
            texts.append(text)
            parts = []
    return texts


def _timed(work: Callable[[int], object], count: int) -> tuple[list[float], list[float]]:
    """Returns the thread's own time and the clock's, by text: those of its quickest turn."""
    best: list[tuple[float, float]] = [(float("inf"), 0.0)] * count
    for _ in range(_TURNS):
        # All texts by turns, so that none is fresh in the processor's caches when it comes again.
        for at in range(count):
            start, began = time.perf_counter_ns(), time.thread_time_ns()
            work(at)
            own, wall = time.thread_time_ns() - began, time.perf_counter_ns() - start
            best[at] = min(best[at], (own / 1e6, wall / 1e6))
    kept = best[_WARM_UP:]
    return [own for own, _ in kept], [wall for _, wall in kept]


def _at(times: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(times, percent)), 4)
