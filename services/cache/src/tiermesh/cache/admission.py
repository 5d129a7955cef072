"""Which requests make sense, and which answers may be kept.

A wrong answer in the cache is given many times over, so only complete ones get in: every choice
ended by itself and has text. What the token limit cut off is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.common.v1 import answer_pb2
from tiermesh.cache.keys import FINGERPRINT_BYTES
from tiermesh.cache.tokens import TOKEN_BYTES
from tiermesh.shared.errors import InvalidRequest


def check_key(key: cache_pb2.CacheKey) -> None:
    """Checks what an answer is filed under.

    Raises:
        InvalidRequest: `key.tenant` is empty or `key.fingerprint` is no SHA-256.
    """
    check_tenant(key.tenant, field="key.tenant")
    check_fingerprint(key.fingerprint, field="key.fingerprint")


def check_tenant(tenant: str, *, field: str) -> None:
    """Checks that a tenant is named.

    Raises:
        InvalidRequest: it is not.
    """
    if not tenant:
        raise InvalidRequest(f"{field} is empty; every answer belongs to a tenant", field=field)


def check_fingerprint(fingerprint: bytes, *, field: str) -> None:
    """Checks the length of a fingerprint.

    Raises:
        InvalidRequest: it is not 32 bytes long.
    """
    if len(fingerprint) != FINGERPRINT_BYTES:
        raise InvalidRequest(
            f"{field} has {len(fingerprint)} bytes; it must be a SHA-256 of {FINGERPRINT_BYTES}", field=field
        )


def check_answer(answer: cache_pb2.CachedAnswer) -> None:
    """Checks that an answer is complete.

    Raises:
        InvalidRequest: it is empty, has a choice that did not end by itself, or does not fit together.
    """
    if not answer.finishes:
        raise InvalidRequest("answer.finishes is empty; only complete answers are kept", field="answer.finishes")
    text: dict[int, bool] = {}
    for number, finish in enumerate(answer.finishes):
        field = f"answer.finishes[{number}]"
        if finish.finish_reason != answer_pb2.FINISH_REASON_STOP:
            name = answer_pb2.FinishReason.Name(finish.finish_reason) if finish.finish_reason in range(3) else "unknown"
            raise InvalidRequest(
                f"{field}.finish_reason is {name}; only FINISH_REASON_STOP is kept", field=f"{field}.finish_reason"
            )
        if finish.choice_index in text:
            raise InvalidRequest(
                f"{field}.choice_index names choice {finish.choice_index} again", field=f"{field}.choice_index"
            )
        text[finish.choice_index] = False
    for number, delta in enumerate(answer.deltas):
        if delta.choice_index not in text:
            field = f"answer.deltas[{number}].choice_index"
            raise InvalidRequest(f"{field} is {delta.choice_index}, a choice that has not finished", field=field)
        text[delta.choice_index] = text[delta.choice_index] or bool(delta.text)
    empty = sorted(choice for choice, has_text in text.items() if not has_text)
    if empty:
        raise InvalidRequest(f"answer.deltas has no text for choice {empty[0]}", field="answer.deltas")


def check_ttl(ttl: Duration) -> float:
    """Returns how long an answer is to be kept, in seconds.

    Raises:
        InvalidRequest: not a positive time of at most a year.
    """
    seconds = ttl.seconds + ttl.nanos / 1e9
    if not 0.001 <= seconds <= 366 * 86_400:
        raise InvalidRequest(f"ttl is {seconds:g} s; it must be from 1 ms to a year", field="ttl")
    return seconds


MAX_BATCH = 256


def check_batch(count: int) -> None:
    """Checks how many answers come at once.

    Raises:
        InvalidRequest: there are too many.
    """
    if count > MAX_BATCH:
        raise InvalidRequest(f"requests has {count} entries; at most {MAX_BATCH} are taken", field="requests")


MAX_TAGS = 16
_MAX_TAG_CHARS = 128


def check_semantic(query: cache_pb2.SemanticQuery) -> None:
    """Checks what the semantic tier is asked.

    Raises:
        InvalidRequest: its partition is no SHA-256.
    """
    check_fingerprint(query.partition, field="semantic.partition")


def check_token(token: bytes) -> None:
    """Checks what a lookup handed out, where it is given back.

    Raises:
        InvalidRequest: it is of another length.
    """
    if token and len(token) != TOKEN_BYTES:
        raise InvalidRequest(f"token has {len(token)} bytes; give back LookupResponse.store_token", field="token")


def check_tags(tags: Sequence[str]) -> None:
    """Checks labels to invalidate by.

    Raises:
        InvalidRequest: there are too many, or one is empty, too long, or of a kind that the cache sets itself.
    """
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"tags has {len(tags)} entries; at most {MAX_TAGS} are kept", field="tags")
    for tag in tags:
        if not 0 < len(tag) <= _MAX_TAG_CHARS:
            raise InvalidRequest(f"a tag has {len(tag)} characters; 1 to {_MAX_TAG_CHARS} are allowed", field="tags")
        if tag.startswith(("model:", "prompt:")):
            raise InvalidRequest(
                "tags may not begin with `model:` or `prompt:`; use the fields of that name", field="tags"
            )
