"""Figures of the answer cache: right and false hits, side by side with other caches, and latency.

Run: `make bench-cache`, or a part of it: `make bench-cache ARGS="--only latency"`. Writes `benchmarks/out/cache.json`,
and everything that it prints in `benchmarks/out/cache_detail.json`. A part that lacks something says what to do, and keeps
the figures that it had.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cache import clinc, compare, latency, mooncake, prefix, start
from cache.interval import percent, wilson
from cache.results import CannotRun, Results
from cache.tier import make_tier
from harness.vllm import running_engines
from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder, open_openvino_embedder
from tiermesh.cache.embedder_files import embedder_folder
from tiermesh.cache.fetch_embedder import fetch
from tiermesh.shared.errors import ModelLoadFailed

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "out"
DATA = ROOT.parent / "shared" / "data"
NOT_THERE = "{} is not there: name the folder of the data with ARGS='--data FOLDER'"


class Bench:
    """The parts, each of which returns figures and details.

    Args:
        arguments: Of the command line.
        embedder: Embeds texts; where there is none, why.
    """

    def __init__(self, arguments: argparse.Namespace, embedder: OpenvinoEmbedder | str) -> None:
        self._arguments = arguments
        self._embedder = embedder
        self.missing: list[str] = []
        """What a part could do without, and did."""

    async def pairs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Written pairs and made traps, beside other caches."""
        figures, counts, missing = await compare.compare(
            self._need_embedder(), peers=self._arguments.peers, made=self._arguments.made
        )
        self.missing += missing
        return {"pairs": figures}, {"pairs": counts}

    async def latency(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Latency by number of entries."""
        embedder = self._embedder
        if isinstance(embedder, str):
            self.missing.append(f"semantic lookups: {embedder}")
            embedder = None
        figures, detail = await latency.measure_latency(
            embedder, sizes=self._arguments.entries, calls=self._arguments.calls
        )
        return {"latency": figures}, {"latency": detail}

    async def start(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A replica that starts where many questions were answered before."""
        found = await start.measure_start(self._need_embedder(), count=max(self._arguments.entries))
        return {}, {"start": found}

    async def clinc(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Short queries of many intents."""
        splits = clinc.read_splits(self._arguments.data)
        if splits is None:
            raise CannotRun(NOT_THERE.format(self._arguments.data / "clinc150"))
        tier, index = make_tier(self._need_embedder())
        found = await clinc.ask_clinc(splits, tier, index, per_intent=self._arguments.clinc_per_intent)
        unjudged = found.pop("unjudged")
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in unjudged)
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "clinc_unjudged.jsonl").write_text(lines, encoding="utf-8")
        print(f"{found['stored']} stored, {found['n']} asked")
        print(f"hits {percent(found['hits'], found['n'])}, false ones {percent(found['false_hits'], found['n'])}")
        if unjudged:
            print(f"{len(unjudged)} of the false ones are not judged yet: {OUT / 'clinc_unjudged.jsonl'}")
        interval = wilson(found["false_hits"], found["n"])
        return {}, {"clinc150": {**found, "unjudged": len(unjudged), "false_hit_interval": interval}}

    async def mooncake(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Prefix blocks of a trace of conversations."""
        path = self._arguments.data / "mooncake" / "conversation_trace.jsonl"
        if not path.exists():
            raise CannotRun(NOT_THERE.format(path))
        trace = mooncake.read_trace(path)
        shares = {
            "unlimited": mooncake.unlimited(trace),
            "4 replicas of 20,000 blocks, prefix-affine": mooncake.replay(
                trace, replicas=4, blocks=20_000, affine=True
            ),
            "4 replicas of 20,000 blocks, in turn": mooncake.replay(trace, replicas=4, blocks=20_000, affine=False),
        }
        print(f"share of prefix blocks served from memory, a replay of {len(trace):,} requests:")
        for name, share in shares.items():
            print(f"  {name:<44} {100 * share:.1f}%")
        affine = shares["4 replicas of 20,000 blocks, prefix-affine"]
        return {"mooncake_block_hit_rate": round(affine, 4)}, {"mooncake": shares}

    async def prefix(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A real engine's own prefix cache."""
        snippets = self._arguments.prefix_snippets
        prompts = prefix.make_prompts(snippets)
        # With a loop of its own, on a thread: an engine takes its time to start.
        measured = await asyncio.to_thread(_ask_engine, prompts)
        print(f"{len(prompts)} questions over {snippets} snippets, share of prompt tokens found by vLLM:")
        for way in ("raw", "normalised"):
            print(f"  {way:<44} {100 * measured[way]:.1f}% of {measured['prompt_tokens'][way]:,}")
        return {"prefix_hit_rate": {way: measured[way] for way in ("normalised", "raw")}}, {"prefix_cache": measured}

    def _need_embedder(self) -> OpenvinoEmbedder:
        if isinstance(self._embedder, str):
            raise CannotRun(self._embedder)
        return self._embedder


def _ask_engine(prompts: list[Any]) -> dict[str, Any]:
    print("starting the engine, which takes about a minute", flush=True)
    try:
        with tempfile.TemporaryDirectory() as folder, running_engines(Path(folder), ("l2",)) as engines:
            return asyncio.run(prefix.hit_rates(engines["l2"].target, prompts))
    except pytest.fail.Exception as missing:
        raise CannotRun(str(missing)) from None


PARTS: dict[str, tuple[str, Callable[[Bench], Awaitable[tuple[dict[str, Any], dict[str, Any]]]]]] = {
    "pairs": ("Pairs: hits and false hits, 95 % intervals in brackets", Bench.pairs),
    "latency": ("Latency: the service's own process, over gRPC, on a real Redis", Bench.latency),
    "start": ("Start: a replica reads the questions that were answered before it came", Bench.start),
    "clinc": ("CLINC150: a hit is right only where both texts ask the same", Bench.clinc),
    "mooncake": ("Mooncake trace", Bench.mooncake),
    "prefix": ("Prefix cache of a real engine", Bench.prefix),
}


async def run(arguments: argparse.Namespace) -> int:
    """Runs the parts one after another; returns how many failed for no reason that it knows."""
    results, failed, told = Results(OUT), 0, []
    async with open_embedder() as embedder:
        bench = Bench(arguments, embedder)
        for number, name in enumerate(arguments.only, 1):
            title, part = PARTS[name]
            print(f"\n[{number}/{len(arguments.only)}] {title}", flush=True)
            began = time.monotonic()
            try:
                figures, detail = await part(bench)
            except CannotRun as why:
                told.append(f"{name:<9} not run: {why}{_kept(results, name)}")
            except Exception as error:
                traceback.print_exc()
                failed += 1
                told.append(f"{name:<9} FAILED: {type(error).__name__}: {error}{_kept(results, name)}")
            else:
                took_s = time.monotonic() - began
                results.keep(name, figures, detail, took_s=took_s)
                told.append(f"{name:<9} {took_s:>6.0f} s")
                told += [f"{name:<9} without {what}" for what in bench.missing]
            bench.missing.clear()
            print(told[-1] if "not run" in told[-1] else f"({time.monotonic() - began:.0f} s)", flush=True)
    print("\n" + "\n".join(told))
    print(f"written: {OUT / 'cache.json'}")
    return failed


def _kept(results: Results, part: str) -> str:
    at = results.measured_at(part)
    return f" (its figures of {at} are kept)" if at else ""


@asynccontextmanager
async def open_embedder() -> AsyncIterator[OpenvinoEmbedder | str]:
    """Opens the embedder, after fetching it where it is not there; where that fails, says why."""
    folder = embedder_folder(os.environ)
    async with AsyncExitStack() as stack:
        try:
            await asyncio.to_thread(fetch, folder, say=print)
            embedder: OpenvinoEmbedder | str = await stack.enter_async_context(open_openvino_embedder(folder))
        except (ModelLoadFailed, OSError) as error:
            lines = str(error).splitlines()
            # pip says much; what it could not do is in the first line, what to do in the last.
            embedder = "there is no embedder: " + " ... ".join(dict.fromkeys((lines[0][:120], lines[-1])))
        yield embedder


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (default: all)")
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder with clinc150 and mooncake (default: ../shared/data)"
    )
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
        default=5,
        help="knowledge snippets for the prefix cache of a real engine, 20 questions each (default: 5)",
    )
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave the other caches out")
    return 1 if uvloop.run(run(parser.parse_args())) else 0


if __name__ == "__main__":
    sys.exit(main())
