import pytest
from harness.router import running_router


@pytest.fixture
async def mesh():
    async with running_router() as router:
        yield router
