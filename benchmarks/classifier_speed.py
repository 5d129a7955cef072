"""How long the classifier takes for a request, part by part, alone and under load, and to start.

    make bench-classifier
    python benchmarks/classifier_speed.py --texts 1000 --passes 3

All texts are different, and come from the prompts that the model is trained and held out on. Times are those that the thread
itself ran, so that a busy machine does not count as waiting; it still slows down what runs, so each text is
measured in several passes over all of them, and the quickest counts. Needs neither server nor network. Writes
benchmarks/out/classifier_speed.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

for _library in ("OMP", "OPENBLAS", "MKL"):
    # One core, as the targets say; set before numpy is imported.
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402 -- after the number of threads
import psutil  # noqa: E402 -- as above
from classifier.batching import measure_batching  # noqa: E402 -- as above
from classifier.texts import joined, ordinary, read_prompts  # noqa: E402 -- as above
from tiermesh.api.classifier.v1 import classifier_pb2  # noqa: E402 -- as above
from tiermesh.api.common.v1 import chat_pb2  # noqa: E402 -- as above
from tiermesh.classifier.features import Turn, read_features  # noqa: E402 -- as above
from tiermesh.classifier.judge import judge  # noqa: E402 -- as above
from tiermesh.classifier.model import BatchedModel, LinearModel, load_builtin  # noqa: E402 -- as above
from tiermesh.classifier.safety import safety_flags  # noqa: E402 -- as above
from tiermesh.classifier.servicer import ClassifierServicer  # noqa: E402 -- as above
from tiermesh.shared.budget import Budget, set_current_budget  # noqa: E402 -- as above
from tiermesh.shared.rules import CurrentRules, RuleBook, load_rules  # noqa: E402 -- as above

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "out" / "classifier_speed.json"
PARTS = ("measuring", "rules", "measuring_and_rules", "safety", "model", "classify")
Row = dict[str, float]
T = TypeVar("T")


def measure_parts(book: RuleBook, model: LinearModel, texts: Sequence[str], passes: int) -> dict[str, Row]:
    """Returns p50 and p99 in milliseconds of each part of a request, over texts."""
    servicer = ClassifierServicer(CurrentRules(book), BatchedModel(model, timeout_s=60))
    best = np.full((len(texts), len(PARTS)), np.inf)

    async def run() -> None:
        set_current_budget(Budget.of(3600))
        for _ in range(passes):
            for at, text in enumerate(texts):
                best[at] = np.minimum(best[at], await _one(book, model, servicer, text))

    asyncio.run(run())
    return {
        part: {f"p{percent}": round(float(np.percentile(best[:, at], percent)), 4) for percent in (50, 99)}
        for at, part in enumerate(PARTS)
    }


async def _one(book: RuleBook, model: LinearModel, servicer: ClassifierServicer, text: str) -> list[float]:
    turns = (Turn("user", text),)
    message = chat_pb2.Message(role=chat_pb2.ROLE_USER, content=text)
    sent = classifier_pb2.ClassifyRequest(messages=[message]).SerializeToString()
    marks = [time.thread_time_ns()]
    features = read_features(turns, book.token_weights)
    marks.append(time.thread_time_ns())
    judge(book, turns, features, tenant="")
    marks.append(time.thread_time_ns())
    safety_flags(features.text)
    marks.append(time.thread_time_ns())
    model.predict([features])
    marks.append(time.thread_time_ns())
    answer = await servicer.Classify(classifier_pb2.ClassifyRequest.FromString(sent), None)
    answer.SerializeToString()
    marks.append(time.thread_time_ns())
    measuring, rules, safety, predicting, classify = np.diff(marks) / 1e6
    return [measuring, rules, measuring + rules, safety, predicting, classify]


def measure_start(rules: Path) -> Row:
    """Returns milliseconds and memory of loading the rules and the model."""
    process = psutil.Process()
    before = process.memory_info().rss
    book, rules_ms = _took(lambda: load_rules(rules))
    model, model_ms = _took(lambda: LinearModel(load_builtin()))
    _, first_ms = _took(lambda: _first(book, model))
    grown = (process.memory_info().rss - before) / 2**20
    return {"rules_ms": rules_ms, "model_ms": model_ms, "first_request_ms": first_ms, "memory_mib": round(grown, 1)}


def _first(book: RuleBook, model: LinearModel) -> None:
    turns = (Turn("user", "Write a Python function that merges two sorted lists. 用中文解释。"),)
    features = read_features(turns, book.token_weights)
    judge(book, turns, features, tenant="")
    model.predict([features])


def _took(work: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time_ns()
    found = work()
    return found, round((time.process_time_ns() - began) / 1e6, 1)


def main() -> None:
    """Measures, prints tables and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=Path, default=ROOT / "mesh" / "profiles" / "rules.yaml")
    parser.add_argument("--texts", type=int, default=2000, help="of each length, at most (default: 2000)")
    parser.add_argument("--passes", type=int, default=3, help="over all texts; the quickest counts (default: 3)")
    options = parser.parse_args()
    start = measure_start(options.rules)
    book, model, prompts = load_rules(options.rules), LinearModel(load_builtin()), read_prompts()
    lengths = {
        "ordinary": ordinary(prompts)[: options.texts],
        "512 tokens": joined(prompts, 512, options.texts // 2),
        "32,000 tokens": joined(prompts, 32_000, max(5, options.texts // 50)),
    }
    parts = {}
    print(f"{'ms of one core, p50 / p99':<22}" + "".join(f"{part.replace('_', ' '):>22}" for part in PARTS))
    for name, texts in lengths.items():
        parts[name] = rows = measure_parts(book, model, texts, options.passes)
        shown = "".join(f"{row['p50']:>13.3f} / {row['p99']:.3f} " for row in rows.values())
        print(f"{name:<22}{shown}", flush=True)
    batching = {}
    print(f"\n{'asked at once':<26}{'per s':>8}{'p50 ms':>10}{'p99 ms':>10}{'CPU ms':>10}")
    for name in ("ordinary", "512 tokens"):
        requests = [read_features((Turn("user", text),), book.token_weights) for text in lengths[name]]
        batching[name] = measure_batching(model, requests, options.texts)
        for how, row in batching[name].items():
            cells = f"{row['per_s']:>8.0f}{row['p50_ms']:>10.2f}{row['p99_ms']:>10.2f}{row['cpu_ms']:>10.3f}"
            print(f"{name + ', ' + how.replace('_', ' '):<26}{cells}", flush=True)
    print(
        f"\nto start: rules {start['rules_ms']} ms, model {start['model_ms']} ms, first request {start['first_request_ms']} ms "
        f"of processor time, {start['memory_mib']} MiB"
    )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"parts_ms": parts, "batching": batching, "start": start}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
