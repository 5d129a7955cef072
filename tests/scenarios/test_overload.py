"""Three times as much work as a tier can do, on real processes; a minute of it is part of `make bench-resilience`."""

import asyncio

import pytest
from harness.mesh import running_mesh
from harness.process_overload import DEADLINE_S, SETTINGS, overload

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(120)]


def test_three_times_the_load_gets_the_work_of_a_full_tier_and_batch_work_is_shed_first(tmp_path):
    with running_mesh(tmp_path, "lite", SETTINGS) as mesh:
        run = asyncio.run(overload(mesh, seconds=24.0, measure_s=8.0))
    ends = run.reasons()
    # Callers, mesh and whatever else runs share the same cores, so that the capacity itself is not quite steady.
    assert run.goodput_ratio >= 0.8, (run.goodput_ratio, ends)
    assert run.lost() == 0, ends
    assert set(ends) <= {"ok", "QUEUE_FULL", "BUDGET_EXHAUSTED", "INFERENCE_TIMEOUT"}
    assert ends["QUEUE_FULL"] + ends["BUDGET_EXHAUSTED"] > len(run.asked) / 3
    assert run.interactive_p99_s() <= DEADLINE_S
    assert run.answered_share(batch=False) > run.answered_share(batch=True)
    assert run.memory_growth < 1.05, run.memory
