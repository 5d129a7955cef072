"""What the log of outcomes can tell, on 15,361 prompts with recorded outcomes of a weak and a strong model.

    make bench-learning
    python benchmarks/learning_bench.py --data FOLDER

- models: `tiermesh report models` on the outcomes, by the classifier's task types and by data set
- thresholds: `tiermesh calibrate-thresholds` on half of the prompts, as an evaluation set and as a log in which each
  request was answered by one tier, and what the threshold that it chose does to the other half
- drift: false alarms on requests of the reference's own kind, and from which share of another kind on it is seen
- cost: of a record in the router, in the log, and on disk

Writes benchmarks/out/learning.json, the evaluation sets and the pictures beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from harness.outcomes import make_record  # noqa: E402 -- the harness is not installed
from harness.router import running_router  # noqa: E402 -- likewise
from learning.traffic import ANSWER_TOKENS, STRONG, WEAK, Asked, as_log, classify, evaluation_rows  # noqa: E402
from tiermesh.client.cli._app import make_app  # noqa: E402
from tiermesh.outcomes.adapters.sqlite import open_outcomes  # noqa: E402
from tiermesh.outcomes.drift.features import features_of  # noqa: E402
from tiermesh.outcomes.drift.measure import DRIFT, OK, Marks, measure  # noqa: E402
from tiermesh.outcomes.drift.reference import count_window, make_reference  # noqa: E402
from tiermesh.shared.config import TierConfig, load_config  # noqa: E402
from tiermesh.shared.outcomes import write_outcome  # noqa: E402

OUT = ROOT / "benchmarks" / "out"
RULES = ROOT / "mesh" / "profiles" / "rules.yaml"
CONFIG = f"""
# Prices of a million tokens as the RouteLLM paper takes them (Ong et al. 2024): Mixtral 8x7B and GPT-4.
tenants: [{{name: bench, key_env: KEY}}]
tiers:
  - {{name: {WEAK}, backend: simulated, max_complexity: 0.5, price_in: 0.24, price_out: 0.24}}
  - {{name: {STRONG}, backend: simulated, price_in: 24.7, price_out: 24.7}}
"""
WINDOW = 2000
TARGETS = (
    ("--target-strong-share", "0.2"),
    ("--target-strong-share", "0.5"),
    ("--target-quality", "0.9"),
    ("--target-quality", "0.98"),
)
PARTS = ("models", "thresholds", "drift", "cost")


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with routellm/")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, of {','.join(PARTS)}")
    parser.add_argument("--trials", type=int, default=100, help="windows per row of the part drift")
    arguments = parser.parse_args()
    data: Path = arguments.data / "routellm" / "outcomes.jsonl"
    if not data.exists():
        print(f"{data}: is not there; name the folder with --data", file=sys.stderr)
        return 1
    OUT.mkdir(exist_ok=True)
    config, out = OUT / "learning.yaml", OUT / "learning.json"
    config.write_text(CONFIG, encoding="utf-8")
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    chosen = arguments.only.split(",")
    asked = classify(data, RULES) if set(chosen) - {"cost"} else []
    parts: dict[str, Callable[[], Any]] = {
        "models": lambda: models(asked, config),
        "thresholds": lambda: thresholds(asked, config),
        "drift": lambda: drift(asked, arguments.trials),
        "cost": cost,
    }
    for name in chosen:
        began = time.monotonic()
        found[name] = parts[name]()
        print(f"{name}: {time.monotonic() - began:.0f} s\n", flush=True)
        # After every part, so that one that is broken off loses only itself.
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"\nwrote {out}")
    return 0


def models(asked: Sequence[Asked], config: Path) -> dict[str, Any]:
    """Reports on models by task type, data set and subject."""
    found = {}
    for name in ("task_type", "dataset", "subject"):
        path = OUT / f"evaluation-{name}.jsonl"
        rows = evaluation_rows(asked, by=name)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        words = ["report", "models", str(path), "--config", str(config), "--within", "3"]
        print(run(*words, "--picture", str(OUT / f"models-{name}.svg")))
        found[name] = json.loads(run(*words, "--json"))
    return found


def thresholds(asked: Sequence[Asked], config: Path) -> list[dict[str, Any]]:
    """Chooses thresholds from half of the prompts, and holds what they promise against the other half."""
    order = list(asked)
    random.Random(0).shuffle(order)
    first, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    # What a log is like: how many answers of the other tier it has, and how many were judged.
    sources: dict[str, tuple[float, float] | None] = {
        "evaluation set": None,
        "log, 20% explored, all judged": (0.2, 1.0),
        "log, 2% explored, 20% judged": (0.02, 0.2),
    }
    found = []
    print(
        f"from {len(first)} prompts, on {len(held_out)} others; expected | found, cost as a share of the strong tier's"
    )
    for name, log in sources.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "outcomes.jsonl"
            path.write_text("".join(line + "\n" for line in _lines(first, log)), encoding="utf-8")
            for option, target in TARGETS:
                row = {"from": name, "target": f"{option} {target}", **_promise(path, config, option, target, held_out)}
                found.append(row)
                told = ", ".join(
                    f"{key} {row['expected'][key]:.1%} | {row['found'][key]:.1%}"
                    for key in ("to strong", "quality", "cost")
                )
                print(f"{name:<30} {row['target']:<26} threshold {row['max_complexity']:.3f}  {told}")
    return found


def _lines(asked: Sequence[Asked], log: tuple[float, float] | None) -> Iterator[str]:
    """Yields an evaluation set, or records of a log by its exploration and the share of answers that were judged."""
    if log is None:
        for each in asked:
            yield json.dumps(
                {
                    "complexity": each.judged.complexity,
                    "weak_correct": each.weak,
                    "strong_correct": each.strong,
                    "task_type": each.judged.task_type,
                    "prompt_tokens": each.prompt_tokens,
                    "answer_tokens": ANSWER_TOKENS,
                }
            )
        return
    records = as_log(asked, threshold=0.5, exploration=log[0], judged_share=log[1], dice=random.Random(1))
    yield from map(write_outcome, records)


def _promise(path: Path, config: Path, option: str, target: str, held_out: Sequence[Asked]) -> dict[str, Any]:
    """Returns what a chosen threshold promises, and what it does to prompts that had no part in it."""
    words = ["calibrate-thresholds", str(path), "--config", str(config), option, target]
    said = json.loads(run(*words, "--json"))
    strong = [each.judged.complexity > said["max_complexity"] for each in held_out]
    best = statistics.mean(each.strong for each in held_out)
    right = statistics.mean(each.strong if up else each.weak for each, up in zip(held_out, strong, strict=True))
    weak, dear = (load_config(config).tier(name) for name in (WEAK, STRONG))
    cost = sum(_cost(dear if up else weak, each) for each, up in zip(held_out, strong, strict=True))
    return {
        "max_complexity": said["max_complexity"],
        "expected": {
            "to strong": said["strong_share"],
            "quality": said["quality"] / said["quality_of_large"],
            "cost": said["cost"] / said["cost_of_large"],
        },
        "found": {
            "to strong": statistics.mean(strong),
            "quality": right / best,
            "cost": cost / sum(_cost(dear, each) for each in held_out),
        },
    }


def _cost(tier: TierConfig, each: Asked) -> float:
    return tier.price_in * each.prompt_tokens + tier.price_out * ANSWER_TOKENS


def drift(asked: Sequence[Asked], trials: int) -> dict[str, Any]:
    """Measures false alarms and the share of other requests from which a drift is seen."""
    dice = random.Random(2)
    rows = {
        name: [
            features_of(record)
            for record in as_log(
                [each for each in asked if each.dataset == name],
                threshold=0.5,
                exploration=0.0,
                judged_share=0.0,
                dice=dice,
            )
        ]
        for name in ("mmlu", "gsm8k")
    }
    dice.shuffle(rows["mmlu"])
    half = len(rows["mmlu"]) // 2
    reference = make_reference(rows["mmlu"][:half], since="", until="")
    others = rows["mmlu"][half:]

    def states(share: float, size: int) -> dict[str, float]:
        """Share of windows in which any feature is worth watching, and has drifted."""
        watched = drifted = 0
        for _ in range(trials):
            foreign = round(size * share)
            window = dice.sample(others, size - foreign) + dice.choices(rows["gsm8k"], k=foreign)
            found = {each.state for each in measure(reference, count_window(reference, window), Marks())}
            watched += bool(found - {OK})
            drifted += DRIFT in found
        return {"watch": watched / trials, "drift": drifted / trials}

    print("\nshare of GSM8K among MMLU    window  watch  drift")
    found = []
    for size in (200, WINDOW):
        for share in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
            row = {"window": size, "share": share, **states(share, size)}
            found.append(row)
            print(f"{share:>24.0%} {size:>9} {row['watch']:>6.0%} {row['drift']:>6.0%}")
    return {"reference": half, "trials": trials, "windows": found}


def cost() -> dict[str, float]:
    """Measures what a record takes in the router, after the answer has ended, and in the log."""
    records = [make_record(n) for n in range(20_000)]
    for record in records:
        record.features.measures.update({f"measure_{n}": n / 7 for n in range(18)})
        record.trace_id = f"{record.arrived.seconds:032x}"
    with tempfile.TemporaryDirectory() as folder:
        store = open_outcomes(Path(folder) / "outcomes.db")
        begin = time.perf_counter()
        for start in range(0, len(records), 200):
            store.add(records[start : start + 200])
        took = time.perf_counter() - begin
        begin = time.perf_counter()
        for record in records[:5000]:
            store.add_feedback(record.tenant, record.request_id, record.feedback.add(score=1.0))
        judged = time.perf_counter() - begin
        size = store.holdings().size_bytes
        store.close()
    found = {
        "router_us_per_record": asyncio.run(_making_us()),
        "filed_per_second": len(records) / took,
        "opinions_per_second": 5000 / judged,
        "bytes_per_record": size / len(records),
        "bytes_on_the_wire": statistics.mean(record.ByteSize() for record in records),
    }
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {value:,.0f}" for name, value in found.items()))
    return found


async def _making_us() -> float:
    """Returns the processor time that the router takes to make one record, in microseconds: the least of 30 rounds."""
    async with running_router(outcomes={"enabled": True}) as mesh:
        mesh.classifier.response.features.update({f"measure_{n}": n / 7 for n in range(18)})
        made: list[Callable[[], Any]] = []
        offer = mesh.wired.outcomes.offer
        mesh.wired.outcomes.offer = lambda make: (made.append(make), offer(make))
        await mesh.generate()
        rounds = []
        for _ in range(30):
            begin = time.process_time()
            for _ in range(200):
                made[0]()
            rounds.append((time.process_time() - begin) / 200 * 1e6)
    return min(rounds)


def run(*words: str) -> str:
    """Runs a command of `tiermesh`; returns what it prints.

    Raises:
        RuntimeError: it failed.
    """
    done = CliRunner().invoke(make_app(), list(words))
    if done.exit_code != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.output}")
    return done.output


if __name__ == "__main__":
    sys.exit(main())
