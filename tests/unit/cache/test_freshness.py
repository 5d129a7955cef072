"""Times to live are varied."""

from tiermesh.cache.freshness import jittered_ttl_ms


def test_jitter_is_ten_percent_either_way():
    assert jittered_ttl_ms(100, 0.0) == 90_000
    assert jittered_ttl_ms(100, 0.5) == 100_000
    assert jittered_ttl_ms(100, 1.0) == 110_000


def test_it_is_never_nothing():
    assert jittered_ttl_ms(0.001, 0.0) == 1
