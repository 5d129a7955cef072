"""One request in ten meets a fault, over the wire; ten thousand of them are part of `make bench-resilience`."""

import asyncio

import pytest
from harness.faulty_engine import FAULTS
from harness.overshoot import measure_overshoot

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(180)]


def test_requests_that_meet_a_fault_end_at_their_deadline_and_their_callers_know(tmp_path):
    result = asyncio.run(measure_overshoot(tmp_path, requests=600))
    assert not [kind for kind in result.kinds if kind.startswith(("lost", "wrong"))], result.kinds
    assert {fault for fault in FAULTS if any(f"({fault})" in kind for kind in result.kinds)} == set(FAULTS)
    # The callers run on the same cores as the mesh; how late their own timers were is measured, and allowed on top.
    assert result.quantile_ms(0.99) <= 50 + sorted(result.lag_ms)[int(len(result.lag_ms) * 0.99)], result.kinds
