"""The embedding model's graph, written anew for what it is used for: one text at a time.

One text needs no padding, so it needs no attention mask; and no second sentence, so the embedding of
the first one's token type goes into those of the positions. Queries, keys and values are one product
instead of three; attention multiplies them where they lie, one head after another, and lays out anew only
what it found; what scores are divided by is in the weights; GELU is its usual approximation by tanh, whose
error is lost in that of int8; mean and norm are part of the graph. Together that saves a quarter of
the time of an exported graph.

Only fetching needs this, and `onnx`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tiermesh.cache.embedder_files import INPUT, MAX_TOKENS

OUTPUT = "embedding"
_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_EPSILON = 1e-12
_ORT = "com.microsoft"
_ROOT = "inner."
Weights = Mapping[str, NDArray[np.float32]]


def write_compact(exported: Path, compact: Path) -> None:
    """Writes the model anew.

    Args:
        exported: all-MiniLM-L6-v2 as exported to ONNX with weights in floats.
        compact: Where to write it. Its input is `INPUT`, int64 of shape (1, tokens), at most `MAX_TOKENS` of
            them; its output `OUTPUT`, floats of shape (1, 384), normalised.

    Raises:
        KeyError: `exported` is another model.
    """
    model = onnx.load(str(exported))
    graph = _Graph(_weights_of(model))
    inputs = [helper.make_tensor_value_info(INPUT, onnx.TensorProto.INT64, [1, "tokens"])]
    outputs = [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, [1, _WIDTH])]
    graph.build()
    made = helper.make_model(
        helper.make_graph(graph.nodes, "all-minilm-l6-v2", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_ORT, 1)],
        ir_version=8,
    )
    onnx.save(made, str(compact))


def _weights_of(model: Any) -> dict[str, NDArray[np.float32]]:
    """Returns the weights by their names; those of products, which an export does not name, by their bias's."""
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    made_by = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        for bias, product in (node.input, node.input[::-1]) if node.op_type == "Add" else ():
            source = made_by.get(product)
            if bias.endswith(".bias") and source is not None and source.op_type == "MatMul":
                found[bias.removesuffix("bias") + "weight"] = found[source.input[1]]
    return {name.removeprefix(_ROOT): value for name, value in found.items()}


class _Graph:
    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def build(self) -> None:
        """Adds everything from the token numbers to the normalised mean."""
        places = self._weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        words = self._constant("words", self._weights["embeddings.word_embeddings.weight"])
        word = self._node("Gather", [words, INPUT], "word")
        zero = self._constant("zero", np.array([0], np.int64))
        count = self._node("Shape", [INPUT], "count", start=1, end=2)
        place = self._node("Slice", [self._constant("places", places + kind), zero, count, zero], "place")
        state = self._normal(self._node("Add", [word, place], "embedded"), "embeddings.LayerNorm", "state")
        self._constant("by_head", np.array([-1, 3 * _HEADS, _WIDTH // _HEADS], np.int64))
        self._constant("thirds", np.array([_HEADS] * 3, np.int64))
        self._constant("joined", np.array([1, -1, _WIDTH], np.int64))
        for number in range(_LAYERS):
            state = self._layer(state, f"encoder.layer.{number}.", f"l{number}_")
        mean = self._node("ReduceMean", [state], "mean", axes=[1], keepdims=0)
        self._node("LpNormalization", [mean], OUTPUT, axis=-1, p=2)

    def _layer(self, state: str, source: str, name: str) -> str:
        attended = self._attention(state, f"{source}attention.self.", name)
        state = self._residual(attended, state, f"{source}attention.output.", name + "attention_")
        wide = self._product(state, f"{source}intermediate.dense.", name + "wide")
        bias = self._constant(name + "wide_bias", self._weights[f"{source}intermediate.dense.bias"])
        biased = self._node("Add", [wide, bias], name + "wide_biased")
        active = self._node("FastGelu", [biased], name + "active", domain=_ORT)
        return self._residual(active, state, f"{source}output.", name + "output_")

    def _attention(self, state: str, source: str, name: str) -> str:
        """Adds attention over (tokens, heads, width), so that nothing but its result is ever laid out anew."""
        # What scores are divided by goes into the queries' weights.
        scales = [np.float32((_WIDTH // _HEADS) ** -0.5), np.float32(1), np.float32(1)]
        weights, biases = (
            [
                self._weights[f"{source}{part}.{kind}"] * scale
                for part, scale in zip(("query", "key", "value"), scales, strict=True)
            ]
            for kind in ("weight", "bias")
        )
        weight = self._constant(name + "qkv_weight", np.concatenate(weights, axis=1))
        bias = self._constant(name + "qkv_bias", np.concatenate(biases))
        product = self._node("Add", [self._node("MatMul", [state, weight], name + "qkv"), bias], name + "qkv_biased")
        heads = self._node("Reshape", [product, "by_head"], name + "heads")
        query, key, value = (name + part for part in ("query", "key", "value"))
        self.nodes.append(
            helper.make_node("Split", [heads, "thirds"], [query, key, value], name=name + "split", axis=1)
        )
        scores = self._fused(query, key, name + "scores", transBatchA=1, transBatchB=1, transB=1)
        shares = self._node("Softmax", [scores], name + "shares", axis=-1)
        found = self._fused(shares, value, name + "found", transBatchB=1)
        return self._node(
            "Reshape",
            [self._node("Transpose", [found], name + "by_token", perm=[1, 0, 2]), "joined"],
            name + "attended",
        )

    def _fused(self, one: str, other: str, name: str, **attributes: int) -> str:
        return self._node("FusedMatMul", [one, other], name, domain=_ORT, **attributes)

    def _residual(self, value: str, state: str, source: str, name: str) -> str:
        product = self._product(value, source + "dense.", name + "dense")
        bias = self._constant(name + "bias", self._weights[source + "dense.bias"])
        biased = self._node("Add", [product, bias], name + "biased")
        return self._normal(self._node("Add", [biased, state], name + "sum"), source + "LayerNorm", name + "normal")

    def _product(self, value: str, source: str, name: str) -> str:
        return self._node("MatMul", [value, self._constant(name + "_weight", self._weights[source + "weight"])], name)

    def _normal(self, value: str, source: str, name: str) -> str:
        # Names that the quantizer does not give.
        gain = self._constant(name + "_gain", self._weights[source + ".weight"])
        offset = self._constant(name + "_offset", self._weights[source + ".bias"])
        return self._node("LayerNormalization", [value, gain, offset], name, axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output
