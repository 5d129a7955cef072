"""Label matching on CLINC150: the nearest label by a few examples of each, and saying "none of these" where none is near."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import design
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

EXAMPLES = (1, 5, 10, 20, 50)


def measure_intents(
    path: Path, progress: Callable[[str], None], examples: Sequence[int] = EXAMPLES, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Measures label matching for each number of examples per label.

    A text gets the label whose examples, weighed and averaged, it is most like (cosine), unless it is less like it
    than a threshold chosen on the validation texts so that in-scope and out-of-scope ones are recognised equally well.

    Returns:
        By number of examples: `accuracy` over in-scope test texts with the threshold in force, `accuracy_no_threshold`,
        and `oos_recall` over out-of-scope test texts.
    """
    data = json.loads(path.read_text("utf-8"))
    sets = {name: _read(data[name]) for name in ("train", "val", "test", "oos_val", "oos_test")}
    labels = sorted(set(sets["train"][1]))
    rng = np.random.default_rng(seed)
    wanted = np.array(sets["train"][1])
    order = {label: rng.permutation(np.flatnonzero(wanted == label)) for label in labels}
    found = {}
    for count in examples:
        if count > min(map(len, order.values())):
            continue
        progress(f"{count} examples per label")
        chosen = np.concatenate([order[label][:count] for label in labels])
        scaling = design.learn_scaling(sets["train"][0][chosen], 0.0)
        centres = _centres(_rows(sets["train"][0][chosen], scaling), len(labels), count)
        near = {name: _rows(texts, scaling) @ centres.T for name, (texts, _) in sets.items() if name != "train"}
        inside, outside = near["val"].max(axis=1), near["oos_val"].max(axis=1)
        grid = np.quantile(np.concatenate([inside, outside]), np.linspace(0, 1, 201))
        balance = [min((inside >= at).mean(), (outside < at).mean()) for at in grid]
        threshold = grid[int(np.argmax(balance))]
        right = np.array([labels[at] for at in near["test"].argmax(axis=1)]) == np.array(sets["test"][1])
        found[str(count)] = {
            "accuracy": float((right & (near["test"].max(axis=1) >= threshold)).mean()),
            "accuracy_no_threshold": float(right.mean()),
            "oos_recall": float((near["oos_test"].max(axis=1) < threshold).mean()),
        }
    return found


def _read(pairs: Sequence[Sequence[str]]) -> tuple[design.Texts, list[str]]:
    return design.read_texts([text for text, _ in pairs]), [label for _, label in pairs]


def _rows(texts: design.Texts, scaling: design.Scaling) -> sp.csr_matrix:
    rows = design.weigh(texts, scaling, char_weight=1.0)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.diags(1 / np.maximum(lengths, 1e-9)) @ rows


def _centres(rows: sp.csr_matrix, labels: int, count: int) -> NDArray[np.float32]:
    centres = np.stack([np.asarray(rows[at * count : (at + 1) * count].mean(axis=0)).ravel() for at in range(labels)])
    return np.asarray(centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-9), np.float32)
