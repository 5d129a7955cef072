"""Makes the bootstrap importable: it is not installed, because it is what installs."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "mesh"))
