"""What the classifier can be given besides its rules."""

from __future__ import annotations

from typing import Protocol

from tiermesh.classifier.features import Features
from tiermesh.classifier.prediction import Prediction, RightBasis, Unanswered


class LearntModel(Protocol):
    """A model that judges what no rule is sure of."""

    @property
    def version(self) -> str:
        """Identifies the weights, for logs and cache keys."""
        ...

    @property
    def right_basis(self) -> RightBasis:
        """What its probabilities of being right rest on."""
        ...

    async def ask(self, features: Features, *, limit_s: float) -> Prediction | Unanswered:
        """Judges a conversation within `limit_s` seconds, or says why not. Raises only CancelledError."""
        ...
