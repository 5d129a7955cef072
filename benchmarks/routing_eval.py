"""How good routing is: cost against quality on recorded outcomes, label matching, and the classifier's latency.

    make eval-routing
    python benchmarks/routing_eval.py --data ../shared/data

Reads `routellm/outcomes.jsonl` (was the weak model right, was the strong one) and `clinc150/data_full.json` below
`--data`. Every score is for a prompt that the router was not fitted to: five folds inside each set, identical prompts
in one fold; across sets, fitted to the whole of the other. Whatever a router chooses, it chooses within the prompts that it is
fitted to. Writes benchmarks/out/routing.json and one plot for each setting (PNG and SVG) beside it. Then label matching
by examples, and the bandit on the outcomes as a stream.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for _library in ("OMP", "OPENBLAS", "MKL"):
    # One core, as the latency targets say; set before numpy is imported.
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "services" / "classifier" / "training")]

import numpy as np  # noqa: E402 -- after the number of threads
from design import read_texts  # noqa: E402 -- not installed
from routing.embeddings import embed  # noqa: E402 -- not installed
from routing.intents import measure_intents  # noqa: E402 -- not installed
from routing.latency import measure_latency  # noqa: E402 -- not installed
from routing.measures import Floats, Measured, measure  # noqa: E402 -- not installed
from routing.outcomes import FOLDS, Outcomes, read_outcomes  # noqa: E402 -- not installed
from routing.plots import draw  # noqa: E402 -- not installed
from routing.routers import Reader, Router, make_routers  # noqa: E402 -- not installed
from routing.stream import measure_stream  # noqa: E402 -- not installed
from subjects_fit import fit_subjects  # noqa: E402 -- not installed
from tiermesh.classifier.model.subjects import Subjects  # noqa: E402 -- after the number of threads

OUT = ROOT / "benchmarks" / "out" / "routing.json"
RULES = ROOT / "mesh" / "profiles" / "rules.yaml"
PROFILE = ROOT / "mesh" / "profiles" / "local.yaml"
SEED = 0
FITTED_FOR_LATENCY = 3000
"""Prompts that are enough for a second opinion of full size: how long one takes does not depend on what it says."""
BEGAN = time.monotonic()


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained on, and what is scored."""

    name: str
    train: Outcomes
    test: Outcomes

    def scores(self, router: Router, *, apart: bool) -> Floats:
        """Returns a score for every prompt of the test set, by a router not fitted to it."""
        everything = np.arange(len(self.test.prompts))
        if self.train is not self.test:
            return router(self.train, np.arange(len(self.train.prompts)), self.test, everything)
        folds = self.test.folds(SEED, apart=apart)
        scores = np.zeros(len(everything))
        for fold in range(FOLDS):
            outside = np.flatnonzero(folds == fold)
            scores[outside] = router(self.test, np.flatnonzero(folds != fold), self.test, outside)
        return scores


def settings_of(sets: dict[str, Outcomes]) -> list[Setting]:
    """Returns every set by itself, then every ordered pair of different ones."""
    alone = [Setting(name, one, one) for name, one in sets.items()]
    across = [Setting(f"{a}_to_{b}", sets[a], sets[b]) for a in sets for b in sets if a != b]
    return alone + across


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--skip", action="append", default=[], help="leave a router out, such as the slow `tfidf`")
    parser.add_argument("--plain-folds", action="store_true", help="let identical prompts fall into different folds")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="settings to measure, such as `mmlu`, `clinc` or `stream`; all by default; latency always is",
    )
    parser.add_argument(
        "--embeddings",
        action="store_true",
        help="also rank by sentence embeddings, alone and beside the model; embedding all prompts takes minutes, once",
    )
    parser.add_argument("--latency-rounds", type=int, default=500)
    options = parser.parse_args(arguments)
    outcomes = options.data / "routellm" / "outcomes.jsonl"
    if not outcomes.is_file():
        print(
            f"no outcomes at {outcomes}; name the folder that has routellm/outcomes.jsonl with --data", file=sys.stderr
        )
        return 2
    report = evaluate(
        options.data,
        options.out.parent,
        skip=options.skip,
        only=options.only,
        apart=not options.plain_folds,
        rounds=options.latency_rounds,
        with_embeddings=options.embeddings,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    _say(f"wrote {options.out}")
    return 0


def evaluate(
    data: Path,
    plots: Path,
    *,
    skip: Sequence[str] = (),
    only: Sequence[str] = (),
    apart: bool = True,
    rounds: int = 500,
    with_embeddings: bool = False,
) -> dict[str, Any]:
    """Returns the whole report."""
    sets = read_outcomes(data / "routellm" / "outcomes.jsonl")
    reader = Reader(lambda done: _say(f"  read {done} prompts") if done % 5000 == 0 else None)
    # First, so that a broken package is found at once.
    latency = measure_latency(
        [prompt for one in sets.values() for prompt in one.prompts], RULES, rounds, _subjects(sets)
    )
    _say(f"latency {latency}")
    embeddings = None
    if with_embeddings:
        plots.mkdir(parents=True, exist_ok=True)
        embeddings = {name: embed(one.prompts, plots / f"minilm_{name}.npz", _say) for name, one in sets.items()}
    routers = make_routers(reader, embeddings)
    report: dict[str, Any] = {}
    for setting in settings_of(sets):
        if only and setting.name not in only:
            continue
        measured: dict[str, Measured] = {}
        for name, router in routers.items():
            if name in skip:
                continue
            start = time.monotonic()
            measured[name] = measure(setting.scores(router, apart=apart), setting.test.weak, setting.test.strong)
            _say(f"{setting.name:>16} {name:>9} {_line(measured[name])}  ({time.monotonic() - start:.0f} s)")
        report[setting.name] = {name: _entry(one) for name, one in measured.items()}
        draw(_title(setting), measured, plots, f"routing_{setting.name}")
    clinc = data / "clinc150" / "data_full.json"
    if clinc.is_file() and (not only or "clinc" in only):
        report["clinc"] = measure_intents(clinc, lambda note: _say(f"clinc: {note}"))
        _say(f"clinc {report['clinc']}")
    if not only or "stream" in only:
        report["stream"] = {}
        for name, one in sets.items():
            report["stream"][name] = measure_stream(one, PROFILE, plots)
            _say(f"stream {name} {report['stream'][name]}")
    report["latency_ms"] = latency
    report["folds"] = "identical prompts together" if apart else "plain"
    report["took_s"], report["processor_s"] = round(time.monotonic() - BEGAN), round(time.process_time())
    report["machine"] = {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    return report


def _subjects(sets: dict[str, Outcomes]) -> Subjects | None:
    """Returns a second opinion of full size, for the latency alone."""
    outcomes = max(sets.values(), key=lambda one: len(set(one.topics)))
    rows = np.random.default_rng(SEED).permutation(len(outcomes.prompts))[:FITTED_FOR_LATENCY]
    topics = [outcomes.topics[at] for at in rows]
    if len(set(topics)) < 2:
        return None
    right = np.stack([outcomes.weak[rows], outcomes.strong[rows]], axis=1)
    return fit_subjects(read_texts([outcomes.prompts[at] for at in rows]), right, topics)


def _entry(one: Measured) -> dict[str, Any]:
    return {
        "apgr": round(one.apgr, 4),
        "apgr_ci": [round(bound, 4) for bound in one.apgr_ci],
        "cpt50": round(one.cpt50, 4),
        "cpt50_ci": [round(bound, 4) for bound in one.cpt50_ci],
        "cpt80": round(one.cpt80, 4),
        "cpt80_ci": [round(bound, 4) for bound in one.cpt80_ci],
    }


def _line(one: Measured) -> str:
    low, high = one.apgr_ci
    return f"APGR {one.apgr:.4f} [{low:.3f}, {high:.3f}]  CPT50 {one.cpt50:.3f}  CPT80 {one.cpt80:.3f}"


def _title(setting: Setting) -> str:
    name, train, test = setting.name, setting.train.name, setting.test.name
    return f"{name}: five folds" if train == test else f"fitted to {train}, measured on {test}"


def _say(line: str) -> None:
    print(f"{time.monotonic() - BEGAN:4.0f} s, {time.process_time():4.0f} s of the processor  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
