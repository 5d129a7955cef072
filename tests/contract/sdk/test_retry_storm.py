"""A service whose 99th percentile is 280 ms, at 80 % of its capacity, and then twice that for 5 s."""

from functools import partial

import pytest
from harness.storm import EngineService, PlainService, Storm, naive_client, sdk_client, storm
from tiermesh.client import Lane

BURST_ENDS = 15.0


@pytest.fixture(scope="module", params=[Lane.SIMPLE, Lane.COMPLEX])
def ours(request) -> Storm:
    """The mesh's engine, and the SDK with its defaults."""
    return storm(partial(sdk_client, lane=request.param), slots=10)


@pytest.fixture(scope="module", params=[EngineService, PlainService])
def naive(request) -> Storm:
    """Clients that time out at 300 ms and try again twice at once."""
    return storm(lambda loop: naive_client(), slots=10, make_service=request.param)


def test_with_the_sdk_the_service_is_itself_again_within_ten_seconds(ours: Storm):
    assert ours.success(0, 10) > 0.999
    assert ours.success(BURST_ENDS + 9, BURST_ENDS + 11) > 0.99
    assert ours.success(BURST_ENDS + 10, BURST_ENDS + 20) > 0.99


def test_with_the_sdk_hardly_any_work_is_done_for_those_who_have_gone(ours: Storm):
    assert ours.wasted_share < 0.05
    assert ours.calls <= 1.2 * len(ours.asked)


def test_naive_clients_keep_the_service_down_long_after_the_burst(naive: Storm):
    # What the defaults are for: the storm feeds itself.
    assert naive.success(0, 10) > 0.99
    assert naive.success(BURST_ENDS + 10, BURST_ENDS + 20) < 0.8
    assert naive.wasted_share > 0.3
    assert naive.calls > 1.5 * len(naive.asked)


def test_without_the_engines_forecast_a_short_deadline_wastes_what_is_begun_too_late():
    short, long = (
        storm(partial(sdk_client, lane=lane), slots=10, make_service=PlainService)
        for lane in (Lane.SIMPLE, Lane.COMPLEX)
    )
    # The complex lane's deadline is ten times what an answer takes; of the simple lane's 500 ms, waiting uses up most.
    assert long.wasted_share < 0.05 < short.wasted_share
    for storms in (short, long):
        assert storms.calls <= 1.2 * len(storms.asked)
        assert storms.success(BURST_ENDS + 10, BURST_ENDS + 20) > 0.99


def test_a_service_that_works_on_for_those_who_have_gone_recovers_too():
    storms = storm(sdk_client, slots=10, make_service=partial(PlainService, ignores_cancellation=True))
    assert storms.success(BURST_ENDS + 10, BURST_ENDS + 20) > 0.99
