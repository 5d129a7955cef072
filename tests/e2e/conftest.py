"""One mesh per profile, shared by all end-to-end tests that do not break it."""

import json
import os
import time

import pytest
from harness.collector import running_collector
from harness.mesh import OTHER_KEY, PATIENT, PATIENT_CACHE, TWO_TENANTS, running_mesh
from tiermesh.cache.embedder_files import embedder_folder, is_fetched

# L1 answers fast, so that tests are; L2 is slow enough to be caught in the middle of an answer.
SPEEDS = {
    # Which tier answers is then a matter of the prompt alone; test_escalation switches it on.
    "escalation": {"enabled": False},
    **PATIENT,
    "tiers": [
        {"name": "l1", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
        {"name": "l2", "simulated_ttft_ms": 50, "simulated_tokens_per_second": 60},
    ],
}
SEMANTIC = {
    **TWO_TENANTS,
    "tiers": [
        {"name": "l1", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
        {"name": "l2", "simulated_ttft_ms": 5, "simulated_tokens_per_second": 2000},
    ],
    "drain_s": 1,
    **PATIENT,
    "cache": {
        **PATIENT_CACHE,
        "semantic_enabled": True,
        "semantic_task_types": ["faq", "qa", "math", "tool_use"],
        # Low, so that it is the guards that have to refuse.
        "semantic_threshold": 0.6,
    },
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
def semantic(tmp_path_factory):
    """A lite mesh of two tenants whose semantic tier is on."""
    if not is_fetched(embedder_folder(os.environ)):
        pytest.skip("run python -m tiermesh.cache.fetch_embedder")
    folder = tmp_path_factory.mktemp("semantic")
    with running_mesh(folder, "lite", SEMANTIC, OTHER_TENANTS_KEY=OTHER_KEY) as mesh:
        yield mesh


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    """A mesh whose L1 and L2 are real vLLM engines with real weights."""
    with running_mesh(tmp_path_factory.mktemp("local"), "local", PATIENT) as mesh:
        yield mesh


@pytest.fixture(params=PROFILES)
def mesh(request):
    """The mesh of each profile in turn."""
    if request.param == "local":
        return request.getfixturevalue("local")
    return request.getfixturevalue("lite")[0]


@pytest.fixture(scope="session")
def breakable(tmp_path_factory):
    with running_mesh(tmp_path_factory.mktemp("breakable"), "lite", SPEEDS) as mesh:
        yield mesh


def _whole(mesh):
    """Names of the processes, and the version of the configuration, of a mesh once it is well."""
    give_up = time.monotonic() + 300
    while time.monotonic() < give_up:
        # A process that is not run for a moment answers too late, the supervisor too: then nothing is said.
        told = mesh.tiermesh("status", "--json", check=False).stdout
        status = json.loads(told) if told else {"well": False}
        if status["well"]:
            return {each["name"] for each in status["processes"]}, status["control"]["config_version"]
    raise TimeoutError(f"the mesh is not well: {told}")


@pytest.fixture
def broken(breakable):
    """A lite mesh to be broken. Its files are put back afterwards, and it must be well again before the next test."""
    files = {path: path.read_bytes() for path in breakable.folder.glob("*.yaml")}
    before = _whole(breakable)
    yield breakable
    for path, content in files.items():
        if path.read_bytes() != content:
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(path)
    give_up = time.monotonic() + 300
    while _whole(breakable) != before:
        assert time.monotonic() < give_up, "the mesh is not as it was before the test"
