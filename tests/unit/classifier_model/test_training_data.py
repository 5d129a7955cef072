"""The training prompts: enough, of every kind, in both languages, all different, and far from the held-out ones."""

import json
from collections import Counter
from pathlib import Path
from typing import get_args

import generate
import pytest
from tiermesh.shared.rules import TaskName, phrase_key

DATA = Path(generate.__file__).parent / "data"


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def prompts():
    return rows("prompts.jsonl")


def test_there_are_enough_of_every_kind_in_both_languages(prompts):
    assert len(prompts) >= 2000
    kinds = Counter((row["task_type"], row["language"]) for row in prompts)
    assert set(kinds) == {(task, code) for task in get_args(TaskName) for code in ("en", "zh")}
    assert min(kinds.values()) >= 80


def test_hard_and_easy_ones_are_there(prompts):
    for code in ("en", "zh"):
        mine = [row["complexity"] for row in prompts if row["language"] == code]
        assert sum(value > 0.5 for value in mine) > 500
        assert sum(value <= 0.5 for value in mine) > 500


def test_no_prompt_occurs_twice_in_a_kind(prompts):
    keys = Counter((row["task_type"], phrase_key(row["text"])) for row in prompts)
    assert max(keys.values()) == 1


def test_no_slot_is_left_unfilled(prompts):
    names = {
        name
        for path in generate.TEMPLATES.glob("slots.*.yaml")
        for name in generate.yaml.safe_load(path.read_text("utf-8"))
    }
    assert not [row["text"] for row in prompts if any(f"{{{name}}}" in row["text"] for name in names)]


def test_held_out_prompts_are_enough_and_unlike_every_training_prompt(prompts):
    held = rows("heldout.jsonl")
    assert len(held) >= 200
    known = [generate.pieces(row["text"]) for row in prompts]
    for row in held:
        mine = generate.pieces(row["text"])
        assert max(generate.alike(mine, other) for other in known) < 0.45, row["text"]


def test_near_doubles_are_told_from_different_prompts():
    one, same, other = map(
        generate.pieces, ("How do I open a jar of honey?", "how do i open a jar of honey", "Who opens the bank?")
    )
    assert generate.alike(one, same) == 1
    assert generate.alike(one, other) < 0.3
