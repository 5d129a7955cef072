"""The semantic tier as the service has it."""

from __future__ import annotations

from tiermesh.cache.adapters.openvino_embedder import OpenvinoEmbedder
from tiermesh.cache.adapters.usearch import UsearchNeighbours
from tiermesh.cache.semantic.index import QuestionIndex
from tiermesh.cache.semantic.tier import SemanticTier
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import CacheConfig


def make_tier(embedder: OpenvinoEmbedder) -> tuple[SemanticTier, QuestionIndex]:
    """Returns the tier with its default threshold, and its index, which is empty."""
    index = QuestionIndex(UsearchNeighbours, max_entries=1 << 30, clock=SYSTEM_CLOCK)
    threshold = CacheConfig().semantic_threshold
    return SemanticTier(index, embedder, threshold=threshold, task_types=frozenset({"faq"}), shadow=False), index
