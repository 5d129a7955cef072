"""Starts an engine."""

import os
import sys

from tiermesh.engine.app import run
from tiermesh.shared.process import main

# vLLM's worker processes import this module again, hence the guard.
if __name__ == "__main__":
    status = main("tiermesh.engine", run)
    sys.stderr.flush()
    # All of ours is closed; taking vLLM's modules apart would keep a drained process for seconds.
    os._exit(status)
