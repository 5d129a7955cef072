"""Runs the router: python -m tiermesh.router --config FILE."""

import sys

from tiermesh.router.app import run
from tiermesh.shared.process import main

if __name__ == "__main__":
    sys.exit(main("tiermesh.router", run, cluster="router"))
