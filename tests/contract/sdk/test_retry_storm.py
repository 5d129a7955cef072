"""A service whose 99th percentile is 280 ms, at 80 % of its capacity, and then twice that for 5 s."""

import pytest
from harness.storm import Storm, naive_client, sdk_client, storm

BURST_ENDS = 15.0


@pytest.fixture(scope="module")
def ours() -> Storm:
    """With the SDK's defaults."""
    return storm(sdk_client, slots=10)


@pytest.fixture(scope="module")
def naive() -> Storm:
    """With clients that time out at 300 ms and try again twice at once."""
    return storm(lambda loop: naive_client(), slots=10)


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


def test_a_service_that_works_on_for_those_who_have_gone_recovers_too():
    storms = storm(sdk_client, slots=10, ignores_cancellation=True)
    assert storms.success(BURST_ENDS + 10, BURST_ENDS + 20) > 0.99
