"""The `tiermesh` command line."""

import sys
from collections.abc import Callable


def _run() -> None:
    from tiermesh.client.cli._app import main as run  # noqa: PLC0415 -- Ctrl-C may come while this is imported

    run()


def main(run: Callable[[], None] = _run) -> None:
    """Runs the command line; Ctrl-C at any moment ends it with status 130 and without a traceback."""
    try:
        run()
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)


__all__ = ["main"]
