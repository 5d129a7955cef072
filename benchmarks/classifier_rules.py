"""Time of one rules judgement, features included: no server, no network.

Run: `python benchmarks/classifier_rules.py [--rules mesh/profiles/rules.yaml]`. Measured is processor time, so that
a busy machine does not count. Writes `benchmarks/out/classifier_rules.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.shared.rules import RuleBook, load_rules

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "out" / "classifier_rules.json"
ORDINARY = (
    "hello",
    "What is the capital of France?",
    "法国的首都是哪里？",
    "How do I reset my password?",
    "Classify the sentiment of: 'I love it, works great' as positive, negative or neutral",
    "Write a Python function that merges two sorted lists, with unit tests.",
    "用Python写一个函数，合并两个有序列表，并给出单元测试。",
    "Tell me something nice about the spring, in a few sentences, as if you were a gardener talking to a neighbour.",
    "小王今年24岁，比小李大3岁，小李比小张小5岁，请问三个人的年龄之和是多少？",
    "First analyse our sales data, then find the weakest regions, then write a plan for each, finally cost them.",
    "把下面这段话翻译成英文：中国的经济在过去四十年里取得了举世瞩目的成就，人民生活水平显著提高。",
    (
        "Please summarise the following meeting notes in three bullet points: Anna said that the release slips to "
        "Thursday; Bob wants two more testers; we agreed to cut the export feature and to tell the customers on Monday."
    ),
)
LONG = (
    "Summarise this text: " + "The history of the river is long, and few know 1 half of it. " * 2_000,
    "请总结下面的文字：" + "这条河的历史很长，很少有人知道。" * 1_200,
)


def milliseconds(book: RuleBook, text: str, rounds: int) -> list[float]:
    """Returns how long each of `rounds` judgements of one message took."""
    turns = (Turn("user", text),)
    taken = []
    for _ in range(rounds):
        began = time.process_time_ns()
        judge(book, turns, read_features(turns, book.token_weights), tenant="local")
        taken.append((time.process_time_ns() - began) / 1e6)
    return taken


def summary(taken: list[float]) -> dict[str, float]:
    """Returns p50, p99 and the maximum."""
    ordered = sorted(taken)
    at = {"p50_ms": len(ordered) // 2, "p99_ms": int(len(ordered) * 0.99), "max_ms": len(ordered) - 1}
    return {name: round(ordered[index], 4) for name, index in at.items()}


def main() -> None:
    """Measures, prints a table and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, default=ROOT / "mesh" / "profiles" / "rules.yaml")
    parser.add_argument("--rounds", type=int, default=500, help="judgements per ordinary prompt (default: 500)")
    arguments = parser.parse_args()
    book = load_rules(arguments.rules)
    for text in ORDINARY:
        milliseconds(book, text, 20)
    ordinary = [taken for text in ORDINARY for taken in milliseconds(book, text, arguments.rounds)]
    long = [taken for text in LONG for taken in milliseconds(book, text, max(10, arguments.rounds // 10))]
    tokens = min(read_features((Turn("user", text),), book.token_weights).prompt_tokens for text in LONG)
    results = {"ordinary": summary(ordinary), "long": {**summary(long), "min_estimated_tokens": tokens}}
    print(f"{'prompts':<28}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    for name, label in (("ordinary", f"ordinary ({len(ORDINARY)})"), ("long", f"long ({tokens:,}+ tokens)")):
        row = results[name]
        print(f"{label:<28}{row['p50_ms']:>9.3f}{row['p99_ms']:>9.3f}{row['max_ms']:>9.3f}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
