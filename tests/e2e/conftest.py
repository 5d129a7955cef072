"""One mesh per profile, shared by all end-to-end tests that do not break it."""

import pytest
from harness.collector import running_collector
from harness.mesh import running_mesh

# L1 answers fast, so that tests are; L2 is slow enough to be caught in the middle of an answer.
SPEEDS = {
    # Which tier answers is then a matter of the prompt alone; test_escalation switches it on.
    "escalation": {"enabled": False},
    "tiers": [
        {"name": "l1", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
        {"name": "l2", "simulated_ttft_ms": 50, "simulated_tokens_per_second": 60},
    ],
}
MEASURED = {**SPEEDS, "metrics": {"interval_s": 0.5}}
PROFILES = ["lite", pytest.param("local", marks=pytest.mark.vllm)]


@pytest.fixture(scope="session")
def lite(tmp_path_factory):
    """A mesh whose L1 and L2 are simulated, with a real OTLP collector behind it."""
    with running_collector() as collector:
        folder = tmp_path_factory.mktemp("lite")
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": collector.endpoint,
        }
        with running_mesh(folder, "lite", MEASURED, **environ) as mesh:
            yield mesh, collector


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    """A mesh whose L1 and L2 are real vLLM engines with real weights."""
    with running_mesh(tmp_path_factory.mktemp("local"), "local") as mesh:
        yield mesh


@pytest.fixture(params=PROFILES)
def mesh(request):
    """The mesh of each profile in turn."""
    if request.param == "local":
        return request.getfixturevalue("local")
    return request.getfixturevalue("lite")[0]


@pytest.fixture
def broken(tmp_path):
    """A lite mesh of the test's own, to be broken."""
    with running_mesh(tmp_path, "lite", SPEEDS) as mesh:
        yield mesh
