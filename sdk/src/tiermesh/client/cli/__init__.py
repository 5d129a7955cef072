"""The `tiermesh` command line."""

from tiermesh.client.cli._app import main

__all__ = ["main"]
