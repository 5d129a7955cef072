"""Hits and false hits on pairs of questions, of the semantic tier and, beside it, of other caches.

The others get the same pairs and the same embedder, and are counted twice: at the threshold that they recommend, and at
the one at which they find as many paraphrases as the semantic tier does.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cache import pairs
from cache.interval import percent, wilson
from cache.made_traps import make_traps
from cache.peers_run import ask_peers
from cache.progress import Progress
from cache.tier import make_tier
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder

LANGUAGES = ("en", "zh")
PEERS = ("gptcache", "redisvl")


async def compare(
    embedder: OpenvinoEmbedder, *, peers: bool, made: int
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Prints hit rates and false-hit rates on what was held out while guards were made.

    Args:
        embedder: Turns texts into vectors.
        peers: Whether to ask the other caches too.
        made: Traps made from templates, for each language; paraphrases and other traps are written.

    Returns:
        Figures, counts, and what could not be asked.
    """
    written = {language: pairs.read_pairs(language) for language in LANGUAGES}
    held_out = {
        language: [pair for pair in given if pair["part"] == "held_out"] + make_traps(language, "held_out", made)
        for language, given in written.items()
    }
    everything = [pair for language in LANGUAGES for pair in held_out[language]]
    hits = await _hits(embedder, everything)
    others: dict[str, Any] = dict.fromkeys(PEERS, "left out by --no-peers")
    if peers:
        others = await asyncio.to_thread(ask_peers, everything, embedder)
    figures: dict[str, Any] = {"tiermesh": {}, **{name: {} for name in PEERS}}
    counts: dict[str, Any] = {}
    print(f"{'':<34} {'hit rate of paraphrases':<28} {'false hits of lookups':<28} lookups")
    begin = 0
    for language in LANGUAGES:
        given = held_out[language]
        mine = slice(begin, begin := begin + len(given))
        ours = pairs.score(given, hits[mine])
        figures["tiermesh"][language] = _report(f"tiermesh {language}", ours, counts)
        seen = [pair for pair in written[language] if pair["part"] == "tuning"]
        _report(f"  seen while tuning {language}", pairs.score(seen, await _hits(embedder, seen)), counts)
        fresh = pairs.read_fresh_pairs(language)
        _report(f"  written afterwards {language}", pairs.score(fresh, await _hits(embedder, fresh)), counts)
        for part in ("develop", "sealed"):
            blind = [pair for pair in pairs.read_blind_pairs(language) if pair["part"] == part]
            _report(f"  written blind, {part} {language}", pairs.score(blind, await _hits(embedder, blind)), counts)
        for name in PEERS:
            if isinstance(others[name], str):
                continue
            theirs = others[name][mine]
            at_default = pairs.score(given, [row["hit"] for row in theirs])
            figures[name][language] = _report(f"{name} {language}, recommended", at_default, counts)
            threshold, level = pairs.at_hit_rate(given, theirs, ours["hits"])
            row = _report(f"{name} {language}, same hit rate", pairs.score(given, level), counts)
            counts[f"{name} {language}, same hit rate"] |= {"cosine": round(threshold, 4), **row}
    missing = [f"{name}: {why}" for name, why in others.items() if isinstance(why, str)]
    return figures, counts, missing


async def _hits(embedder: OpenvinoEmbedder, given: list[dict[str, Any]]) -> list[bool]:
    tier, index = make_tier(embedder)
    progress = Progress("tiermesh", len(given))
    rows = []
    for begin in range(0, len(given), 100):
        some = given[begin : begin + 100]
        rows += await pairs.ask_tiermesh(some, tier, index, first=begin)
        progress.step(len(some))
    return [row["hit"] for row in rows]


def _report(name: str, counted: dict[str, int], counts: dict[str, Any]) -> dict[str, float]:
    hits, false = (counted["hits"], counted["paraphrases"]), (counted["false_hits"], counted["n"])
    print(f"{name:<34} {percent(*hits):<28} {percent(*false):<28} {counted['n']:>7}", flush=True)
    counts[name] = {**counted, "hit_interval": wilson(*hits), "false_hit_interval": wilson(*false)}
    return {"hit_rate": round(hits[0] / hits[1], 4), "false_hit_rate": round(false[0] / false[1], 4), "n": counted["n"]}
