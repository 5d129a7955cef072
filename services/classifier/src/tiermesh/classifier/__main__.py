"""Runs the classifier: `python -m tiermesh.classifier --config FILE`."""

import sys

from tiermesh.classifier.app import run
from tiermesh.shared.endpoints import CLASSIFIER
from tiermesh.shared.process import main

sys.exit(main("tiermesh.classifier", run, cluster=CLASSIFIER))
