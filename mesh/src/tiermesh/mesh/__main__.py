import sys

from tiermesh.mesh.app import run
from tiermesh.mesh.command import print_bootstrap
from tiermesh.shared.endpoints import CONTROL_PLANE
from tiermesh.shared.process import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["bootstrap"]:
        sys.exit(print_bootstrap(sys.argv[2:]))
    sys.exit(main("tiermesh.mesh", run, cluster=CONTROL_PLANE))
