"""Generates the Python package `tiermesh.api` from the .proto files.

    python protos/generate.py           write protos/gen
    python protos/generate.py --check   exit 1 if protos/gen is not what would be written

Needs grpcio-tools and mypy-protobuf in the running interpreter's environment.
"""

from __future__ import annotations

import argparse
import filecmp
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
GEN = ROOT / "gen"
# Written by hand: they are kept when everything else is written anew.
KEPT = {"tiermesh/api/__init__.py", "tiermesh/api/py.typed"}


def include_dirs() -> list[Path]:
    """Folders with .proto files: ours, and those that Python packages carry."""
    spec = importlib.util.find_spec("google.api")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("generate: google.api is missing; run `make env` first")
    well_known = Path(protoc.__file__).parent / "_proto"
    return [ROOT, Path(next(iter(spec.submodule_search_locations))).parents[1], well_known]


def generate(out: Path) -> None:
    """Writes the generated package below `out`."""
    sources = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tiermesh").rglob("*.proto"))
    scripts = Path(sys.executable).parent
    package = out / "tiermesh" / "api"
    package.mkdir(parents=True, exist_ok=True)
    arguments = [
        "protoc",
        *(f"-I{folder}" for folder in include_dirs()),
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        "--include_imports",
        f"--descriptor_set_out={package / 'descriptors.binpb'}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("generate: protoc failed; its message is above")


def generated_files(folder: Path) -> set[str]:
    """Relative paths of all generated files below `folder`."""
    found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {name for name in found if "__pycache__" not in name and name not in KEPT}


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on drift")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        wanted, present = generated_files(fresh), generated_files(GEN)
        stale = sorted(
            (wanted ^ present) | {n for n in wanted & present if not filecmp.cmp(fresh / n, GEN / n, shallow=False)}
        )
        if check:
            for name in stale:
                print(f"protos/gen/{name} is out of date; run `make protos`", file=sys.stderr)
            return 1 if stale else 0
        for name in present - wanted:
            (GEN / name).unlink()
        for name in wanted:
            (GEN / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(fresh / name, GEN / name)
        print(f"protos/gen: {len(wanted)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
