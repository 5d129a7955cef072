"""Leaves out the parts of the embedding model that its output needs least. Only fetching needs this.

What is left out are whole heads of attention and whole units of the wide layers. Both are inputs of a product whose output is
known on calibration texts, and so is what each input adds to it that the others cannot: removed is, a few at a time, what
costs least (Optimal Brain Surgeon, Hassibi and Stork 1993, with least squares in place of the Hessian; for groups
of inputs ZipLM, Kurtic et al. 2023). The product's weights and biases are then fitted anew, by ridge regression
towards the old ones, so that what is kept does the work of what is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tiermesh.cache.embedder_graph import HEAD_WIDTH, active, attended
from tiermesh.cache.embedder_weights import Weights

HEADS = (6, 8, 6, 8, 8, 12)
"""Heads that each layer keeps, of 12. Even numbers: products are made 64 wide. The last layer can spare none."""
UNITS = (1152, 1152, 1152, 1152, 1280, 1408)
"""Units that the wide part of each layer keeps, of 1536."""
_RIDGE = 1e-2
"""What is added to the mean square of an input, as a share of the average of all."""
_TOGETHER = 128
"""Units removed before costs are counted anew."""
Moments = NDArray[np.float64]
"""Sums of the products of every two inputs, the last of which is 1: symmetric, (inputs + 1, inputs + 1)."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a product's inputs, and its weights and biases then."""

    inputs: NDArray[np.int64]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


def points_of(heads: Sequence[int] = HEADS) -> list[str]:
    """Returns the points of the graph in floats whose moments `prune` needs."""
    return [name for layer in range(len(heads)) for name in (attended(layer), active(layer))]


def prune(
    weights: Weights, moments: Mapping[str, Moments], heads: Sequence[int] = HEADS, units: Sequence[int] = UNITS
) -> Weights:
    """Returns the weights of a smaller model, by the same names.

    Args:
        weights: Of the whole model.
        moments: Of `points_of`, on calibration texts.
        heads: How many each layer keeps.
        units: How many each layer keeps.
    """
    pruned = dict(weights)
    for layer, (heads_kept, units_kept) in enumerate(zip(heads, units, strict=True)):
        source = f"encoder.layer.{layer}."
        dense = source + "attention.output.dense"
        kept = choose(moments[attended(layer)], *_of(weights, dense), size=HEAD_WIDTH, count=heads_kept, together=1)
        _replace(pruned, dense, [f"{source}attention.self.{part}" for part in ("query", "key", "value")], kept)
        dense = source + "output.dense"
        kept = choose(moments[active(layer)], *_of(weights, dense), size=1, count=units_kept, together=_TOGETHER)
        _replace(pruned, dense, [source + "intermediate.dense"], kept)
    return pruned


def choose(
    moments: Moments, weight: NDArray[np.float32], bias: NDArray[np.float32], *, size: int, count: int, together: int
) -> Kept:
    """Returns what to keep of a product's inputs.

    Args:
        moments: Of the inputs.
        weight: Of the product, (inputs, outputs).
        bias: Of the product, (outputs,).
        size: Inputs that go together, one after another.
        count: How many such groups to keep.
        together: Groups to remove at a time.
    """
    inputs = len(weight)
    ridge = np.append(np.full(inputs, _RIDGE * np.trace(moments[:inputs, :inputs]) / inputs), 0.0)
    square = moments + np.diag(ridge)
    wanted = square @ np.vstack([weight, bias]).astype(np.float64)
    groups = np.arange(inputs).reshape(-1, size)
    while True:
        rows = np.append(groups.ravel(), inputs)
        inverse = np.linalg.inv(square[np.ix_(rows, rows)])
        fitted = inverse @ wanted[rows]
        if len(groups) <= count:
            return Kept(rows[:-1], fitted[:-1].astype(np.float32), fitted[-1].astype(np.float32))
        cheap = np.argsort(_costs(inverse, fitted, size), kind="stable")[: min(together, len(groups) - count)]
        groups = np.delete(groups, cheap, axis=0)


def _costs(inverse: Values, fitted: Values, size: int) -> Values:
    """Returns by how much the squared error grows without each group, whatever is then fitted anew."""
    count = (len(fitted) - 1) // size
    blocks = np.stack([inverse[n * size : (n + 1) * size, n * size : (n + 1) * size] for n in range(count)])
    theirs = fitted[:-1].reshape(count, size, -1)
    costs: Values = (theirs * np.linalg.solve(blocks, theirs)).sum(axis=(1, 2))
    return costs


def _replace(pruned: dict[str, NDArray[np.float32]], product: str, makers: list[str], kept: Kept) -> None:
    for maker in makers:
        weight, bias = _of(pruned, maker)
        pruned[maker + ".weight"], pruned[maker + ".bias"] = weight[:, kept.inputs], bias[kept.inputs]
    pruned[product + ".weight"], pruned[product + ".bias"] = kept.weight, kept.bias


def _of(weights: Weights, product: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return weights[product + ".weight"], weights[product + ".bias"]
