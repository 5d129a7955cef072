"""Labels by examples on CLINC150: the rules tier's own matching, with more and more examples of each label."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tiermesh.shared.rules.examples import ExampleIndex, Likeness

EXAMPLES = (1, 5, 10, 20, 50)
LEAD = 0.1
"""As the schema has it by default."""
Pairs = Sequence[Sequence[str]]


def measure_intents(
    path: Path, progress: Callable[[str], None], examples: Sequence[int] = EXAMPLES, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Measures label matching for each number of examples per label.

    Three ways to say "none of these": never; with a threshold chosen on the validation texts so that in-scope and
    out-of-scope ones are recognised alike; and as rules do by default, where a wrong answer is worse than none.

    Returns:
        By number of examples: `accuracy` over in-scope test texts and `oos_recall` over out-of-scope ones with the chosen
        threshold, `accuracy_no_threshold`; under `default`, the shares of in-scope texts answered and rightly answered, how
        many of all answers are right, and `oos_recall`; and the time of one look-up. Shares come with the middle
        95% of their bootstrap.
    """
    data = json.loads(path.read_text("utf-8"))
    by_label: dict[str, list[str]] = {}
    for text, label in data["train"]:
        by_label.setdefault(label, []).append(text)
    rng = np.random.default_rng(seed)
    order = {label: rng.permutation(len(texts)) for label, texts in sorted(by_label.items())}
    found = {}
    for count in examples:
        if count > min(map(len, by_label.values())):
            continue
        progress(f"{count} examples per label")
        chosen = {label: [by_label[label][at] for at in places[:count]] for label, places in order.items()}
        found[str(count)] = _measure(ExampleIndex(chosen), data)
    return found


def _measure(index: ExampleIndex, data: dict[str, Pairs]) -> dict[str, Any]:
    began = time.process_time_ns()
    test = _nearest(index, data["test"])
    milliseconds = (time.process_time_ns() - began) / 1e6 / len(data["test"])
    inside, outside, oos = (_nearest(index, data[name]) for name in ("val", "oos_val", "oos_test"))
    right = np.array([near.label == label for near, (_, label) in zip(test, data["test"], strict=True)])
    grid = np.quantile(np.concatenate([_like(inside), _like(outside)]), np.linspace(0, 1, 201))
    balance = [min((_like(inside) >= at).mean(), (_like(outside) < at).mean()) for at in grid]
    threshold = float(grid[int(np.argmax(balance))])
    answered, wrongly = _answered(index, test), _answered(index, oos)
    answers = int(answered.sum() + wrongly.sum())
    return {
        **_share("accuracy", right & (_like(test) >= threshold)),
        **_share("accuracy_no_threshold", right),
        **_share("oos_recall", _like(oos) < threshold),
        "default": {
            **_share("answered", answered),
            **_share("accuracy", right & answered),
            **_share("oos_recall", ~wrongly),
            "right_of_answers": round(float((right & answered).sum() / max(1, answers)), 4),
        },
        "look_up_cpu_ms": round(milliseconds, 4),
    }


def _answered(index: ExampleIndex, near: Sequence[Likeness]) -> NDArray[np.bool_]:
    return np.array([one.likeness >= index.threshold and one.lead >= LEAD for one in near])


def _nearest(index: ExampleIndex, pairs: Pairs) -> list[Likeness]:
    return [index.nearest(text) for text, _ in pairs]


def _like(near: Sequence[Likeness]) -> NDArray[np.float64]:
    return np.array([one.likeness for one in near])


def _share(name: str, values: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns a share by its name, and the middle 95% of its bootstrap."""
    rng = np.random.default_rng(0)
    drawn = rng.binomial(len(values), values.mean(), 2000) / len(values)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {name: round(float(values.mean()), 4), f"{name}_ci": [round(float(low), 4), round(float(high), 4)]}
