"""Recorded outcomes of a weak and a strong model, classified as the mesh would, as an evaluation set and as a log."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge, sure, with_answer
from tiermesh.classifier.judgement import Judgement
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.shared.rules import load_rules

WEAK, STRONG = "weak", "strong"
ANSWER_TOKENS = 100
"""Taken for every answer: the recorded outcomes do not say how long it was."""
_BEGIN = 1_790_000_000
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt of the evaluation set."""

    dataset: str
    subject: str
    """Data set and subject, such as `mmlu/anatomy`."""
    judged: Judgement
    prompt_tokens: int
    weak: float
    strong: float


def classify(path: Path, rules: Path) -> list[Asked]:
    """Reads the outcomes, and judges every prompt by rules and the built-in model."""
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    book, model = load_rules(rules), LinearModel(load_builtin())
    found: list[Asked] = []
    for start in range(0, len(rows), _BATCH):
        chunk = rows[start : start + _BATCH]
        turns = [(Turn("user", row["prompt"]),) for row in chunk]
        features = [read_features(turn, book.token_weights) for turn in turns]
        answers = model.predict(features)
        for row, turn, read, answer in zip(chunk, turns, features, answers, strict=True):
            judged = judge(book, turn, read, tenant="")
            if not sure(judged):
                judged = with_answer(judged, answer)
            tokens = read.prompt_tokens
            subject = str(row["dataset"])
            dataset = subject.split("/", maxsplit=1)[0]
            found.append(
                Asked(dataset, subject, judged, tokens, float(row["weak_correct"]), float(row["strong_correct"]))
            )
    return found


def evaluation_rows(asked: Iterable[Asked], *, by: str) -> Iterator[dict[str, Any]]:
    """Yields lines for `tiermesh report models`, by `task_type`, `dataset` or `subject`."""
    for each in asked:
        yield {
            "task_type": each.judged.task_type if by == "task_type" else getattr(each, by),
            "scores": {WEAK: each.weak, STRONG: each.strong},
            "prompt_tokens": each.prompt_tokens,
            "answer_tokens": ANSWER_TOKENS,
        }


def as_log(
    asked: Sequence[Asked], *, threshold: float, exploration: float, judged_share: float, dice: random.Random
) -> Iterator[record_pb2.Outcome]:
    """Yields what the mesh would have recorded: one tier answers each request, and some answers are judged."""
    for number, each in enumerate(asked):
        usual, other = (WEAK, STRONG) if each.judged.complexity <= threshold else (STRONG, WEAK)
        explored = dice.random() < exploration
        tier = other if explored else usual
        record = record_pb2.Outcome(
            schema_version=1,
            request_id=f"r{number}",
            tenant="bench",
            sample_rate=1.0,
            features=record_pb2.RequestFeatures(
                task_type=classifier_pb2.TaskType.Value(f"TASK_TYPE_{each.judged.task_type.upper()}"),
                complexity=each.judged.complexity,
                confidence=each.judged.confidence,
                source=each.judged.source,
                languages=["en"],
                prompt_token_count=each.prompt_tokens,
                message_count=1,
            ),
            decision=record_pb2.Decision(
                candidates=[
                    record_pb2.Candidate(tier=usual, probability=1 - exploration),
                    record_pb2.Candidate(tier=other, probability=exploration),
                ],
                propensity=exploration if explored else 1 - exploration,
                policy="static",
                explored=explored,
            ),
            result=record_pb2.Result(outcome="ok", tier=tier, cache="miss"),
            tries=[record_pb2.Try(tier=tier, outcome="answered")],
        )
        record.tries[0].usage.completion_token_count = ANSWER_TOKENS
        record.arrived.FromSeconds(_BEGIN + number)
        if dice.random() < judged_share:
            record.feedback.add(
                score=each.weak if tier == WEAK else each.strong, source=record_pb2.FEEDBACK_SOURCE_CHECK
            )
        yield record
