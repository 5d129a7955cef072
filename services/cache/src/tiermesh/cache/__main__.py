"""Runs the cache: `python -m tiermesh.cache --config FILE`."""

import sys

from tiermesh.cache.app import run
from tiermesh.shared.endpoints import CACHE
from tiermesh.shared.process import main

sys.exit(main("tiermesh.cache", run, cluster=CACHE))
