"""Choosing the small tier's threshold from known outcomes."""

import json
import random
import re
from pathlib import Path

import pytest
from harness.outcomes import make_record
from tiermesh.client.cli._app import make_app
from tiermesh.client.thresholds import Known, Price, choose, outcome, read_known
from tiermesh.client.traffic import read_traffic
from tiermesh.shared.config import load_config
from tiermesh.shared.outcomes import write_outcome
from typer.testing import CliRunner

PROFILES = Path(__file__).parents[3] / "mesh" / "profiles"
CHEAP, DEAR = Price(0.1, 0.1), Price(1, 1)
# The small tier is right up to complexity 0.5, and the large one always but once.
KNOWN = [Known(at / 10, at <= 5, at != 1, "qa", 900, 100) for at in range(1, 11)]


def test_a_share_is_kept_and_used():
    choice = choose(KNOWN, CHEAP, DEAR, target_strong_share=0.3)
    assert (choice.max_complexity, choice.strong_share) == (0.7, 0.3)
    assert choice.quality == pytest.approx(0.8)
    assert choice.cost == pytest.approx((7 * 0.1 + 3) * 1000 / 1e6)
    assert choice.cost_of_large == pytest.approx(10 * 1000 / 1e6)


def test_a_quality_is_kept_with_as_few_strong_calls_as_possible():
    choice = choose(KNOWN, CHEAP, DEAR, target_quality=1.0)
    assert (choice.strong_share, choice.max_complexity) == (0.4, 0.6)
    assert choice.quality >= choice.quality_of_large


def test_task_types_that_the_small_tier_excludes_count_as_strong():
    mixed = [*KNOWN, *(Known(0.1, 1, 1, "code") for _ in range(10))]
    assert choose(mixed, CHEAP, DEAR, excluded=("code",), target_strong_share=0.6).strong_share == pytest.approx(0.6)
    with pytest.raises(ValueError, match=r"50\.0% go to the large tier at least"):
        choose(mixed, CHEAP, DEAR, excluded=("code",), target_strong_share=0.2)


@pytest.mark.parametrize("targets", [{}, {"target_strong_share": 0.1, "target_quality": 0.9}])
def test_exactly_one_target_is_wanted(targets):
    with pytest.raises(ValueError, match="exactly one"):
        choose(KNOWN, CHEAP, DEAR, **targets)


def test_the_threshold_is_the_best_of_all_there_are():
    dice = random.Random(4)
    many = [
        Known(dice.randrange(20) / 20, dice.random(), dice.random(), dice.choice(["qa", "code"])) for _ in range(300)
    ]
    steps = sorted({0.0, 1.0, *(one.complexity for one in many)})
    every = [outcome(many, step, CHEAP, DEAR, ("code",)) for step in steps]
    for share in (0.6, 0.8, 0.95):
        assert choose(many, CHEAP, DEAR, excluded=("code",), target_strong_share=share) == next(
            one for one in every if one.strong_share <= share
        )
    quality = (every[5].quality + 1e-6) / every[5].quality_of_large
    assert choose(many, CHEAP, DEAR, excluded=("code",), target_quality=quality) == next(
        one for one in reversed(every) if one.quality >= quality * one.quality_of_large
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["{"], "line 1"),
        (['{"complexity": 0.5, "weak_correct": true, "strong_correct": true}', '{"complexity": 2}'], "line 2"),
        (['{"complexity": 2, "weak_correct": true, "strong_correct": true}'], "from 0 to 1"),
        ([""], "no requests"),
    ],
)
def test_files_that_cannot_be_used_say_where(lines, says):
    with pytest.raises(ValueError, match=says):
        read_known(lines)


def test_the_command_writes_a_change_that_the_configuration_takes(tmp_path):
    rows = [
        {
            "complexity": k.complexity,
            "weak_correct": k.small_right,
            "strong_correct": k.large_right,
            "task_type": "TASK_TYPE_QA",
            "prompt_tokens": 900,
            "answer_tokens": 100,
        }
        for k in KNOWN
    ]
    outcomes = tmp_path / "outcomes.jsonl"
    outcomes.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    for name in ("local.yaml", "rules.yaml"):
        (tmp_path / name).write_text((PROFILES / name).read_text("utf-8"), "utf-8")
    out = tmp_path / "calibrated.yaml"
    arguments = ["calibrate-thresholds", str(outcomes), "--config", str(tmp_path / "local.yaml"), "--out", str(out)]
    result = CliRunner().invoke(make_app(), [*arguments, "--target-strong-share", "0.3"])
    assert result.exit_code == 0, result.output
    text = out.read_text("utf-8")
    assert "to l2: 30.0% of requests" in text
    assert "cost: " in text
    assert load_config(out, {}).tier("l1").max_complexity == 0.7
    told = json.loads(CliRunner().invoke(make_app(), [*arguments, "--target-strong-share", "0.3", "--json"]).stdout)
    assert (told["requests"], told["before"], told["max_complexity"], told["strong_share"]) == (10, 0.5, 0.7, 0.3)
    wrong = CliRunner().invoke(make_app(), arguments)
    assert wrong.exit_code == 2
    assert "exactly one target" in wrong.output


def traffic(count=1200, *, explored=0.2, seed=11):
    """A log of two tiers: l1 is right up to complexity 0.5 by 0.95 and above by 0.4, l2 always by 0.95."""
    dice = random.Random(seed)
    for n in range(count):
        complexity = n % 100 / 100
        tier = "l1" if (complexity <= 0.5) != (dice.random() < explored) else "l2"
        chance = 0.95 if tier == "l2" or complexity <= 0.5 else 0.4
        yield make_record(n, tier=tier, complexity=complexity, scores=(float(dice.random() < chance),))


def write_log(path, records):
    path.write_text("".join(write_outcome(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_traffic_log_tells_how_likely_each_tier_is_right():
    found = read_traffic([write_outcome(record) for record in traffic()], small="l1", large="l2")
    assert len(found.known) == 1200
    small = {round(known.complexity, 2): known.small_right for known in found.known}
    large = {round(known.complexity, 2): known.large_right for known in found.known}
    assert small[0.1] > 0.85
    assert small[0.9] < 0.55
    assert large[0.1] > 0.9
    assert large[0.9] > 0.85
    assert (found.small.tier, found.small.lowest, found.small.highest) == ("l1", 0.0, 0.99)
    assert found.known[0].prompt_tokens == 20
    assert found.known[0].answer_tokens == 10


@pytest.mark.parametrize(("option", "value"), [("--target-strong-share", "0.2"), ("--target-quality", "0.98")])
def test_a_threshold_is_chosen_from_a_traffic_log(tmp_path, option, value):
    log, out = write_log(tmp_path / "log.jsonl", traffic()), tmp_path / "change.yaml"
    local = PROFILES / "local.yaml"
    words = ["calibrate-thresholds", log, "--config", local, option, value, "--out", out]
    done = CliRunner().invoke(make_app(), [str(word) for word in words])
    assert done.exit_code == 0, done.output
    text = out.read_text(encoding="utf-8")
    (tmp_path / "local.yaml").write_text(local.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "rules.yaml").write_bytes((PROFILES / "rules.yaml").read_bytes())
    threshold = load_config(out).tier("l1").max_complexity
    assert "from 1200 requests" in text
    assert "l1: fitted to" in text
    assert "of complexity 0.00 to 0.99" in text
    share = float(re.search(r"to l2: ([\d.]+)% of requests", text)[1])
    assert re.search(r"cost: [\d.e-]+, [\d.]+% less than l2 alone", text)
    relative = float(re.search(r"right, ([\d.]+)% of l2's", text)[1])
    if option == "--target-strong-share":
        assert share <= 20
        assert 0.75 <= threshold <= 0.85
    else:
        assert relative >= 98
        assert 0.2 <= threshold <= 0.7


def test_a_tier_that_always_answers_alike_is_taken_as_it_is():
    records = [make_record(n, tier=("l1", "l2")[n % 2], complexity=n % 10 / 10, scores=(1.0,)) for n in range(200)]
    found = read_traffic([write_outcome(record) for record in records], small="l1", large="l2")
    assert {round(known.small_right, 3) for known in found.known} == {round(101 / 102, 3)}


def test_a_log_with_too_few_judged_answers_says_what_to_do(tmp_path):
    log = write_log(
        tmp_path / "log.jsonl", [record for record in traffic(200, explored=0) if record.result.tier == "l1"]
    )
    words = ["calibrate-thresholds", log, "--config", PROFILES / "local.yaml", "--target-quality", "0.98"]
    done = CliRunner().invoke(make_app(), [str(word) for word in words])
    assert done.exit_code == 2
    assert "0 answers of l2 were judged, and 50 are the least" in done.output
    assert "balance.exploration" in done.output


def test_requests_that_were_pinned_or_answered_elsewhere_are_left_out():
    pinned, fixed = make_record(1, scores=(1.0,)), make_record(2, tier="l0")
    pinned.decision.pinned = True
    found = read_traffic([write_outcome(record) for record in [*traffic(), pinned, fixed]], small="l1", large="l2")
    assert len(found.known) == 1200


def test_an_evaluation_set_that_has_a_complexity_here_and_a_prompt_there_is_refused(tmp_path):
    rows = [{"prompt": "Why?", "weak_correct": 1, "strong_correct": 1}, {"complexity": 0.1}]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    words = ["calibrate-thresholds", mixed, "--config", PROFILES / "local.yaml", "--target-quality", "0.98"]
    done = CliRunner().invoke(make_app(), [str(word) for word in words])
    assert done.exit_code == 2
    assert "give all of them one, or none" in done.output
