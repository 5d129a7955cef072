"""OpenVINO leaves no device id behind, and what would send events is never loaded."""

import os
import subprocess
import sys

_USE = """
import sys
from tiermesh.cache.quiet_openvino import openvino
assert openvino.Core().available_devices
print(sorted(name for name in sys.modules if name.startswith("openvino_telemetry.")))
"""


def test_a_process_that_used_it_has_told_nobody(tmp_path):
    # Nor is it told that this is a test: it is quiet by itself where CI is set.
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    environ |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    used = subprocess.run(
        [sys.executable, "-c", _USE], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert used.stdout.strip() == "[]", used.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
