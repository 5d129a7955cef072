"""Two routers, a real cache, a real Redis, and a scripted engine."""

import pytest
from harness.two_routers import two_routers


@pytest.fixture
async def mesh(redis_server):
    """Both routers and what is behind them."""
    async with two_routers(redis_server.url) as routers:
        yield routers
