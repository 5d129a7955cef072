"""What an engine is asked, for one request and tier."""

from __future__ import annotations

from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.router.call import Call
from tiermesh.router.tiers.tier_attempt import TOP_LOGPROBS
from tiermesh.shared.canonical import canonical_messages
from tiermesh.shared.config import TierConfig
from tiermesh.shared.dynamic import engine_messages


def engine_request(call: Call, tier: TierConfig, *, judged: bool) -> engine_pb2.GenerateRequest:
    """Returns the request to an engine.

    Args:
        call: The request.
        tier: Tier to ask; its answer limit counts.
        judged: Whether the answer is to be judged, for which the engine tells log-probabilities.
    """
    dynamic, messages = call.snapshot.config.dynamic_fields, call.request.messages
    request = engine_pb2.GenerateRequest(
        request_id=f"{call.caller.request_id}/{tier.name}",
        tenant=call.caller.tenant,
        messages=canonical_messages(engine_messages(messages, dynamic) if dynamic else messages),
        sampling=call.request.sampling,
        priority=call.request.priority or chat_pb2.PRIORITY_INTERACTIVE,
    )
    sampling = request.sampling
    asked = (
        sampling.max_tokens if sampling.HasField("max_tokens") else call.snapshot.config.router.default_answer_tokens
    )
    sampling.max_tokens = min(asked, tier.answer_tokens)
    if judged:
        sampling.logprobs = True
        sampling.top_logprob_count = max(TOP_LOGPROBS, sampling.top_logprob_count)
    return request
