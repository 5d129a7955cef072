import pytest
from tiermesh.engine.batch_limit import BatchLimit
from tiermesh.engine.drain_rate import DrainRate
from tiermesh.engine.forecast import Forecast, Sample
from tiermesh.engine.hopeless import HopelessWork


def test_a_drain_rate_counts_only_time_in_which_something_waited():
    rate = DrainRate()
    assert rate.per_second is None
    rate.waits(0.0)
    for now in (0.5, 1.0, 1.5):
        rate.started(now, still_waiting=True)
    rate.started(2.0, still_waiting=False)
    assert rate.per_second == pytest.approx(2.0)
    # An idle hour later the next queue is as fast as before.
    rate.waits(3600.0)
    rate.started(3600.5, still_waiting=False)
    assert rate.per_second == pytest.approx(2.0)


def test_a_queue_that_was_given_up_says_nothing():
    rate = DrainRate()
    for n in range(4):
        rate.waits(n * 10.0)
        rate.started(n * 10.0 + 1.0, still_waiting=False)
    rate.waits(100.0)
    rate.emptied()
    rate.waits(200.0)
    rate.started(201.0, still_waiting=False)
    assert rate.per_second == pytest.approx(1.0)


def plant(limit: BatchLimit, *, waiting: int, periods: int) -> list[int]:
    """Runs answers of an engine whose tokens take 20 ms, and 2 ms more per neighbour."""
    limits, now = [], 0.0
    for _ in range(periods):
        for _ in range(5):
            now += 0.3
            limit.queued(waiting)
            limit.answered(0.02 + 0.002 * (limit.limit - 1), now)
        limits.append(limit.limit)
    return limits


def test_a_batch_too_slow_is_cut_and_grows_again_while_prompts_wait():
    limits = plant(BatchLimit(most=32, token_s_limit=0.04), waiting=5, periods=40)
    # Eleven at once take 40 ms a token: it stays about there.
    assert 8 <= min(limits[8:]) <= max(limits[8:]) <= 12


def test_with_nobody_waiting_a_batch_does_not_grow():
    limit = BatchLimit(most=32, token_s_limit=0.04)
    plant(limit, waiting=5, periods=10)
    before = limit.limit
    assert plant(limit, waiting=0, periods=5)[-1] <= before


def test_the_more_wait_the_faster_a_batch_grows():
    def growth(waiting: int) -> int:
        limit = BatchLimit(most=32, token_s_limit=1.0)
        limit.limit = 4
        return plant(limit, waiting=waiting, periods=3)[-1]

    assert growth(1) < growth(40) <= 4 + 3 * 4


def test_without_a_limit_all_slots_are_used():
    limit = BatchLimit(most=8, token_s_limit=None)
    assert not limit.answered(99.0, 0.0)
    assert limit.limit == 8


def learnt(count: int = 30) -> Forecast:
    forecast = Forecast()
    for n in range(count):
        prompt = 100 + 50 * (n % 5)
        forecast.learn(Sample(prompt, 0.1 + prompt * 0.001, 51, 1.0), now=float(n))
    return forecast


def test_a_forecast_splits_prefill_from_decode():
    forecast = learnt()
    assert not forecast.unknown(30.0)
    assert forecast.prefill_s(100) == pytest.approx(0.2, abs=0.01)
    assert forecast.prefill_s(1000) == pytest.approx(1.1, abs=0.05)
    assert forecast.decode_s(256) == pytest.approx(1.0)
    assert forecast.decode_s(26) == pytest.approx(0.5)
    assert forecast.decode_s(1) == 0.0
    assert forecast.answer_s(100, 256, sure=True) > forecast.answer_s(100, 256)


def test_nothing_is_forecast_from_few_answers_or_old_ones():
    assert Forecast().unknown(0.0)
    assert learnt(3).unknown(3.0)
    forecast = learnt()
    assert forecast.unknown(29.0 + 11.0)
    # What comes then starts afresh.
    forecast.learn(Sample(100, 5.0, 51, 1.0), now=100.0)
    assert forecast.unknown(100.0)
    assert forecast.prefill_s(100) == pytest.approx(5.0)


def test_in_the_dark_everything_is_let_in_and_counted():
    work = HopelessWork("dark", tier="l1")
    for n in range(20):
        verdict = work.judge(5.0, 1.0)
        assert (verdict.hopeless, verdict.refused) == (True, False)
        work.ended(verdict, in_time=n < 2)
    assert not work.judge(0.5, 1.0).hopeless
    assert not work.judge(None, 0.0).hopeless
    assert (work.count, work.finished) == (20, 2)


def test_a_prediction_is_enforced_once_proved_and_probed_from_then_on():
    work = HopelessWork("measured", tier="l1")
    for _ in range(10):
        verdict = work.judge(5.0, 1.0)
        assert not verdict.refused
        work.ended(verdict, in_time=False)
    refused = [work.judge(5.0, 1.0).refused for _ in range(100)]
    assert refused.count(False) == 2


def test_a_prediction_that_becomes_wrong_is_not_enforced_any_more():
    work = HopelessWork("measured", tier="l1", proved=True)
    assert work.judge(5.0, 1.0).refused
    probes = 0
    while work.proved:
        verdict = work.judge(5.0, 1.0)
        if not verdict.refused:
            probes += 1
            work.ended(verdict, in_time=True)
    assert probes == 10


def test_a_refusal_says_what_would_have_been_needed():
    work = HopelessWork("enforced", tier="l1")
    verdict = work.judge(5.04, 1.25)
    assert verdict.refused
    assert "5.0 s" in work.refusal(verdict, 1.25).message
