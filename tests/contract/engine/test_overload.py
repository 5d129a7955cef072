"""Three times as much work as the engine can do, for a minute of virtual time, on the simulated backend."""

import gc
import tracemalloc

import pytest
from harness.overload import Load, Run
from tiermesh.engine.ports import Lane
from tiermesh.shared.config import TierConfig

TIER = TierConfig(name="l1", backend="simulated", model="toy", slots=16, queue=64)


@pytest.fixture(scope="module")
def capacity() -> float:
    """Answers per second of a full engine."""
    return Load(TIER).capacity()


def test_capacity_is_that_of_a_batch_and_not_of_one_answer_after_another(capacity: float):
    alone = Load(TIER.model_copy(update={"slots": 1})).capacity()
    # Fitted to a real engine: sixteen at once get 12 tokens/s each where one alone gets 31.
    assert 5 < capacity / alone < 8


@pytest.mark.parametrize("deadline_s", [6.0, 10.0, 20.0])
def test_three_times_the_load_still_gets_the_work_of_a_full_engine(capacity: float, deadline_s: float):
    run = Load(TIER).overload(3 * capacity, deadline_s=deadline_s)
    assert run.goodput() >= 0.9 * capacity
    assert run.took(Lane.INTERACTIVE, 0.99) <= deadline_s
    assert run.most_waiting <= TIER.queue
    everything = run.counts(Lane.INTERACTIVE) + run.counts(Lane.BATCH)
    # Whatever is not answered is refused with a reason that says why.
    assert set(everything) <= {"ok", "QUEUE_FULL", "BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}


@pytest.mark.parametrize("deadline_s", [6.0, 10.0, 20.0])
def test_batch_work_is_shed_before_interactive_work(capacity: float, deadline_s: float):
    run = Load(TIER).overload(3 * capacity, deadline_s=deadline_s)

    def answered(lane: Lane) -> float:
        counts = run.counts(lane)
        return counts["ok"] / sum(counts.values())

    assert answered(Lane.INTERACTIVE) > answered(Lane.BATCH) > 0


def test_refusing_hopeless_work_is_what_keeps_the_work_useful(capacity: float):
    dark = Load(TIER.model_copy(update={"hopeless_work": "dark"})).overload(3 * capacity, deadline_s=6.0)
    # In the dark the prediction is only counted; most of what it calls hopeless does fail.
    assert dark.hopeless > 100
    assert dark.hopeless_finished < dark.hopeless / 3
    assert dark.goodput() < 0.6 * capacity


def test_a_language_models_prediction_is_enforced_once_its_own_traffic_has_proved_it(capacity: float):
    tier = TierConfig(name="l1", backend="vllm", model="toy", slots=16, queue=64)
    dark = Load(tier.model_copy(update={"hopeless_work": "dark"})).overload(3 * capacity, deadline_s=6.0)
    measured = Load(tier).overload(3 * capacity, deadline_s=6.0)
    assert measured.counts(Lane.INTERACTIVE)["BUDGET_EXHAUSTED"] > 100
    assert measured.goodput() > 1.4 * dark.goodput()


def test_tenants_who_send_alike_and_one_who_floods_each_get_their_share(capacity: float):
    run = Load(TIER).overload(3 * capacity, deadline_s=20.0, batch_share=0.0, tenants={"flood": 8.0, "calm": 1.0})

    def answered(tenant: str) -> float:
        mine = [o for o in run.outcomes if o.tenant == tenant]
        return sum(o.reason == "ok" for o in mine) / len(mine)

    # The calm tenant sends a third of the capacity, less than its half: all of it is answered.
    assert answered("calm") > 0.95
    assert answered("flood") < 0.5


def test_memory_stays_flat(capacity: float):

    def peak(seconds: float) -> float:
        load = Load(TIER)
        gc.collect()
        tracemalloc.start()
        run: Run = load.overload(3 * capacity, deadline_s=6.0, seconds=seconds)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept / len(run.outcomes)

    # What is left behind is the test's own list, so many bytes a prompt whatever the length of the run.
    assert peak(10.0) < 1.5 * peak(2.5)


def test_below_capacity_nothing_is_refused(capacity: float):
    run = Load(TIER).overload(0.7 * capacity, deadline_s=10.0)
    assert set(run.counts(Lane.INTERACTIVE) + run.counts(Lane.BATCH)) == {"ok"}
    assert run.hopeless == 0


def test_a_limit_on_token_times_makes_the_batch_smaller_and_answers_faster(capacity: float):
    # Alone a token takes 17 ms, and 1.7 ms more per neighbour: nine at once take 30 ms.
    limited = Load(TIER.model_copy(update={"token_ms_limit": 30.0}))
    run = limited.overload(3 * capacity, deadline_s=20.0)
    settled = sorted(run.running[len(run.running) // 2 :])
    assert 6 <= settled[len(settled) // 2] <= 11
    assert run.took(Lane.INTERACTIVE, 0.99) <= 20.0
    # A smaller batch does less: what is bought is the pace of each answer.
    assert 0.6 * capacity < run.goodput() < capacity
