"""ONNX Runtime, told to report to nobody.

Its packages from release 1.32 on keep a device id and a queue of events in the user's cache folder, and send them to
its makers, unless this variable is set when it is loaded. A mesh sends nothing that its operator has not asked for.
Import it from here and from nowhere else.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime  # noqa: TID251 -- this is the place

__all__ = ["load_quantization", "onnxruntime"]


def load_quantization() -> ModuleType:
    """Returns `onnxruntime.quantization`, which loads ONNX Runtime itself.

    Raises:
        ImportError: `onnx`, which it needs as well, is missing.
    """
    return importlib.import_module("onnxruntime.quantization")
