"""Helm, in a process of its own.

Its library brings the runtime of Go, which takes over the signals of the process that loads it and ends that process
where something is not as it expects. Beside pytest, `faulthandler` and a dozen other native libraries that was a whole
run lost to a segmentation fault, without a word of where.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

TIMEOUT_S = 120
"""Starting the process and loading the library is most of it."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ChartRefused(Exception):
    """Helm's own words on why it does not render a chart."""


def render_files(chart: Path, values: dict[str, Any], *, name: str, namespace: str) -> dict[str, str]:
    """Renders a chart; returns the text of each template, by its path.

    Raises:
        ChartRefused: the values are not what the chart takes.
    """
    return _there(_render_files, chart, values, name=name, namespace=namespace)


def lint(chart: Path, *, namespace: str, kube_version: str) -> dict[str, Any]:
    """Returns what `helm lint --strict` finds."""
    return _there(_lint, chart, namespace=namespace, kube_version=kube_version)


@cache
def _process() -> ProcessPoolExecutor:
    # Not forked: a copy of this process would hold all that the other was to be kept from.
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _there(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return _process().submit(function, *args, **kwargs).result(TIMEOUT_S)


def _render_files(chart: Path, values: dict[str, Any], *, name: str, namespace: str) -> dict[str, str]:
    from helm_python.errors import HelmError  # noqa: TID251 -- loads the library, which belongs there alone

    try:
        return dict(_loaded(chart).render(values, name=name, namespace=namespace))
    except HelmError as error:
        raise ChartRefused(str(error)) from None


def _lint(chart: Path, *, namespace: str, kube_version: str) -> dict[str, Any]:
    import helm_python  # noqa: TID251 -- as above

    return dict(helm_python.lint(chart, strict=True, namespace=namespace, kube_version=kube_version))


@cache
def _loaded(chart: Path) -> Any:
    import helm_python  # noqa: TID251 -- as above

    return helm_python.Chart.load(chart)
