"""ONNX Runtime leaves no device id and no queue of events behind."""

import os
import subprocess
import sys

_USE = """
import sys
from onnx import TensorProto, helper
from tiermesh.cache.quiet_onnxruntime import onnxruntime
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x")], [value("y")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
print(session.get_outputs()[0].name)
"""


def test_a_model_that_was_used_has_told_nobody(tmp_path):
    environ = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environ |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    used = subprocess.run(
        [sys.executable, "-c", _USE], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert used.stdout.strip() == "y", used.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
