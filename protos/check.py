"""Checks the contracts with buf: lint, and breaking changes against the last release.

    python protos/check.py                    lint, and compare with protos/baseline.binpb
    python protos/check.py --write-baseline   make today's contracts the new baseline (at a release)

The baseline is a protobuf image of the contracts as last released. Needs grpcio-tools and
buf-bin in the running interpreter's environment.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import ROOT, include_dirs
from grpc_tools import protoc

BASELINE = ROOT / "baseline.binpb"
CONFIG = ROOT.parent / "buf.yaml"


def build_image(out: Path) -> None:
    """Writes an image of all contracts, with the comments that lint looks at."""
    sources = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tiermesh").rglob("*.proto"))
    arguments = [
        "protoc",
        *(f"-I{folder}" for folder in include_dirs()),
        "--include_imports",
        "--include_source_info",
        f"--descriptor_set_out={out}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("check: protoc failed; its message is above")


def buf(*arguments: str | Path) -> bool:
    """Runs buf and tells whether it was content; what it finds goes to standard output."""
    binary = Path(sys.executable).parent / "buf"
    return subprocess.run([binary, *arguments, "--config", CONFIG], check=False).returncode == 0


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-baseline", action="store_true", help="replace protos/baseline.binpb")
    write_baseline: bool = parser.parse_args().write_baseline
    with tempfile.TemporaryDirectory() as scratch:
        image = Path(scratch) / "contracts.binpb"
        build_image(image)
        clean = buf("lint", image)
        if write_baseline:
            shutil.copyfile(image, BASELINE)
            print(f"protos/{BASELINE.name} written")
        elif not buf("breaking", image, "--against", BASELINE):
            print("protos: a contract changed in a way that breaks its users; add a field instead", file=sys.stderr)
            clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
