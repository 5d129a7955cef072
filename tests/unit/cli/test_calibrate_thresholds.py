"""Choosing the small tier's threshold from known outcomes."""

import json
from pathlib import Path

import pytest
from tiermesh.client.cli._app import make_app
from tiermesh.client.thresholds import Known, Price, choose, read_known
from tiermesh.shared.config import load_config
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
    wrong = CliRunner().invoke(make_app(), arguments)
    assert wrong.exit_code == 2
    assert "exactly one target" in wrong.output
