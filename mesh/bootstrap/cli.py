"""The command line of the bootstrap."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.base_env import install_base, install_dev
from bootstrap.embedder import install_embedder
from bootstrap.engine_env import install_engine
from bootstrap.locking import locked
from bootstrap.models import fetch_models, read_needs
from bootstrap.paths import Paths
from bootstrap.progress import Progress
from bootstrap.steps import Runner, StepFailed, new_log

_EPILOG = """examples:
  python3 mesh/bootstrap up --profile lite    install what the profile needs, then start the mesh
  python3 mesh/bootstrap env --dev            only install, with the development tools
  python3 mesh/bootstrap run -- status        run the `tiermesh` command with some arguments"""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python3 mesh/bootstrap",
        description="Installs what tiermesh needs, then starts it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="install what a profile needs, then run `tiermesh up`")
    env = verbs.add_parser("env", help="only install")
    run = verbs.add_parser("run", help="install the base environment, then run `tiermesh` with what follows")
    for verb in (up, env):
        verb.add_argument("--profile", default="local", help="name of a file in mesh/profiles (default: local)")
        verb.add_argument("--config", type=Path, help="a configuration file instead of a profile")
    env.add_argument("--dev", action="store_true", help="with the tools of `make test` and `make check`")
    env.add_argument("--base-only", action="store_true", help="without language models, whatever the profile")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of `tiermesh`")
    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.verb != "up":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.rest = rest
    return arguments


def config_of(arguments: argparse.Namespace, paths: Paths) -> Path:
    """Returns the configuration file that was asked for.

    Raises:
        StepFailed: it is not there.
    """
    if arguments.config is not None:
        config: Path = arguments.config.resolve()
        if not config.is_file():
            raise StepFailed("configuration", f"{config} is not there", "pass an existing file with --config.")
        return config
    profiles = paths.checkout / "mesh" / "profiles"
    config = profiles / f"{arguments.profile}.yaml"
    if not config.is_file() or arguments.profile == "rules":
        known = sorted(file.stem for file in profiles.glob("*.yaml") if file.stem != "rules")
        raise StepFailed("profile", f"there is no profile {arguments.profile!r}", f"choose one of: {', '.join(known)}.")
    return config


def prepare(arguments: argparse.Namespace, paths: Paths, runner: Runner) -> None:
    """Does every step that has not been done yet.

    Raises:
        StepFailed: one could not be done.
    """
    if arguments.verb == "run" and (paths.base_env / "bin" / "tiermesh").exists():
        # Stopping or looking at a mesh must not wait for an installation.
        return
    config = None if arguments.verb == "run" else config_of(arguments, paths)
    lock = paths.checkout / ".tiermesh" / "bootstrap.lock"
    with locked(lock, lambda: print("Another run is installing into this checkout; waiting for it ...", flush=True)):
        install_base(paths, runner)
        if arguments.verb == "env" and arguments.dev:
            install_dev(paths, runner)
        if config is None or (arguments.verb == "env" and arguments.base_only):
            return
        needs = read_needs(paths, config, runner)
        if needs.engine:
            engine_python = install_engine(paths, runner)
            fetch_models(needs.models, engine_python, paths, runner)
        if needs.embedder:
            install_embedder(paths, runner)


def main(argv: Sequence[str] | None = None, paths: Paths | None = None) -> int:
    """Runs the command line; returns the exit status unless `tiermesh` takes over."""
    arguments = parse(argv)
    paths = paths or Paths.of(os.environ)
    try:
        prepare(arguments, paths, Runner(new_log(paths.logs), Progress(), os.environ))
    except StepFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"\nthe installation failed: {error}\nWhat to do: make that file or folder usable, then run again.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run again to go on: finished parts are kept.", file=sys.stderr)
        return 130
    if arguments.verb == "env":
        return 0
    if arguments.verb == "run":
        words = [word for word in arguments.arguments if word != "--"]
    else:
        wanted = ["--config", str(arguments.config.resolve())] if arguments.config else ["--profile", arguments.profile]
        words = ["up", *wanted, *arguments.rest]
    program = paths.base_env / "bin" / "tiermesh"
    os.execv(program, [str(program), *words])  # noqa: S606 -- this process becomes `tiermesh`, and takes its signals
    raise AssertionError("execv does not return")
