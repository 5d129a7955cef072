"""Hits and false hits on written pairs: the first question is answered, the second is asked.

Every pair has a cache of its own, so that what is right is written beside it. A hit rate is a share of
the paraphrases, a false-hit rate a share of all lookups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK

HERE = Path(__file__).parent


def read_pairs(language: str) -> list[dict[str, Any]]:
    """Returns the pairs of a language."""
    return _read(HERE / f"pairs_{language}.jsonl")


def read_fresh_pairs(language: str) -> list[dict[str, Any]]:
    """Returns the pairs of a language that were written when guards had been made, before they were asked."""
    return _read(HERE / f"pairs_fresh_{language}.jsonl")


def read_blind_pairs(language: str) -> list[dict[str, Any]]:
    """Returns the pairs of a language that were written before the guards were read, half of them `sealed`."""
    return _read(HERE / f"pairs_blind_{language}.jsonl")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def ask_tiermesh(
    pairs: Sequence[dict[str, Any]], tier: SemanticTier, index: QuestionIndex, *, first: int = 0
) -> list[dict[str, Any]]:
    """Returns what the semantic tier does with each pair, each in a partition of its own, numbered from `first`."""
    rows = []
    ends_ms = round((SYSTEM_CLOCK.wall() + 3600) * 1000)
    for number, pair in enumerate(pairs, first):
        partition = number.to_bytes(32, "big")
        record = await tier.record(
            "bench",
            partition,
            pair["stored"],
            task_type="faq",
            entry=f"t:{number}".encode(),
            cost=1,
            ends_ms=ends_ms,
            budget=Budget.of(60),
        )
        if record is not None:
            index.add(record)
        match = await tier.match("bench", partition, pair["asked"], "", Budget.of(60))
        hit = match.candidate is not None and not match.refused_by
        rows.append({"hit": hit, "similarity": match.similarity, "refused_by": match.refused_by})
    return rows


def score(pairs: Sequence[dict[str, Any]], hits: Sequence[bool]) -> dict[str, int]:
    """Counts right hits, paraphrases, false hits and lookups."""
    same = [hit for pair, hit in zip(pairs, hits, strict=True) if pair["same"]]
    traps = [hit for pair, hit in zip(pairs, hits, strict=True) if not pair["same"]]
    return {"hits": sum(same), "paraphrases": len(same), "false_hits": sum(traps), "n": len(pairs)}


def at_hit_rate(pairs: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], hits: int) -> tuple[float, list[bool]]:
    """Returns the threshold at which a cache has at least as many right hits, and what hits at it."""
    ranked = sorted((row["similarity"] for pair, row in zip(pairs, rows, strict=True) if pair["same"]), reverse=True)
    threshold = ranked[max(0, min(hits, len(ranked)) - 1)]
    return threshold, [row["similarity"] >= threshold for row in rows]
