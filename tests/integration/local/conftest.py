"""One lite mesh for the tests that leave it as they found it."""

import pytest
from harness.mesh import PATIENT, running_mesh


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A mesh whose language models are simulated."""
    with running_mesh(tmp_path_factory.mktemp("mesh"), "lite", PATIENT) as mesh:
        yield mesh
