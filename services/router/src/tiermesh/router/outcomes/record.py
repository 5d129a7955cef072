"""From the trail of a request that has ended to the record of its outcome: a pure function of values."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.duration_pb2 import Duration
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.call import Call
from tiermesh.router.escalation.confidence import Judgement
from tiermesh.router.escalation.gates import SKIPPED_PREFIX
from tiermesh.router.facts import facts_of
from tiermesh.router.outcomes.trail import Trail
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.policy.task_types import task_type_value
from tiermesh.router.telling.label import cache_status_name
from tiermesh.router.tiers.tier_attempt import REJECTED, TIMEOUT
from tiermesh.shared.config import TierConfig, TiermeshConfig
from tiermesh.shared.outcomes import SCHEMA_VERSION

MAX_TEXT_CHARS = 100_000
"""Prompts and answers that are longer together are not kept."""
_EXPLORED = "explored:"
_PASSED_OVER, _BUSY = "explored", "backlogged"
"""Verdicts on a tier that would have been first."""
_GIVEN_UP = frozenset({REJECTED, TIMEOUT})


def make_outcome(call: Call, *, outcome: str, total_s: float, arrived: float) -> record_pb2.Outcome:
    """Returns the record of a request.

    Args:
        call: The request, with its trail.
        outcome: `ok`, `cancelled`, or the reason it failed for.
        total_s: Seconds from its arrival to its end.
        arrived: When it arrived, in seconds since the Unix epoch.
    """
    config, trail = call.snapshot.config, call.trail
    record = record_pb2.Outcome(
        schema_version=SCHEMA_VERSION,
        request_id=call.caller.request_id,
        tenant=call.caller.tenant,
        trace_id=call.trace_id,
        config_version=call.snapshot.version,
        sample_rate=config.outcomes.sample,
        features=_features(call),
        tries=[_try(attempt, judgement, config) for attempt, judgement in trail.tries],
    )
    record.arrived.FromNanoseconds(round(arrived * 1e6) * 1000)
    if trail.decision is not None:
        record.decision.CopyFrom(_decision(trail, trail.decision, exploration=config.balance.exploration))
    _fill_result(record.result, trail, outcome, total_s)
    record.result.cost = sum(each.cost for each in record.tries)
    if config.outcomes.keep_text:
        _fill_text(record, call)
    return record


def _features(call: Call) -> record_pb2.RequestFeatures:
    request, trail = call.request, call.trail
    facts = facts_of(request) if trail.decision is None else None
    features = record_pb2.RequestFeatures(
        prompt_token_count=facts.prompt_tokens if facts else 0,
        max_token_count=request.sampling.max_tokens,
        message_count=len(request.messages),
        has_tools=any(m.tool_calls or m.role == chat_pb2.ROLE_TOOL for m in request.messages),
        model=request.model,
        priority=request.priority,
    )
    if trail.decision is not None:
        decision = trail.decision
        features.task_type = task_type_value(decision.task_type)
        features.complexity = decision.complexity
        features.source = decision.source
        features.prompt_token_count = decision.prompt_tokens
        if decision.confidence is not None:
            features.confidence = decision.confidence
    elif trail.label is not None:
        # A cached answer: what was thought of the request when the answer was made.
        features.task_type, features.complexity = trail.label.task_type, trail.label.complexity
    judged = trail.judgement
    if judged is not None:
        features.rules.extend(judged.rules)
        features.languages.extend(judged.languages)
        features.expected_output_token_count = judged.expected_output_token_count
        features.model_version = judged.model_version
        features.measures.update(judged.features)
        if judged.HasField("small_right_probability"):
            features.small_right_probability = judged.small_right_probability
        if judged.HasField("large_right_probability"):
            features.large_right_probability = judged.large_right_probability
    return features


def _decision(trail: Trail, decision: Decision, *, exploration: float) -> record_pb2.Decision:
    explored = any(reason.startswith(_EXPLORED) for reason in decision.reasons)
    chances = trail.probabilities
    if chances is None:
        chances = first_probabilities(decision, exploration=exploration, explored=explored)
    first = decision.candidates[0].name if decision.candidates else ""
    record = record_pb2.Decision(
        propensity=chances.get(first, 0.0),
        policy=trail.policy,
        policy_version=trail.policy_version,
        pinned=decision.pinned,
        explored=explored,
        lane=decision.lane,
        reasons=trail.label.reasons if trail.label is not None else decision.reasons,
        shadows=trail.shadows,
    )
    for tier in decision.candidates:
        candidate = record.candidates.add(
            tier=tier.name, probability=chances.get(tier.name, 0.0), last_resort=tier.name in decision.last_resort
        )
        if tier.name in trail.expected:
            candidate.expected_reward = trail.expected[tier.name]
    return record


def first_probabilities(decision: Decision, *, exploration: float, explored: bool) -> Mapping[str, float]:
    """Returns with which probability `balance.exploration` puts each candidate first, the state of tiers being as it was.

    It passes the best tier over once in so many requests, for the next that is strong enough.
    """
    if not decision.candidates:
        return {}
    first = decision.candidates[0]
    strong = [tier.name for tier in decision.candidates if tier.name not in decision.last_resort]
    passed = {verdict.reason: verdict.tier for verdict in decision.verdicts}
    if exploration <= 0 or decision.pinned or len(strong) < 2:
        return {first.name: 1.0}
    if explored:
        return {first.name: exploration, passed.get(_PASSED_OVER, strong[1]): 1.0 - exploration}
    if first.name in decision.last_resort and not decision.degraded:
        # Nothing was random: there is no choice above what the request needs.
        return {first.name: 1.0}
    if _BUSY in passed and not decision.degraded:
        # It was spilled to the tier that exploring would have led to as well.
        return {first.name: 1.0}
    # Exploring would have led to the next that is strong enough.
    return {first.name: 1.0 - exploration, strong[1]: exploration}


def _try(attempt: router_pb2.Attempt, judgement: Judgement | None, config: TiermeshConfig) -> record_pb2.Try:
    found = record_pb2.Try(
        tier=attempt.tier,
        outcome=attempt.outcome,
        usage=attempt.usage,
        cost=cost_of(attempt.usage, config.tier(attempt.tier)),
        objection=attempt.objection,
    )
    if attempt.HasField("confidence"):
        found.confidence = attempt.confidence
    if judgement is not None and judgement.features is not None:
        seen = judgement.features
        found.logprobs.mean_logprob = seen.mean_logprob
        found.logprobs.worst_window_logprob = seen.worst_window_logprob
        found.logprobs.mean_margin = seen.mean_margin
    return found


def cost_of(usage: answer_pb2.Usage, tier: TierConfig) -> float:
    """Returns what tokens of a tier cost, in the currency of the configured prices."""
    return (usage.prompt_token_count * tier.price_in + usage.completion_token_count * tier.price_out) / 1e6


def _fill_result(result: record_pb2.Result, trail: Trail, outcome: str, total_s: float) -> None:
    label, end, revision = trail.label, trail.end, trail.revision
    result.outcome = outcome
    result.total.CopyFrom(_duration(total_s))
    result.escalated = any(attempt.outcome in _GIVEN_UP for attempt, _ in trail.tries[:-1])
    if label is not None:
        result.tier, result.model, result.simulated = label.tier, label.model, label.simulated
        result.cache = cache_status_name(label.cache_status)
    if revision is not None:
        result.tier, result.model, result.simulated = revision.tier, revision.model, revision.simulated
        result.revised = True
    reasons = [*(label.reasons if label is not None else ()), *(end.reasons if end is not None else ())]
    skipped = [reason for reason in reasons if reason.startswith(SKIPPED_PREFIX)]
    if skipped:
        result.escalation_skipped = skipped[-1].removeprefix(SKIPPED_PREFIX)
    for attempt, _ in trail.tries:
        usage = attempt.usage
        result.usage.prompt_token_count += usage.prompt_token_count
        result.usage.completion_token_count += usage.completion_token_count
        result.usage.cached_prompt_token_count += usage.cached_prompt_token_count
    if end is not None:
        result.time_to_first_token.CopyFrom(_duration(end.ttft_s))
        result.finishes.extend(end.finishes if revision is None else revision.finishes)


def _fill_text(record: record_pb2.Outcome, call: Call) -> None:
    """Adds prompt and answer of a complete request; the log takes personal data out before it writes."""
    trail = call.trail
    if trail.end is None:
        return
    if trail.revision is not None:
        answers = list(trail.revision.texts)
    else:
        pieces: list[list[str]] = [[] for _ in range(max(1, call.request.sampling.choice_count))]
        for delta in trail.deltas:
            pieces[delta.choice_index].append(delta.text)
        answers = ["".join(choice) for choice in pieces]
    length = sum(len(m.content) for m in call.request.messages) + sum(map(len, answers))
    if length <= MAX_TEXT_CHARS:
        record.text.messages.extend(call.request.messages)
        record.text.answers.extend(answers)


def _duration(seconds: float) -> Duration:
    nanos = max(0, round(seconds * 1e9))
    return Duration(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)
