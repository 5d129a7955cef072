"""OpenVINO, told to report to nobody.

Its package sends an event to its makers whenever it is imported, through a package of its own for that, and keeps an id
of the device in the home folder. Where that package cannot be imported it does without. A mesh sends nothing that its
operator has not asked for. Import it from here and from nowhere else.
"""

from __future__ import annotations

import sys

# What is None here cannot be imported.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # this is how an import is refused

import openvino  # noqa: TID251, E402 -- this is the place, and it must come after

__all__ = ["openvino"]
