"""False hits on CLINC150: short queries of 150 intents, of which many are near-duplicates.

The training queries are answered, the test queries asked, all in one partition. Same intent is
not the same question: a hit between two different texts is right only where `clinc_judged.jsonl` says
that both ask the same; a hit that nobody has judged counts as false.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cache.progress import Progress
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK

JUDGED = Path(__file__).parent / "clinc_judged.jsonl"
PARTITION = b"c" * 32


def read_splits(data: Path) -> dict[str, list[list[str]]] | None:
    """Returns queries and intents by split, or None where the data is not there."""
    path = data / "clinc150" / "data_full.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


async def ask_clinc(
    splits: dict[str, list[list[str]]], tier: SemanticTier, index: QuestionIndex, *, per_intent: int
) -> dict[str, Any]:
    """Returns counts, and the hits that nobody has judged.

    Args:
        splits: Queries and intents.
        tier: What is asked.
        index: Its index.
        per_intent: Training queries of each intent that are answered.
    """
    asked = splits["test"] + splits["oos_test"]
    progress = Progress("CLINC150 queries", len(splits["train"]) + len(asked))
    taken: dict[str, int] = {}
    ends_ms = round((SYSTEM_CLOCK.wall() + 3600) * 1000)
    for number, (text, intent) in enumerate(splits["train"]):
        progress.step()
        taken[intent] = taken.get(intent, 0) + 1
        if taken[intent] > per_intent:
            continue
        record = await tier.record(
            "clinc",
            PARTITION,
            text,
            task_type="faq",
            entry=f"c:{number}".encode(),
            cost=1,
            ends_ms=ends_ms,
            budget=Budget.of(60),
        )
        if record is not None:
            index.add(record)
    judged = read_judged()
    hits, false, unjudged = 0, 0, []
    for text, _ in asked:
        progress.step()
        match = await tier.match("clinc", PARTITION, text, "", Budget.of(60))
        if match.candidate is None or match.refused_by:
            continue
        stored = match.candidate.known.record.text
        hits += 1
        same = True if plain(stored) == plain(text) else judged.get((stored, text))
        false += not same
        if same is None:
            unjudged.append({"stored": stored, "asked": text})
    return {"n": len(asked), "stored": len(index), "hits": hits, "false_hits": false, "unjudged": unjudged}


def read_judged() -> dict[tuple[str, str], bool]:
    """Returns what a person said about pairs of different texts."""
    if not JUDGED.exists():
        return {}
    rows = [json.loads(line) for line in JUDGED.read_text(encoding="utf-8").splitlines()]
    return {(row["stored"], row["asked"]): row["same"] for row in rows}


def plain(text: str) -> str:
    """Returns a text without case, punctuation and white space at its ends."""
    return re.sub(r"[^\w ]", "", text.casefold()).strip()
