"""ONNX Runtime leaves no device id and no queue of events behind."""

import os
import subprocess
import sys

import pytest

_MAKE = """
from onnx import TensorProto, helper
def write(path):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
"""
_USE = """
from tiermesh.cache.quiet_onnxruntime import onnxruntime
session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
print(session.get_outputs()[0].name)
"""
_FETCH = """
from tiermesh.cache.fetch_embedder import _quantize
try:
    _quantize(path)
except KeyError:
    # By then it has been folded by ONNX Runtime, and is found to be another model.
    print("y")
"""


@pytest.mark.parametrize("work", [_USE, _FETCH], ids=["asked", "made"])
def test_a_model_that_was_used_has_told_nobody(tmp_path, work):
    environ = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = tmp_path / "home"
    home.mkdir()
    environ |= {"XDG_CACHE_HOME": str(home), "HOME": str(home)}
    script = f"import pathlib\n{_MAKE}\npath = pathlib.Path({str(tmp_path / 'model.onnx')!r})\nwrite(path)\n{work}"
    used = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert used.stdout.strip() == "y", used.stderr
    assert not [path for path in home.rglob("*") if path.is_file()]
