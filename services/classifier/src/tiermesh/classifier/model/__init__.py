"""The learnt model: asked about what the rules are not sure of."""

from importlib.resources import files
from pathlib import Path

from tiermesh.classifier.model.batching import BatchedModel, Predictor
from tiermesh.classifier.model.linear import LinearModel
from tiermesh.classifier.model.weights import ModelUnusable, Weights, load_weights

__all__ = [
    "BatchedModel",
    "LinearModel",
    "ModelUnusable",
    "Predictor",
    "Weights",
    "load_builtin",
    "load_weights",
    "open_model",
]


def load_builtin() -> Weights:
    """Reads the weights that come with the package.

    Raises:
        ModelUnusable: they are missing or damaged.
    """
    return load_weights(files(__name__) / "builtin")


def open_model(name: str, *, timeout_s: float) -> BatchedModel | None:
    """Opens the model that a configuration names.

    Args:
        name: `off`, `builtin`, or a folder written by `make train-classifier`.
        timeout_s: Longest that one request waits for it.

    Returns:
        None for `off`.

    Raises:
        ModelUnusable: its weights are missing, damaged, or of another format.
    """
    if name == "off":
        return None
    weights = load_builtin() if name == "builtin" else load_weights(Path(name))
    return BatchedModel(LinearModel(weights), timeout_s=timeout_s)
