"""What integration tests of several areas need."""

import pytest
from harness.redis import real_redis


@pytest.fixture
def redis_server():
    """A real Redis of the test's own."""
    with real_redis() as server:
        yield server
