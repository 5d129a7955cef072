# Written so that Python 3.6 and later can at least read it, and say what is wrong.
import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 -- this file is what tells older interpreters so
    version = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(
        f"step 'Python' failed: tiermesh needs Python 3.11 or later; {sys.executable} is {version}.\n"
        "What to do: name a newer one, for example `make up PYTHON=python3.12`; on Debian or Ubuntu,\n"
        "`sudo apt-get install python3.12 python3.12-venv` where the release has it."
    )

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bootstrap.cli import main  # noqa: E402 -- only after the version is known to be new enough

if __name__ == "__main__":
    sys.exit(main())
