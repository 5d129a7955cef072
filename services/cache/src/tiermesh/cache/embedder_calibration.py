"""Finds out how large values get inside the embedding model. Only fetching needs this."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
from tiermesh.cache.adapters.openvino_embedder import CompiledGraph, Embeddings, open_core, open_tokenizer
from tiermesh.cache.embedder_files import TOKENIZER
from tiermesh.cache.embedder_graph import Range

_TOGETHER = 6
"""Texts that are also asked as one, for values that long texts alone have."""


def calibration_texts() -> list[str]:
    """Returns English questions, and long texts made of some of them."""
    lines = (files("tiermesh.cache") / "embedder_calibration.txt").read_text(encoding="utf-8").splitlines()
    return lines + [" ".join(lines[begin : begin + _TOGETHER]) for begin in range(0, len(lines), _TOGETHER)]


def measure_ranges(model: Path, points: list[str], texts: list[str]) -> dict[str, Range]:
    """Runs the model on texts and returns the range of every point.

    Args:
        model: The model in floats, beside the embeddings and the tokenizer.
        points: Names of outputs.
        texts: What to run it on.
    """
    tokenizer, embeddings = open_tokenizer(model.parent / TOKENIZER), Embeddings(model.parent)
    core = open_core()
    graph = CompiledGraph(core, core.read_model(model), None)
    lows: dict[str, list[np.ndarray]] = {point: [] for point in points}
    highs: dict[str, list[np.ndarray]] = {point: [] for point in points}
    for text in texts:
        graph.run(embeddings.of(tokenizer.encode(text).ids))
        for point in points:
            value = graph.output(point)
            rows = value.reshape(-1, value.shape[-1])
            lows[point].append(rows.min(axis=0))
            highs[point].append(rows.max(axis=0))
    return {point: Range(np.min(lows[point], axis=0), np.max(highs[point], axis=0)) for point in points}
