"""The embedding model's graph, written anew for what it is used for: one text at a time, in int8.

Mean and norm are part of the graph; embeddings are looked up outside. Where values are rounded to int8 is fixed when the
model is made (static quantisation): nothing looks for the largest value of a product's input while a question
waits, and a product hands int8 to the next. What scores are divided by is in the weights.

A layer's input has a few channels far larger than the others. Part of that goes into the weights, which have a scale of their own
for every channel that they make (SmoothQuant, Xiao et al. 2023, eq. 4, with its alpha of 0.5).

Only fetching needs this, and `onnx`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tiermesh.cache.embedder_files import MASK, OUTPUT, SHARE, STATE
from tiermesh.cache.embedder_weights import Weights

WIDTH, HEAD_WIDTH = 384, 32
_EPSILON = 1e-12
_ALPHA = 0.5
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest and largest values seen at a point of the graph, one for each channel."""

    low: Floats
    high: Floats


def attended(layer: int) -> str:
    """Returns the point of the graph where a layer's heads have found what they look for."""
    return f"l{layer}_attended"


def active(layer: int) -> str:
    """Returns the point of the graph after the wide part of a layer."""
    return f"l{layer}_active"


def write_float(weights: Weights, path: Path) -> list[str]:
    """Writes the model in floats; returns the points that int8 needs ranges of, which are outputs too."""
    graph = _Graph(weights, None)
    graph.build()
    graph.write(path, outputs=[OUTPUT, *graph.points])
    return graph.points


def write_int8(weights: Weights, ranges: Mapping[str, Range], path: Path) -> None:
    """Writes the model in int8, with the ranges of every point of `write_float`."""
    graph = _Graph(weights, ranges)
    graph.build()
    graph.write(path, outputs=[OUTPUT])


class _Graph:
    def __init__(self, weights: Weights, ranges: Mapping[str, Range] | None) -> None:
        self._weights = weights
        self._ranges = ranges
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.points: list[str] = []

    def build(self) -> None:
        """Adds everything from the sum of the embeddings to the normalised mean."""
        state = self._normal(STATE, "embeddings.LayerNorm", "state")
        number = 0
        while (source := f"encoder.layer.{number}.") + "output.dense.weight" in self._weights:
            state = self._layer(state, source, number)
            number += 1
        mean = self._node("MatMul", [SHARE, state], "mean")
        self._node("LpNormalization", [mean], OUTPUT, axis=-1, p=2)

    def write(self, path: Path, *, outputs: list[str]) -> None:
        """Writes what was built."""
        shapes: dict[str, list[str | int]] = {STATE: ["tokens", WIDTH], MASK: [1, 1, 1, "tokens"], SHARE: [1, "tokens"]}
        made = helper.make_graph(
            self._nodes,
            "all-minilm-l6-v2",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self._constants,
        )
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))

    def _layer(self, state: str, source: str, number: int) -> str:
        name = f"l{number}_"
        found = self._attention(state, f"{source}attention.self.", name, attended(number))
        dense = f"{source}attention.output."
        (product,) = self._products(found, [self._of(dense + "dense")], [name + "dense"])
        state = self._residual(product, state, dense, name + "attention_")
        (wide,) = self._products(state, [self._of(f"{source}intermediate.dense")], [name + "wide"], smooth=True)
        (narrow,) = self._products(
            self._node("Gelu", [wide], active(number)), [self._of(f"{source}output.dense")], [name + "narrow"]
        )
        return self._residual(narrow, state, f"{source}output.", name + "output_")

    def _attention(self, state: str, source: str, name: str, output: str) -> str:
        # What scores are divided by goes into the queries.
        scale = np.float32(HEAD_WIDTH**-0.5)
        query_weight, query_bias = self._of(f"{source}query")
        by_head = self._constant(
            name + "by_head", np.array([1, -1, len(query_bias) // HEAD_WIDTH, HEAD_WIDTH], np.int64)
        )
        joined = self._constant(name + "joined", np.array([-1, len(query_bias)], np.int64))
        given = [(query_weight * scale, query_bias * scale), self._of(f"{source}key"), self._of(f"{source}value")]
        query, key, value = self._products(
            state, given, [name + part for part in ("query", "key", "value")], smooth=True
        )
        query, key, value = (
            self._node(
                "Transpose",
                [self._signed(self._node("Reshape", [part, by_head], part + "_heads"))],
                part + "_laid",
                perm=order,
            )
            for part, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
        )
        scores = self._node("Add", [self._node("MatMul", [query, key], name + "scores"), MASK], name + "seen")
        shares = self._share(self._node("Softmax", [scores], name + "shares", axis=-1))
        found = self._node("MatMul", [shares, value], name + "found")
        by_token = self._node("Transpose", [found], name + "by_token", perm=[0, 2, 1, 3])
        return self._node("Reshape", [by_token, joined], output)

    def _products(
        self, value: str, given: list[tuple[Floats, Floats]], names: list[str], *, smooth: bool = False
    ) -> list[str]:
        """Adds products of one value with several weights, and their biases."""
        if self._ranges is None:
            self._note(value)
            return [
                self._product(value, self._constant(name + "_weight", weight.T), bias, name)
                for (weight, bias), name in zip(given, names, strict=True)
            ]
        seen, by = self._ranges[value], np.ones(len(given[0][0]), np.float32)
        if smooth:
            by = _smoothing(seen, [weight for weight, _ in given])
            value = self._node("Mul", [value, self._constant(value + "_by", 1 / by)], value + "_smooth")
        low, high = min(float((seen.low / by).min()), 0.0), float((seen.high / by).max())
        scale = (high - low) / 255
        zero = round(-low / scale)
        # Unsigned, as the processor's products want it; that 0 is not at 0 is taken back in the biases, where it costs nothing.
        rounded = self._int8(value, scale, np.uint8(zero), back=np.uint8(0))
        found = []
        for (weight, bias), name in zip(given, names, strict=True):
            floats, seen_as = self._weight(weight * by[:, None], name)
            less = (bias - zero * scale * seen_as.sum(axis=0)).astype(np.float32)
            found.append(self._product(rounded, floats, less, name))
        return found

    def _product(self, value: str, weight: str, bias: Floats, name: str) -> str:
        return self._node("Gemm", [value, weight, self._constant(name + "_bias", bias)], name, transB=1)

    def _weight(self, weight: Floats, name: str) -> tuple[str, NDArray[np.float64]]:
        """Adds a weight in int8; returns also what its numbers stand for after rounding."""
        scales = (np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / 127).astype(np.float32)
        integers = np.rint(weight / scales).astype(np.int8)
        inputs = [
            self._constant(name + "_weight", integers.T),
            self._constant(name + "_scales", scales),
            self._constant(name + "_zeros", np.zeros(len(scales), np.int8)),
        ]
        floats = self._node("DequantizeLinear", inputs, name + "_floats", axis=0)
        return floats, integers.astype(np.float64) * scales

    def _signed(self, value: str) -> str:
        """Adds rounding to int8 with 0 in the middle."""
        if self._ranges is None:
            self._note(value)
            return value
        seen = self._ranges[value]
        largest = max(float(np.abs(seen.low).max()), float(np.abs(seen.high).max()))
        return self._int8(value, largest / 127, np.int8(0), back=np.int8(0))

    def _share(self, value: str) -> str:
        """Adds rounding of what lies between 0 and 1."""
        return value if self._ranges is None else self._int8(value, 1 / 255, np.uint8(0), back=np.uint8(0))

    def _int8(self, value: str, scale: float, zero: np.int8 | np.uint8, *, back: np.int8 | np.uint8) -> str:
        size = self._constant(value + "_scale", np.array(scale, np.float32))
        there, here = (
            self._constant(f"{value}_{name}", np.array(number)) for name, number in (("zero", zero), ("back", back))
        )
        integers = self._node("QuantizeLinear", [value, size, there], value + "_int8")
        return self._node("DequantizeLinear", [integers, size, here], value + "_rounded")

    def _note(self, point: str) -> None:
        if point not in self.points:
            self.points.append(point)

    def _of(self, source: str) -> tuple[Floats, Floats]:
        return self._weights[source + ".weight"], self._weights[source + ".bias"]

    def _residual(self, value: str, state: str, source: str, name: str) -> str:
        return self._normal(self._node("Add", [value, state], name + "sum"), source + "LayerNorm", name + "normal")

    def _normal(self, value: str, source: str, name: str) -> str:
        gain, offset = self._of(source)
        inputs = [value, self._constant(name + "_gain", gain), self._constant(name + "_offset", offset)]
        return self._node("LayerNormalization", inputs, name, axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output


def _smoothing(seen: Range, weights: list[Floats]) -> Floats:
    """Returns what each channel of an input is divided by, and its weights multiplied; 1 on (geometric) average."""
    largest = np.maximum(np.abs(seen.low), np.abs(seen.high))
    heaviest = np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0)
    by = np.maximum(largest**_ALPHA / heaviest ** (1 - _ALPHA), 1e-5)
    return np.asarray(by / np.exp(np.log(by).mean()), np.float32)
