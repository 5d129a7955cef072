"""Starts an engine."""

import sys

from tiermesh.engine.app import run
from tiermesh.shared.process import main

if __name__ == "__main__":
    # The guard matters: vLLM's worker processes import this module again.
    sys.exit(main("tiermesh.engine", run))
