"""The weights of all-MiniLM-L6-v2, read from its export. Only fetching needs this, and `onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from tiermesh.cache.embedder_files import EMBEDDINGS, MAX_TOKENS

Weights = Mapping[str, NDArray[Any]]
_ROOT = "inner."
_WORDS = _ROOT + "embeddings.word_embeddings.weight"


def read_weights(exported: Path) -> Weights:
    """Returns the weights in floats, by the names that they have in the original.

    Products, whose weights an export does not name, are named after their bias.

    Args:
        exported: The export with int8 weights: each is cast, then multiplied by its scale.
    """
    graph = onnx.load(str(exported)).graph
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made_by = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type in {"Cast", "Mul"} and all(name in found for name in node.input):
            values = [found[name].astype(np.float32) for name in node.input]
            found[node.output[0]] = values[0] if node.op_type == "Cast" else values[0] * values[1]
    for node in graph.node:
        for bias, product in (node.input, node.input[::-1]) if node.op_type == "Add" else ():
            source = made_by.get(product)
            if bias.endswith(".bias") and source is not None and source.op_type == "MatMul":
                found[bias.removesuffix("bias") + "weight"] = found[source.input[1]]
    return {name.removeprefix(_ROOT): value for name, value in found.items()}


def write_embeddings(weights: Weights, folder: Path) -> None:
    """Writes the embeddings of words, int8 as the export has them, and of places and the first token type."""
    places = weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
    kind = weights["embeddings.token_type_embeddings.weight"][0]
    words = _WORDS.removeprefix(_ROOT)
    np.savez(
        folder / EMBEDDINGS,
        words=weights[words + "_q"],
        word_scales=weights[words + "_scale"].astype(np.float32),
        places=(places + kind).astype(np.float32),
    )
