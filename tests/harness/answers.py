"""Answers to file in a cache."""

from __future__ import annotations

import hashlib

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2


def make_answer(*pieces: str, **fields: object) -> cache_pb2.CachedAnswer:
    """Returns a complete answer of one choice."""
    return cache_pb2.CachedAnswer(
        **{
            "tier": "l1",
            "model": "smollm2",
            "deltas": [answer_pb2.Delta(text=piece, token_ids=[n, n + 1]) for n, piece in enumerate(pieces)],
            "finishes": [answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)],
            "usage": answer_pb2.Usage(prompt_token_count=12, completion_token_count=len(pieces)),
            "task_type": "faq",
            **fields,
        }
    )


def fingerprint(text: str) -> bytes:
    """Returns a SHA-256, as canonical requests have."""
    return hashlib.sha256(text.encode()).digest()


def make_key(text: str = "question", tenant: str = "local") -> cache_pb2.CacheKey:
    """Returns what an answer is filed under."""
    return cache_pb2.CacheKey(tenant=tenant, fingerprint=fingerprint(text))
