"""Figures of the answer cache: right and false hits, side by side with other caches, and latency.

Run: `make bench-cache`. Writes `benchmarks/out/cache.json`, and everything that it prints in
`benchmarks/out/cache_detail.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cache import clinc, latency, mooncake, pairs, prefix
from cache.interval import percent, wilson
from cache.made_traps import make_traps
from cache.peers_run import ask_peers
from harness.redis import real_redis
from harness.vllm import running_engines
from tiermesh.cache.adapters.onnx_embedder import OnnxEmbedder, open_onnx_embedder
from tiermesh.cache.adapters.redis_open import open_redis_store
from tiermesh.cache.adapters.usearch import UsearchNeighbours
from tiermesh.cache.embedder_files import embedder_folder
from tiermesh.cache.fetch_embedder import fetch
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import CacheConfig

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "out"
DATA = ROOT.parent / "shared" / "data"
VERBS = ["renew", "cancel", "install", "repair", "share", "print", "pack", "paint", "sell", "insure"]
WORDS = [
    "what",
    "time",
    "does",
    "the",
    "last",
    "train",
    "to",
    "the",
    "old",
    "city",
    "leave",
    "on",
    "a",
    "cold",
    "night",
    "in",
    "winter",
]
NOUNS = ["passport", "printer", "bicycle", "account", "garden", "window", "contract", "router", "sofa", "ticket"]


def make_tier(embedder: OnnxEmbedder) -> tuple[SemanticTier, QuestionIndex]:
    """Returns the semantic tier as the service has it, with its default threshold."""
    index = QuestionIndex(UsearchNeighbours, max_entries=1 << 30, clock=SYSTEM_CLOCK)
    threshold = CacheConfig().semantic_threshold
    return SemanticTier(index, embedder, threshold=threshold, task_types=frozenset({"faq"}), shadow=False), index


async def measure_pairs(embedder: OnnxEmbedder, detail: dict[str, Any], *, peers: bool, made: int) -> dict[str, Any]:
    """Prints and returns hit rates and false-hit rates of all caches, on what was held out while guards were made.

    Args:
        embedder: Turns texts into vectors.
        detail: Gets the counts.
        peers: Whether to ask the other caches too.
        made: Traps made from templates, for each language; paraphrases and other traps are written.
    """
    rows: dict[str, Any] = {"tiermesh": {}, "gptcache": {}, "redisvl": {}}
    written = {language: pairs.read_pairs(language) for language in ("en", "zh")}
    held_out = {
        language: [pair for pair in given if pair["part"] == "held_out"] + make_traps(language, "held_out", made)
        for language, given in written.items()
    }
    everything = [pair for language in held_out.values() for pair in language]
    others = await asyncio.to_thread(ask_peers, everything, embedder_folder(os.environ)) if peers else {}
    print(f"\n{'pairs':<32} {'hit rate of paraphrases':<30} {'false hits of lookups':<30}")
    begin = 0
    for language, given in held_out.items():
        ours = pairs.score(given, await _hits(embedder, given))
        rows["tiermesh"][language] = report(f"tiermesh {language}", ours, detail)
        seen = [pair for pair in written[language] if pair["part"] == "tuning"]
        report(f"  seen while tuning {language}", pairs.score(seen, await _hits(embedder, seen)), detail)
        for name in ("gptcache", "redisvl"):
            theirs = others.get(name, "not asked: --no-peers")
            if isinstance(theirs, str):
                print(f"{name} {language:<20} not run: {theirs}")
                rows[name][language] = None
                continue
            mine = theirs[begin : begin + len(given)]
            rows[name][language] = report(
                f"{name} {language}", pairs.score(given, [row["hit"] for row in mine]), detail
            )
            threshold, level = pairs.at_hit_rate(given, mine, ours["hits"])
            report(f"{name} {language} at {threshold:.3f}", pairs.score(given, level), detail)
        begin += len(given)
    return rows


async def _hits(embedder: OnnxEmbedder, given: list[dict[str, Any]]) -> list[bool]:
    tier, index = make_tier(embedder)
    return [row["hit"] for row in await pairs.ask_tiermesh(given, tier, index)]


def report(name: str, counts: dict[str, int], detail: dict[str, Any]) -> dict[str, float]:
    """Prints a line and returns its shares."""
    hits, false = (counts["hits"], counts["paraphrases"]), (counts["false_hits"], counts["n"])
    print(f"{name:<32} {percent(*hits):<30} {percent(*false):<30}")
    detail["pairs"][name] = {**counts, "false_hit_interval": wilson(*false)}
    return {"hit_rate": round(hits[0] / hits[1], 4), "false_hit_rate": round(false[0] / false[1], 4), "n": counts["n"]}


async def measure_clinc(embedder: OnnxEmbedder, detail: dict[str, Any], *, per_intent: int) -> None:
    """Prints false hits on CLINC150."""
    splits = clinc.read_splits(DATA)
    if splits is None:
        print(f"\nCLINC150: skipped, {DATA} is not there")
        return
    tier, index = make_tier(embedder)
    found = await clinc.ask_clinc(splits, tier, index, per_intent=per_intent)
    detail["clinc150"] = {**found, "unjudged": len(found["unjudged"])}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "clinc_unjudged.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found["unjudged"]), encoding="utf-8"
    )
    print(f"\nCLINC150: {found['stored']} stored, {found['n']} asked, hits {percent(found['hits'], found['n'])}")
    print(f"  false hits {percent(found['false_hits'], found['n'])}, of which not judged {len(found['unjudged'])}")


def measure_mooncake(detail: dict[str, Any]) -> float | None:
    """Prints shares of prefix blocks and returns that of limited replicas with prefix-affine placement."""
    path = DATA / "mooncake" / "conversation_trace.jsonl"
    if not path.exists():
        print(f"\nMooncake: skipped, {path} is not there")
        return None
    trace = mooncake.read_trace(path)
    shares = {
        "unlimited": mooncake.unlimited(trace),
        "4 replicas of 20,000 blocks, prefix-affine": mooncake.replay(trace, replicas=4, blocks=20_000, affine=True),
        "4 replicas of 20,000 blocks, in turn": mooncake.replay(trace, replicas=4, blocks=20_000, affine=False),
    }
    print("\nMooncake, share of prefix blocks served from memory (a replay of the trace):")
    for name, share in shares.items():
        print(f"  {name:<46} {100 * share:.1f}%")
    detail["mooncake"] = shares
    return round(shares["4 replicas of 20,000 blocks, prefix-affine"], 4)


def measure_prefix(detail: dict[str, Any], *, snippets: int) -> dict[str, float | None]:
    """Prints and returns the hit rate of a real engine's prefix cache; None where there is no engine environment."""
    rates: dict[str, float | None] = {"normalised": None, "raw": None}
    if not snippets:
        return rates
    print(f"\nvLLM's prefix cache, {snippets * prefix.QUESTIONS_A_SNIPPET} questions over {snippets} snippets:")
    try:
        with tempfile.TemporaryDirectory() as folder, running_engines(Path(folder), ("l2",)) as engines:
            # With a loop of its own, on a thread: an engine takes its time to start.
            measured = asyncio.run(prefix.hit_rates(engines["l2"].target, prefix.make_prompts(snippets)))
    except pytest.fail.Exception as missing:
        print(f"  skipped: {missing}")
        return rates
    for way in ("raw", "normalised"):
        rates[way] = measured[way]
        print(f"  {way:<46} {100 * measured[way]:.1f}% of {measured['prompt_tokens'][way]} prompt tokens")
    detail["prefix_cache"] = measured
    return rates


async def measure_latency(
    embedder: OnnxEmbedder, detail: dict[str, Any], *, sizes: list[int], calls: int
) -> dict[str, Any]:
    """Prints and returns latency of warm exact hits and of semantic lookups, in the service."""
    rows: dict[str, Any] = {"exact": {}, "semantic": {}}
    generator = np.random.default_rng(1)
    questions: list[str] = []
    vectors: list[bytes] = []
    tier, index = make_tier(embedder)
    print(f"\n{'in the service':<28} {'entries':>8} {'p50 ms':>9} {'p99 ms':>9} {'per s':>8}")
    with real_redis(max_memory_mb=512) as server:
        async with open_redis_store(server.url) as store:
            for size in sizes:
                first = len(questions)
                await latency.fill(store, first, size)
                for n in range(first, size):
                    questions.append(f"How do I {VERBS[n % 10]} my {NOUNS[n // 10 % 10]} in case {n}?")
                    vectors.append(random_vector(generator, vectors))
                latency.remember(index, questions, vectors, first)
                rows["exact"][str(size)] = await latency.exact(store, size, calls=calls * 5)
                rows["semantic"][str(size)] = await latency.semantic(store, tier, questions, vectors, calls=calls)
                cold = await latency.exact_cold(store, size, calls=calls)
                detail.setdefault("exact_from_redis", {})[str(size)] = cold
                for name, row in (
                    ("exact", rows["exact"][str(size)]),
                    ("exact, from Redis", cold),
                    ("semantic", rows["semantic"][str(size)]),
                ):
                    print(f"{name:<28} {size:>8} {row['p50_ms']:>9} {row['p99_ms']:>9} {row['rps']:>8}")
    detail["embedding_64_tokens"] = embedding_cost(embedder)
    cost = detail["embedding_64_tokens"]
    print(f"{'embedding, 64 tokens, CPU':<28} {'':>8} {cost['cpu_p50_ms']:>9} {cost['cpu_p99_ms']:>9}")
    return rows


def embedding_cost(embedder: OnnxEmbedder, *, calls: int = 200) -> dict[str, float]:
    """Returns the CPU time of embedding 64 tokens, in ms: what other processes do on the machine counts little."""
    # Each is one token, and two more mark beginning and end.
    texts = [" ".join(random.choices(WORDS, k=62)) for _ in range(50)]
    times = []
    for n in range(calls):
        began = time.thread_time()
        embedder.embed_now(texts[n % 50])
        times.append((time.thread_time() - began) * 1000)
    cuts = statistics.quantiles(times, n=100)
    return {"cpu_p50_ms": round(cuts[49], 2), "cpu_p99_ms": round(cuts[98], 2)}


def random_vector(generator: np.random.Generator, known: list[bytes]) -> bytes:
    """Returns a vector of a cloud around one of a hundred centres, as questions on one matter are."""
    centre = np.frombuffer(known[len(known) % 100], dtype=np.float16).astype(np.float32) if len(known) >= 100 else 0
    vector = generator.standard_normal(384).astype(np.float32) / 20 + centre
    return (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()


async def run(arguments: argparse.Namespace) -> None:
    """Measures everything."""
    random.seed(1)
    detail: dict[str, Any] = {"pairs": {}}
    folder = embedder_folder(os.environ)
    fetch(folder, say=print)
    async with open_onnx_embedder(folder) as embedder:
        result = {
            "pairs": await measure_pairs(embedder, detail, peers=arguments.peers, made=arguments.made),
            "latency": await measure_latency(embedder, detail, sizes=arguments.entries, calls=arguments.calls),
            "prefix_hit_rate": await asyncio.to_thread(measure_prefix, detail, snippets=arguments.prefix_snippets),
            "mooncake_block_hit_rate": measure_mooncake(detail),
        }
        await measure_clinc(embedder, detail, per_intent=arguments.clinc_per_intent)
    OUT.mkdir(parents=True, exist_ok=True)
    for name, content in (("cache.json", result), ("cache_detail.json", detail)):
        (OUT / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {OUT / 'cache.json'}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="sizes for latency")
    parser.add_argument(
        "--calls", type=int, default=1_000, help="semantic lookups a size; exact ones are five times that"
    )
    parser.add_argument(
        "--clinc-per-intent", type=int, default=100, help="training queries of an intent (default: all)"
    )
    parser.add_argument(
        "--made", type=int, default=4_000, help="traps made from templates, for each language (default: 4000)"
    )
    parser.add_argument(
        "--prefix-snippets",
        type=int,
        default=10,
        help="knowledge snippets for the prefix cache of a real engine, 20 questions each, about a second a question on two "
        "cores; 0 leaves it out",
    )
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave the other caches out")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
