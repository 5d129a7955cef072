"""Which tier is enough for which kind of work."""

from __future__ import annotations

import random

import pytest
from harness.outcomes import make_record
from tiermesh.outcomes.evaluation import EvaluationError, from_outcomes, read_evaluation
from tiermesh.outcomes.models import OTHER, Evaluated, TierPrice, report

TIERS = ("l1", "l2", "l3")
PRICES = {"l1": TierPrice(1, 1), "l2": TierPrice(5, 5), "l3": TierPrice(10, 10)}


def evaluated(kind, count, shares):
    """Every tier answered every request; the first so many of a hundred rightly."""
    return [
        Evaluated(
            kind, {tier: float(n % 100 < share) for tier, share in shares.items()}, 100, dict.fromkeys(shares, 50)
        )
        for n in range(count)
    ]


def only(rows, *, within=0.03, prices=PRICES, tiers=TIERS):
    (found,) = report(rows, tiers=tiers, within=within, prices=prices)
    return found


def test_the_cheapest_tier_within_the_tolerance_is_picked_with_its_saving():
    found = only(evaluated("qa", 2000, {"l1": 60, "l2": 88, "l3": 90}))
    assert [score.score for score in found.tiers] == pytest.approx([0.60, 0.88, 0.90])
    assert (found.best, found.pick) == ("l3", "l2")
    assert [score.gap for score in found.tiers] == pytest.approx([0.3, 0.02, 0.0])
    assert found.is_sure
    assert found.saving == pytest.approx(0.5)
    assert found.tiers[1].cost == pytest.approx(150 * 5 / 1e6 * 1000)


def test_a_tolerance_of_nothing_picks_the_best():
    assert only(evaluated("qa", 500, {"l1": 60, "l2": 88, "l3": 90}), within=0.0).pick == "l3"


def test_of_equally_good_tiers_the_cheapest_is_best():
    found = only(evaluated("qa", 500, {"l1": 90, "l2": 90, "l3": 80}))
    assert (found.best, found.pick) == ("l1", "l1")


def test_few_requests_are_not_sure_and_a_pair_tells_more_than_two_scores():
    few = only(evaluated("qa", 40, {"l1": 30, "l3": 31}))
    assert few.pick == "l1"
    assert not few.is_sure
    # Both tiers fail at the same requests: the difference is known although the scores are not.
    dice = random.Random(3)
    alike = [Evaluated("qa", {"l1": right, "l3": right}) for right in (float(dice.random() < 0.5) for _ in range(400))]
    apart = [Evaluated("qa", {"l1": row.scores["l1"]}) for row in alike]
    apart += [Evaluated("qa", {"l3": row.scores["l3"]}) for row in alike]
    paired, unpaired = only(alike), only(apart)
    assert paired.is_sure
    assert not unpaired.is_sure
    assert paired.tiers[0].margin == pytest.approx(unpaired.tiers[0].margin)


def test_rare_kinds_are_shown_together_and_the_most_frequent_first():
    rows = evaluated("qa", 100, {"l1": 90}) + evaluated("math", 200, {"l1": 50}) + evaluated("code", 5, {"l1": 50})
    found = report(rows, tiers=TIERS, within=0.03, prices={})
    assert [(each.task_type, each.count) for each in found] == [("math", 200), ("qa", 100), (OTHER, 5)]
    assert found[0].saving is None


def test_a_lone_rare_kind_keeps_its_name():
    assert only(evaluated("code", 5, {"l1": 50})).task_type == "code"


def test_without_rows_or_with_an_unknown_tier_there_is_no_report():
    with pytest.raises(ValueError, match="no requests"):
        report([], tiers=TIERS, within=0.03, prices={})
    with pytest.raises(ValueError, match="'l9' is not among l1, l2, l3"):
        report([Evaluated("qa", {"l9": 1.0})], tiers=TIERS, within=0.03, prices={})


def explored(count=4000, share=0.2, seed=5):
    """A log whose policy sends easy requests to l1 and hard ones to l2, but for a share of the other way.

    Whatever the tier, easy requests are answered rightly by 90 in 100 and hard ones by 50.
    """
    dice = random.Random(seed)
    for n in range(count):
        easy = n % 2 == 0
        usual, other = ("l1", "l2") if easy else ("l2", "l1")
        tier = other if dice.random() < share else usual
        record = make_record(n, tier=tier, scores=(float(dice.random() < (0.9 if easy else 0.5)),))
        del record.decision.candidates[:]
        for name, chance in ((usual, 1 - share), (other, share)):
            record.decision.candidates.add(tier=name, probability=chance)
        yield record


def test_a_log_that_explored_is_weighed_by_the_inverse_of_its_chances():
    rows = list(from_outcomes(explored()))
    found = only(rows, tiers=("l1", "l2"))
    assert found.is_comparable
    assert [score.score for score in found.tiers] == pytest.approx([0.7, 0.7], abs=0.04)
    naive = [
        sum(row.scores[tier] for row in rows if tier in row.scores) / sum(tier in row.scores for row in rows)
        for tier in ("l1", "l2")
    ]
    # What routing did to the scores, which is what the weights undo.
    assert naive[0] > 0.8
    assert naive[1] < 0.6


def test_a_log_in_which_nothing_was_random_is_said_not_to_compare():
    rows = [make_record(n, tier="l1" if n % 2 else "l2", scores=(1.0,)) for n in range(100)]
    found = only(list(from_outcomes(rows)))
    assert not found.is_comparable
    assert not found.is_sure


def test_requests_that_say_nothing_about_a_tier_are_passed_over():
    pinned, failed, silent = make_record(1, scores=(1.0,)), make_record(2, scores=(1.0,)), make_record(3)
    pinned.decision.pinned = True
    failed.result.outcome = "QUEUE_FULL"
    assert list(from_outcomes([pinned, failed, silent])) == []


def test_a_sampled_log_counts_each_record_for_more():
    record = make_record(1, scores=(1.0,))
    record.sample_rate = 0.1
    (row,) = from_outcomes([record])
    assert row.weight == pytest.approx(10)


def test_an_evaluation_set_is_read():
    line = '{"task_type": "qa", "scores": {"l1": 1, "l2": 0.5}, "prompt_tokens": 40, "answer_tokens": {"l1": 9}}'
    (row,) = read_evaluation(["", line])
    assert (row.task_type, row.scores, row.prompt_tokens, row.answer_tokens) == (
        "qa",
        {"l1": 1, "l2": 0.5},
        40,
        {"l1": 9},
    )
    (row,) = read_evaluation(['{"task_type": "qa", "scores": {"l1": 1}, "answer_tokens": 7}'])
    assert row.answer_tokens == {"l1": 7}


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"scores": {"l1": 1}}',
        '{"task_type": "qa"}',
        '{"task_type": "qa", "scores": {}}',
        '{"task_type": "qa", "scores": {"l1": 2}}',
        '{"task_type": 5, "scores": {"l1": 1}}',
        '{"task_type": "qa", "scores": [1]}',
        '{"task_type": "qa", "scores": {"l1": 1}, "prompt_tokens": "many"}',
    ],
)
def test_a_wrong_line_of_an_evaluation_set_is_named(line):
    with pytest.raises(EvaluationError, match="line 2"):
        list(read_evaluation(['{"task_type": "qa", "scores": {"l1": 1}}', line]))
