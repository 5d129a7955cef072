"""The learnt model: asked about what the rules are not sure of."""

from importlib.resources import files

from tiermesh.classifier.model.linear import LinearModel, Prediction
from tiermesh.classifier.model.weights import ModelUnusable, Weights, load_weights

__all__ = ["LinearModel", "ModelUnusable", "Prediction", "Weights", "load_builtin", "load_weights"]


def load_builtin() -> Weights:
    """Reads the weights that come with the package.

    Raises:
        ModelUnusable: they are missing or damaged.
    """
    return load_weights(files(__name__) / "builtin")
