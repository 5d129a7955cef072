"""Runs the log of outcomes: `python -m tiermesh.outcomes --config FILE`."""

import sys

from tiermesh.outcomes.app import run
from tiermesh.shared.endpoints import OUTCOMES
from tiermesh.shared.process import main

sys.exit(main("tiermesh.outcomes", run, cluster=OUTCOMES))
