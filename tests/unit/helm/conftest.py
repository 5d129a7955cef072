"""Releases of the chart, and their configuration as processes read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness.helm import VALUE_SETS, Release, render
from tiermesh.shared.config import TiermeshConfig, load_config


@pytest.fixture(scope="session", params=VALUE_SETS, ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    return render(VALUE_SETS[request.param])


@pytest.fixture
def config_of(tmp_path) -> Callable[[Release], TiermeshConfig]:
    """Loads a release's configuration from a folder with the files of its ConfigMap."""

    def load(release: Release) -> TiermeshConfig:
        for name, text in release.config_files().items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        return load_config(tmp_path / "tiermesh.yaml")

    return load
