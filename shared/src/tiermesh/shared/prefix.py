"""The shared prefix of a conversation, by which its turns find the replica that has their KV cache.

An engine's prefix cache helps only at the replica where the earlier turn was, so requests that begin
alike should go to one replica. They begin alike up to the first answer at least: every later turn of
a conversation repeats the system prompt and the first question. Of that, the beginning decides, so that
questions about one long document go together, too. What varies with every request has been moved behind
a delimiter before (`tiermesh.shared.dynamic`) and does not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.shared.canonical import canonical_text
from tiermesh.shared.dynamic import DELIMITER

PREFIX_CHARS = 1024
"""Characters that decide, some two hundred tokens: a dozen blocks of a prefix cache."""
_DIGEST_BYTES = 8


def shared_prefix(messages: Iterable[chat_pb2.Message]) -> str:
    """Returns the digest of a conversation's beginning, 16 hexadecimal digits.

    Args:
        messages: The conversation as an engine reads it.
    """
    digest, left = hashlib.blake2b(digest_size=_DIGEST_BYTES), PREFIX_CHARS
    for message in messages:
        if message.role == chat_pb2.ROLE_ASSISTANT or left <= 0:
            break
        stable = canonical_text(message.content).partition(DELIMITER)[0][:left]
        left -= len(stable)
        digest.update(f"{message.role}:{len(stable)}:".encode())
        digest.update(stable.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
