"""How long the classifier's own code takes for a request, on the thread that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.shared.rules import TokenWeights, estimate_tokens, load_rules, measure

TOKENS = 512
_WARM_UP = 50


def measure_latency(prompts: Sequence[str], rules: Path, rounds: int) -> dict[str, float]:
    """Returns milliseconds for texts of about 512 tokens that are all different, one request at a time.

    `features` measures a text, which both others build on. `rules` tries all rules. `model` reads pieces and structure and
    applies the heads. Each is given by the clock and, as `cpu`, by the time the thread itself ran: on a machine that
    others use, the clock says how long they kept it waiting.
    """
    texts = _texts(prompts, rounds + _WARM_UP)
    book = load_rules(rules)
    model = LinearModel(load_builtin())
    turns = [(Turn("user", text),) for text in texts]
    features = [read_features(turn, book.token_weights) for turn in turns]

    parts: dict[str, Callable[[int], object]] = {
        "features": lambda at: read_features(turns[at], book.token_weights),
        "rules": lambda at: judge(book, turns[at], features[at], tenant=""),
        "model": lambda at: model.predict([features[at]]),
    }
    figures = {}
    for name, work in parts.items():
        wall, own = _timed(work, len(texts))
        for percent in (50, 99):
            figures[f"{name}_p{percent}"] = _at(wall, percent)
            figures[f"{name}_cpu_p{percent}"] = _at(own, percent)
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
    wall, own = [], []
    for at in range(count):
        start, began = time.perf_counter_ns(), time.thread_time_ns()
        work(at)
        own.append((time.thread_time_ns() - began) / 1e6)
        wall.append((time.perf_counter_ns() - start) / 1e6)
    return wall[_WARM_UP:], own[_WARM_UP:]


def _at(times: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(times, percent)), 4)
