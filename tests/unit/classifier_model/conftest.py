"""Training and evaluation are scripts, not packages: their folders are put on the path."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
for folder in (ROOT / "services" / "classifier" / "training", ROOT / "benchmarks"):
    sys.path.insert(0, str(folder))
