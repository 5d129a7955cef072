"""What holds of every test."""

import os
import signal

import pytest
from harness.ports import free_port_base
from hypothesis import HealthCheck, settings

# The same examples in every run, however busy the machine is: a failure is there again in the next run. Hypothesis'
# own limits on time would make failures of pauses that other programs cause.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("repeatable")


# What the shell overrides in a mesh's configuration is not meant for the tests' own.
for name in [name for name in os.environ if name.startswith("TIERMESH__")]:
    del os.environ[name]


# A run that is told to stop ends as by Ctrl-C: fixtures stop the meshes they started.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def unused_tcp_port() -> int:
    """A port that stays free: pytest-asyncio's own may go to an outgoing connection before the test binds it."""
    return free_port_base()
