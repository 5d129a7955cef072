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
    """Returns milliseconds: rules and model alone, over texts of about 512 tokens that are all different.

    Rules: features are read and all rules are tried. Model: text pieces, structure and heads of one request at a time,
    given features already read; `model_with_features` reads them as well.
    """
    texts = _texts(prompts, rounds + _WARM_UP)
    book = load_rules(rules)
    model = LinearModel(load_builtin())
    turns = [(Turn("user", text),) for text in texts]
    features = [read_features(turn, book.token_weights) for turn in turns]

    def by_rules(at: int) -> None:
        judge(book, turns[at], read_features(turns[at], book.token_weights), tenant="")

    rules_ms = _timed(by_rules, len(texts))
    rules_alone_ms = _timed(lambda at: judge(book, turns[at], features[at], tenant=""), len(texts))
    model_ms = _timed(lambda at: model.predict([features[at]]), len(texts))
    both_ms = _timed(lambda at: model.predict([read_features(turns[at], book.token_weights)]), len(texts))
    return {
        "rules_p50": _at(rules_alone_ms, 50),
        "rules_p99": _at(rules_alone_ms, 99),
        "rules_with_features_p50": _at(rules_ms, 50),
        "rules_with_features_p99": _at(rules_ms, 99),
        "model_p50": _at(model_ms, 50),
        "model_p99": _at(model_ms, 99),
        "model_with_features_p50": _at(both_ms, 50),
        "model_with_features_p99": _at(both_ms, 99),
    }


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


def _timed(work: Callable[[int], object], count: int) -> list[float]:
    times = []
    for at in range(count):
        start = time.perf_counter_ns()
        work(at)
        times.append((time.perf_counter_ns() - start) / 1e6)
    return times[_WARM_UP:]


def _at(times: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(times, percent)), 4)
