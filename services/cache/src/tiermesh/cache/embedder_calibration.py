"""Finds out what values are like inside the embedding model. Only fetching needs this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from tiermesh.cache.adapters.openvino_embedder import CompiledGraph, Embeddings, Floats, open_core, open_tokenizer
from tiermesh.cache.embedder_files import TOKENIZER
from tiermesh.cache.embedder_graph import Range
from tiermesh.cache.embedder_pruning import Moments

_TOGETHER = 6
"""Texts that are also asked as one, for values that long texts alone have."""
_TEXTS_SUMMED = 100
"""Texts whose moments are summed up at once."""


def calibration_texts() -> list[str]:
    """Returns English questions, and long texts made of some of them."""
    lines = _lines("embedder_calibration.txt")
    return lines + _joined(lines)


def pruning_texts() -> list[str]:
    """Returns these and more: what is fitted needs many. They are questions of the tuning set, and prompts made from templates."""
    lines = [*_lines("embedder_calibration.txt"), *_lines("embedder_pruning.txt")]
    return lines + _joined(lines[: len(lines) // 2])


def _lines(name: str) -> list[str]:
    return (files("tiermesh.cache") / name).read_text(encoding="utf-8").splitlines()


def _joined(lines: list[str]) -> list[str]:
    return [" ".join(lines[begin : begin + _TOGETHER]) for begin in range(0, len(lines), _TOGETHER)]


def measure_ranges(model: Path, points: Sequence[str], texts: Iterable[str]) -> dict[str, Range]:
    """Runs the model on texts and returns the range of every point.

    Args:
        model: The model in floats, beside the embeddings and the tokenizer.
        points: Names of outputs.
        texts: What to run it on.
    """
    lows: dict[str, list[Floats]] = {point: [] for point in points}
    highs: dict[str, list[Floats]] = {point: [] for point in points}
    for graph in _runs(model, texts):
        for point in points:
            rows = _rows(graph, point)
            lows[point].append(rows.min(axis=0))
            highs[point].append(rows.max(axis=0))
    return {point: Range(np.min(lows[point], axis=0), np.max(highs[point], axis=0)) for point in points}


def measure_moments(model: Path, points: Sequence[str], texts: Iterable[str]) -> dict[str, Moments]:
    """Runs the model on texts and returns the moments of every point, summed over all tokens.

    Args:
        model: The model in floats, beside the embeddings and the tokenizer.
        points: Names of outputs.
        texts: What to run it on.
    """
    found: dict[str, Moments] = {}
    waiting: dict[str, list[Floats]] = {point: [] for point in points}

    def sum_up() -> None:
        for point, rows in waiting.items():
            values = np.concatenate(rows)
            with_one = np.append(values, np.ones((len(values), 1), np.float32), axis=1)
            found[point] = found.get(point, 0) + (with_one.T @ with_one).astype(np.float64)
            rows.clear()

    for number, graph in enumerate(_runs(model, texts), 1):
        for point in points:
            waiting[point].append(_rows(graph, point).copy())
        # Few large products take far less time than many small ones.
        if number % _TEXTS_SUMMED == 0:
            sum_up()
    if waiting[points[0]]:
        sum_up()
    return found


def _runs(model: Path, texts: Iterable[str]) -> Iterator[CompiledGraph]:
    """Yields the graph after each text."""
    tokenizer, embeddings = open_tokenizer(model.parent / TOKENIZER), Embeddings(model.parent)
    core = open_core()
    graph = CompiledGraph(core, core.read_model(model), None)
    for text in texts:
        graph.run(embeddings.of(tokenizer.encode(text).ids))
        yield graph


def _rows(graph: CompiledGraph, point: str) -> Floats:
    value = graph.output(point)
    return value.reshape(-1, value.shape[-1])
