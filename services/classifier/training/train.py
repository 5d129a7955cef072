"""Trains the classifier's model and writes it into the package: `make train-classifier`.

Every probability is calibrated on predictions for templates that the heads were not fitted to. The accuracy that
is printed and kept in the manifest is on the held-out prompts, which take no part in training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from design import Scaling, Texts, features_of, joined, learn_scaling, read_texts, weigh
from fit import fit_ridge
from heads import fit_elsewhere, fit_outcomes
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from subjects_fit import fit_subjects, opinions
from tiermesh.classifier.features import Turn
from tiermesh.classifier.judge import judge, sure, with_answer
from tiermesh.classifier.model.grams import ROWS, WORD_ROWS
from tiermesh.classifier.model.linear import ANSWER_TOLERANCE, COMPLEXITY_TOLERANCE, LinearModel, softmax
from tiermesh.classifier.model.subjects import Subjects
from tiermesh.classifier.model.weights import Weights, load_weights, save_weights
from tiermesh.shared.rules import TaskName, load_rules

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "tiermesh" / "classifier" / "model" / "builtin"
RULES = HERE.parents[2] / "mesh" / "profiles" / "rules.yaml"
TASKS: tuple[TaskName, ...] = (
    "greeting", "faq", "label", "summarise", "rewrite", "extract", "translate", "qa", "chat", "code", "math", "tool_use",
    "long_context", "planning",
)  # fmt: skip
VERSION = "1"
STRENGTH, STRUCTURE_WEIGHT, CHAR_WEIGHT = 0.3, 0.6, 1.0
FOLDS = 5
BANDS = (0.5, 0.7, 0.85, 0.95, 1.01)
Rows = Sequence[dict[str, Any]]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Reads a file of one JSON object a line."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def targets_of(rows: Rows) -> NDArray[np.float64]:
    """Returns what the heads are to say: task types as 0 or 1, complexity, ln answer tokens, small right, large right."""
    kinds = np.array([[row["task_type"] == task for task in TASKS] for row in rows], float)
    numbers = [
        [row["complexity"], np.log(row["answer_tokens"]), row.get("small_right", 0), row.get("large_right", 0)]
        for row in rows
    ]
    return np.hstack([kinds, np.array(numbers)])


def split(groups: Sequence[str], folds: int, seed: int) -> NDArray[np.intp]:
    """Returns a fold for each row such that rows of one group are in the same."""
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[at]: place % folds for place, at in enumerate(order)}
    return np.array([fold_of[group] for group in groups])


def out_of_fold(
    texts: Texts, targets: NDArray[np.float64], folds: NDArray[np.intp], strength: float
) -> NDArray[np.float64]:
    """Returns, for every row, what heads fitted to the other folds say of it."""
    scores = np.zeros_like(targets)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        scaling = learn_scaling(texts[inside], STRUCTURE_WEIGHT)
        weights, bias = fit_ridge(weigh(texts[inside], scaling, CHAR_WEIGHT), targets[inside], strength)
        scores[outside] = weigh(texts[outside], scaling, CHAR_WEIGHT) @ weights + bias
    return scores


def line_through(scores: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, float]:
    """Returns slope and intercept that make scores right on average, wherever on the scale they are."""
    spread = float(scores.var())
    if spread < 1e-9:
        return 0.0, float(truth.mean())
    slope = float(np.cov(scores, truth, bias=True)[0, 1]) / spread
    return slope, float(truth.mean() - slope * scores.mean())


def best_temperature(scores: NDArray[np.float64], truth: NDArray[np.intp]) -> float:
    """Returns the softmax temperature under which the true classes are most likely."""

    def loss(log_temperature: float) -> float:
        shares = softmax(scores.astype(np.float32), float(np.exp(log_temperature)))
        return float(-np.log(np.maximum(shares[np.arange(len(truth)), truth], 1e-9)).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-5, 2), method="bounded").x))


def train(rows: Rows, outcomes: Rows = (), *, elsewhere: bool = False) -> Weights:
    """Fits all heads and their calibration.

    Args:
        rows: Labelled prompts.
        outcomes: Prompts with `weak_correct` and `strong_correct` of a real pair of models. Given them, the heads for
            small right and large right are fitted to these alone. Their `topic`, where all have one, helps.
        elsewhere: Whether the outcomes are of other traffic than the model is meant for.
    """
    texts, targets = read_texts([row["text"] for row in rows]), targets_of(rows)
    truth = targets[:, : len(TASKS)].argmax(axis=1)
    scores = out_of_fold(texts, targets, split([row["template"] for row in rows], FOLDS, seed=1), STRENGTH)
    temperature = best_temperature(scores[:, : len(TASKS)], truth)
    calibration = [line_through(scores[:, at], targets[:, at]) for at in range(len(TASKS), targets.shape[1])]
    seen = texts if not outcomes else joined(texts, read_texts([row["prompt"] for row in outcomes]))
    scaling = learn_scaling(seen, STRUCTURE_WEIGHT)
    table, bias = fit_ridge(weigh(texts, scaling, CHAR_WEIGHT), targets, STRENGTH)
    subjects = None
    if outcomes:
        found = _outcome_heads(outcomes, scaling, elsewhere=elsewhere)
        table[:, -2:], bias[-2:], calibration[-2:], subjects = found
    bounds, inside = _bands(scores, targets, temperature, calibration)
    text_table = table[:ROWS].copy()
    text_table[WORD_ROWS:] *= CHAR_WEIGHT
    return Weights(
        version=VERSION,
        task_types=TASKS,
        idf=scaling.idf,
        table=text_table.astype(np.float32),
        thresholds=scaling.thresholds,
        structure_mean=scaling.mean,
        structure_scale=scaling.scale,
        structure_table=table[ROWS:].astype(np.float32),
        bias=bias.astype(np.float32),
        temperature=temperature,
        calibration=np.array(calibration, np.float32),
        confidence_bounds=np.array(bounds, np.float32),
        confidence_in_band=np.array(inside, np.float32),
        facts={},
        subjects=subjects,
    )


def _outcome_heads(
    outcomes: Rows, scaling: Scaling, *, elsewhere: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[tuple[float, float]], Subjects | None]:
    """Fits the last two heads to outcomes, expressed in the scaling that the other heads use, and the second opinion."""
    texts = read_texts([row["prompt"] for row in outcomes])
    right = np.array([[row["weak_correct"], row["strong_correct"]] for row in outcomes], float)
    topics = np.array([str(row.get("topic", "")) for row in outcomes])
    folds = split([row["prompt"] for row in outcomes], FOLDS, seed=1)
    plain = replace(scaling, scale=scaling.scale / STRUCTURE_WEIGHT)
    known = all(topics) and len(set(topics)) > 1

    def fit(rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64], Subjects | None]:
        if elsewhere:
            return *fit_elsewhere(texts[rows], right[rows], plain), None
        subjects = fit_subjects(texts[rows], right[rows], list(topics[rows])) if known else None
        return *fit_outcomes(texts[rows], right[rows], plain), subjects

    matrix = weigh(texts, plain, 1.0)
    scores = np.zeros_like(right)
    for fold in range(FOLDS):
        table, bias, subjects = fit(np.flatnonzero(folds != fold))
        outside = np.flatnonzero(folds == fold)
        scores[outside] = matrix[outside] @ table + bias
        if subjects is not None:
            scores[outside] = (scores[outside] + opinions(subjects, texts[outside])) / 2
    table, bias, subjects = fit(np.arange(len(right)))
    table[WORD_ROWS:ROWS] /= CHAR_WEIGHT
    table[ROWS:] /= STRUCTURE_WEIGHT
    return table, bias, [line_through(scores[:, at], right[:, at]) for at in range(2)], subjects


def _bands(
    scores: NDArray[np.float64],
    targets: NDArray[np.float64],
    temperature: float,
    calibration: Sequence[tuple[float, float]],
) -> tuple[list[float], list[list[float]]]:
    """Returns, for bands of task confidence, how often complexity and answer length were right out of fold."""
    confidence = softmax(scores[:, : len(TASKS)].astype(np.float32), temperature).max(axis=1)
    values = [scores[:, len(TASKS) + at] * calibration[at][0] + calibration[at][1] for at in range(2)]
    right = [
        np.abs(values[0] - targets[:, len(TASKS)]) <= COMPLEXITY_TOLERANCE,
        np.abs(values[1] - targets[:, len(TASKS) + 1]) <= ANSWER_TOLERANCE,
    ]
    band = np.searchsorted(BANDS[:-1], confidence)
    inside = []
    for at in range(len(BANDS)):
        here = band == at
        # A few imagined cases at the overall rate keep a thin band from claiming too much.
        inside.append([float((r[here].sum() + 10 * r.mean()) / (here.sum() + 10)) for r in right])
    return list(BANDS), inside


def measure(model: LinearModel, rows: Rows) -> dict[str, Any]:
    """Returns how right a model is on labelled prompts it has not seen."""
    predictions = model.predict([features_of(row["text"]) for row in rows])
    right = np.array([p.task_type == row["task_type"] for p, row in zip(predictions, rows, strict=True)])
    confidence = np.array([p.task_confidence for p in predictions])
    language = np.array([row["language"] for row in rows])
    hard = np.array([row["complexity"] > 0.5 for row in rows])
    said = np.array([p.complexity for p in predictions])
    wanted = np.array([row["complexity"] for row in rows])
    length = np.array(
        [np.log(p.answer_tokens / row["answer_tokens"]) for p, row in zip(predictions, rows, strict=True)]
    )
    band = np.minimum(4, (confidence * 5).astype(int))
    gap = sum(abs(right[band == at].mean() - confidence[band == at].mean()) * (band == at).mean() for at in set(band))
    pairs = (said[hard][:, None] > said[~hard][None, :]).mean() if hard.any() and (~hard).any() else float("nan")
    figures = {
        "prompts": len(rows),
        "task_accuracy": right.mean(),
        **{f"task_accuracy_{code}": right[language == code].mean() for code in sorted(set(language))},
        "task_calibration_gap": gap,
        "complexity_within_tolerance": (np.abs(said - wanted) <= COMPLEXITY_TOLERANCE).mean(),
        "hard_above_easy": pairs,
        "answer_length_within_factor_two": (np.abs(length) <= ANSWER_TOLERANCE).mean(),
    }
    kinds = {
        task: round(float(right[at].mean()), 3)
        for task in TASKS
        if (at := [row["task_type"] == task for row in rows]) and any(at)
    }
    return {name: round(float(figure), 4) for name, figure in figures.items()} | {"task_accuracy_by_kind": kinds}


def measure_with_rules(model: LinearModel, rules: Path, rows: Rows) -> dict[str, float]:
    """Returns how often the kind of work is right by rules alone, and by rules with the model behind them."""
    book = load_rules(rules)
    alone = together = 0
    for row in rows:
        turns, features = (Turn("user", row["text"]),), features_of(row["text"])
        judged = judge(book, turns, features, tenant="")
        final = judged if sure(judged) else with_answer(judged, model.predict([features])[0])
        alone += judged.task_type == row["task_type"]
        together += final.task_type == row["task_type"]
    return {"task_accuracy_rules_alone": alone / len(rows), "task_accuracy_rules_and_model": together / len(rows)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, writes, reads back what was written, and prints what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=HERE / "data" / "prompts.jsonl")
    parser.add_argument("--heldout", type=Path, default=HERE / "data" / "heldout.jsonl")
    parser.add_argument(
        "--outcomes",
        type=Path,
        help="JSON lines with prompt, weak_correct and strong_correct of your fleet, and topic if known",
    )
    parser.add_argument(
        "--outcomes-elsewhere",
        action="store_true",
        help="the outcomes are of other traffic than yours: learn from the structure of prompts alone, which carries over",
    )
    parser.add_argument("--rules", type=Path, default=RULES, help="rules file to measure the model behind")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    options = parser.parse_args(arguments)
    rows, heldout = read_rows(options.data), read_rows(options.heldout)
    outcomes = read_rows(options.outcomes) if options.outcomes else []
    print(f"training on {len(rows)} prompts" + (f" and {len(outcomes)} outcomes" if outcomes else ""), flush=True)
    weights = train(rows, outcomes, elsewhere=options.outcomes_elsewhere)
    measured = measure(LinearModel(weights), heldout)
    facts = {
        "trained_on": {"prompts": len(rows), "outcomes": len(outcomes), "elsewhere": options.outcomes_elsewhere},
        "measured_on_heldout": measured,
    }
    version = save_weights(options.out, weights, facts)
    load_weights(options.out)
    for name, figure in measured.items():
        print(f"  {name}: {figure}")
    for name, figure in measure_with_rules(LinearModel(weights), options.rules, heldout).items():
        print(f"  {name}: {figure:.4f}")
    print(f"wrote version {version} to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
