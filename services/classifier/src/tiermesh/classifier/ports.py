"""What the classifier can be given besides its rules."""

from __future__ import annotations

from typing import Protocol

from tiermesh.classifier.features import Features
from tiermesh.classifier.judgement import Judgement


class LearntModel(Protocol):
    """A model that judges what no rule is sure of. None is shipped yet; without one, rules decide alone."""

    @property
    def version(self) -> str:
        """Identifies the weights, for logs and cache keys."""
        ...

    def judge(self, features: Features) -> Judgement | None:
        """Judges a conversation within a few milliseconds, or None where it cannot say. Never raises."""
        ...
