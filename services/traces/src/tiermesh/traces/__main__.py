"""Runs the trace store: `python -m tiermesh.traces --config FILE`."""

import sys

from tiermesh.shared.endpoints import TRACES
from tiermesh.shared.process import main
from tiermesh.traces.app import run

sys.exit(main("tiermesh.traces", run, cluster=TRACES))
