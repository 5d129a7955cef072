"""The guards on every written pair: no trap passes, and enough paraphrases do.

The pairs of the held-out part were not looked at while guards and word lists were made.
"""

import json
from pathlib import Path

import pytest
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.tier import comparable

PAIRS = Path(__file__).resolve().parents[4] / "benchmarks" / "cache"


def read(language):
    return [json.loads(line) for line in (PAIRS / f"pairs_{language}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_trap_passes_either_way(language):
    pairs = [pair for pair in read(language) if not pair["same"]]
    assert len(pairs) >= 150
    for pair in pairs:
        asked, stored = question_of(pair["asked"]), question_of(pair["stored"])
        assert refusal_of(asked, stored), pair
        assert refusal_of(stored, asked), pair


@pytest.mark.parametrize(("language", "least"), [("en", 0.5), ("zh", 0.7)])
def test_enough_paraphrases_pass(language, least):
    pairs = [pair for pair in read(language) if pair["same"]]
    passed = [pair for pair in pairs if not refusal_of(question_of(pair["asked"]), question_of(pair["stored"]))]
    assert len(passed) / len(pairs) >= least


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pairs_are_many_distinct_and_split(language):
    pairs = read(language)
    assert len(pairs) >= 300
    assert len({(pair["stored"], pair["asked"]) for pair in pairs}) == len(pairs)
    assert {pair["part"] for pair in pairs} == {"tuning", "held_out"}
    assert {"negation", "numbers", "entities", "roles", "time", "near"} <= {pair["kind"] for pair in pairs}


def test_no_trap_written_afterwards_passes_either_way():
    lines = (PAIRS / "traps.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 100
    for line in lines:
        pair = json.loads(line)
        asked, stored = comparable(pair["asked"]), comparable(pair["stored"])
        if asked is not None and stored is not None:
            assert refusal_of(asked, stored), pair
            assert refusal_of(stored, asked), pair


@pytest.mark.parametrize("language", ["en", "zh"])
def test_fresh_pairs_are_enough_and_none_of_their_traps_passes(language):
    lines = (PAIRS / f"pairs_fresh_{language}.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert min(sum(pair["same"] for pair in pairs), sum(not pair["same"] for pair in pairs)) >= 100
    for pair in pairs:
        asked, stored = question_of(pair["asked"]), question_of(pair["stored"])
        if not pair["same"]:
            assert refusal_of(asked, stored), pair
            assert refusal_of(stored, asked), pair


@pytest.mark.parametrize(("language", "least"), [("en", 0.65), ("zh", 0.6)])
def test_pairs_written_blind_pass_and_none_of_their_traps_does(language, least):
    lines = (PAIRS / f"pairs_blind_{language}.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    assert {pair["part"] for pair in pairs} == {"develop", "sealed"}
    refused = []
    for pair in pairs:
        asked, stored = comparable(pair["asked"]), comparable(pair["stored"])
        refused.append(asked is None or stored is None or refusal_of(asked, stored) is not None)
        if not pair["same"]:
            assert refused[-1], pair
            assert asked is None or stored is None or refusal_of(stored, asked), pair
    passed = [not no for no, pair in zip(refused, pairs, strict=True) if pair["same"]]
    assert len(passed) > 120
    assert sum(passed) / len(passed) >= least
