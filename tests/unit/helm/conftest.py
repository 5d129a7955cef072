"""Releases of the chart, and their configuration as processes read it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from harness.helm import VALUE_SETS, Release, render
from tiermesh.shared.config import TiermeshConfig, load_config


@pytest.fixture(scope="session", params=VALUE_SETS, ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    return render(VALUE_SETS[request.param])


@pytest.fixture(scope="session")
def config_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Release], TiermeshConfig]:
    """Loads a release's configuration from a folder with the files of its ConfigMap."""
    loaded: dict[str, TiermeshConfig] = {}

    def load(release: Release) -> TiermeshConfig:
        files = release.config_files()
        key = json.dumps(files)
        if key not in loaded:
            folder = tmp_path_factory.mktemp("config")
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            loaded[key] = load_config(folder / "tiermesh.yaml")
        return loaded[key]

    return load
