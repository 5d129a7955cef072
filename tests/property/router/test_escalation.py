"""What holds of every way through the tiers, whatever engines do, and of gates and rankings for any state of tiers."""

import asyncio
from collections import Counter
from contextlib import aclosing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import INVALID_SPAN
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.engine.v1 import engine_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.caching.store_queue import StoreQueue
from tiermesh.router.call import Call, Caller
from tiermesh.router.deciding import Deciding
from tiermesh.router.escalation.gates import Target, pass_gates
from tiermesh.router.escalation.quota import EscalationQuota
from tiermesh.router.events import Completed
from tiermesh.router.flow import RequestFlow
from tiermesh.router.generation import Generation
from tiermesh.router.policy.ranking import TierView, rank
from tiermesh.router.settings import make_snapshot
from tiermesh.router.telling.account import Account, ledger_message
from tiermesh.router.tiers.breakers import Breakers
from tiermesh.router.tiers.estimates import TierEstimates
from tiermesh.router.tiers.health import TierHealth
from tiermesh.router.tiers.loads import TierLoads
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import BalanceConfig, TierConfig, parse_config
from tiermesh.shared.errors import (
    BudgetExhausted,
    ContextTooLong,
    InternalError,
    NotApplicable,
    QueueFull,
    TiermeshError,
    Unavailable,
)

NAMES = ("l1", "l2", "l3")
ERRORS = {
    "gone": Unavailable("gone"),
    "full": QueueFull("busy", retry_after=1.0),
    "long": ContextTooLong("too long"),
    "declines": NotApplicable("no rule"),
    "hopeless": BudgetExhausted("would take 40 s"),
    "defect": InternalError("bug"),
}
TEXTS = {
    "good": [f"w{n} " for n in range(20)],
    "short": ["ok"],
    "loops": ["no "] * 20,
    "refuses": ["I cannot ", "answer that."],
    "mute": [],
}
behaviour = st.one_of(
    st.sampled_from([*TEXTS, *ERRORS]),
    # Breaks off after so many pieces, with or without an error, or tells of its own failure.
    st.tuples(st.sampled_from(["breaks", "ends", "fails"]), st.integers(0, 20)),
)


class Pool:
    """Engines that follow a script, and notice when two of them run at once."""

    def __init__(self, scripts):
        self.scripts, self.called, self.open, self.overlapped = scripts, [], 0, False

    async def generate(self, tier, request, *, budget):
        self.called.append(tier)
        self.overlapped |= self.open > 0
        self.open += 1
        try:
            async for event in self._events(tier, self.scripts[tier], scored=request.sampling.logprobs):
                await asyncio.sleep(0)
                yield event
        finally:
            self.open -= 1

    async def _events(self, tier, script, *, scored):
        if script in ERRORS:
            raise ERRORS[script]
        yield engine_pb2.GenerateResponse(started=engine_pb2.Started(model="m", prompt_token_count=5))
        kind, count = script if isinstance(script, tuple) else ("", 0)
        words = TEXTS["good"][:count] if kind else TEXTS[script]
        for word in words:
            token = answer_pb2.TokenLogprob(token=word, logprob=-0.01)
            delta = answer_pb2.Delta(text=word, token_ids=[int(tier[1])], logprobs=[token] if scored else [])
            yield engine_pb2.GenerateResponse(delta=delta)
        if kind == "breaks":
            raise Unavailable("connection lost")
        if kind == "fails":
            yield engine_pb2.GenerateResponse(failure=answer_pb2.Failure(reason="DEVICE_FAILED", message="x"))
            raise ERRORS["gone"]
        if kind == "ends":
            return
        finish = answer_pb2.ChoiceFinish(finish_reason=answer_pb2.FINISH_REASON_STOP)
        usage = answer_pb2.Usage(prompt_token_count=5, completion_token_count=len(words))
        yield engine_pb2.GenerateResponse(done=engine_pb2.Done(finishes=[finish], usage=usage))


class Neighbours:
    """A cache that keeps nothing but what it was given, and a classifier."""

    def __init__(self, confidence):
        self.confidence, self.stored = confidence, []

    async def lookup(self, place, *, budget, token_only=False):
        return cache_pb2.LookupResponse(result=cache_pb2.CACHE_RESULT_MISS)

    async def store(self, answers, *, budget):
        self.stored.extend(each.answer for each in answers)
        return len(answers)

    async def classify(self, request, *, budget):
        return classifier_pb2.ClassifyResponse(
            task_type=classifier_pb2.TASK_TYPE_QA, complexity=0.3, confidence=self.confidence, source="rules"
        )


async def answer(scripts, *, confidence, progressive, quota, seconds):
    tiers = [{"name": name, "backend": "vllm", "model": name} for name in NAMES]
    config = parse_config({"tenants": [{"name": "a", "key_env": "K"}], "tiers": tiers}, Path("/x/mesh.yaml"))
    clock, pool, near = SYSTEM_CLOCK, Pool(scripts), Neighbours(confidence)
    bucket = EscalationQuota(burst=1)
    if not quota:
        bucket.take()
    watch = TierWatch(TierHealth(clock), TierLoads(clock), TierEstimates(clock), bucket, Breakers(clock))
    stores = StoreQueue(near, clock)
    generation = Generation(engines=pool, watch=watch, stores=stores, clock=clock)
    flow = RequestFlow(cache=near, deciding=Deciding(near, watch), generation=generation, watch=watch, clock=clock)
    caller = Caller("a", "req", "", Budget.of(seconds, clock), clock.monotonic())
    request = router_pb2.GenerateRequest(
        messages=[chat_pb2.Message(role=chat_pb2.ROLE_USER, content="What?")], progressive=progressive
    )
    snapshot = make_snapshot(config, rules=b"", loaded_at=0)
    call = Call(caller, request, snapshot, "", INVALID_SPAN, Account(caller.budget, caller.arrived, clock))
    events, error = [], None
    try:
        async with aclosing(flow.answer(call)) as source:
            async for event in source:
                events.append(event)
    except TiermeshError as failure:
        error = failure
    await stores.drain()
    return events, error, pool, near, ledger_message(call.account.close())


@settings(max_examples=150)
@given(
    scripts=st.fixed_dictionaries(dict.fromkeys(NAMES, behaviour)),
    confidence=st.sampled_from([0.1, 0.9]),
    progressive=st.booleans(),
    quota=st.booleans(),
    seconds=st.sampled_from([0.2, 30.0]),
)
def test_no_way_through_the_tiers_breaks_a_promise(scripts, confidence, progressive, quota, seconds):
    events, error, pool, near, ledger = asyncio.run(
        answer(scripts, confidence=confidence, progressive=progressive, quota=quota, seconds=seconds)
    )
    assert max(Counter(pool.called).values(), default=0) <= 1
    assert not pool.overlapped, "a tier was asked before the one before it had been let go"
    assert pool.open == 0
    labels = [event for event in events if isinstance(event, router_pb2.RouteLabel)]
    deltas = [event for event in events if isinstance(event, answer_pb2.Delta)]
    ends = [event for event in events if isinstance(event, Completed)]
    assert len(labels) <= 1
    assert (error is None) == (len(ends) == 1)
    if events:
        assert events[0] is labels[0]
        assert {f"l{token}" for delta in deltas for token in delta.token_ids} <= {labels[0].tier}
        assert not any(delta.logprobs for delta in deltas)
    if ends:
        (end,) = ends
        assert events[-1] is end
        assert end.usage.completion_token_count == sum(a.usage.completion_token_count for a in end.attempts)
        assert end.usage.prompt_token_count == sum(a.usage.prompt_token_count for a in end.attempts)
        assert [a.tier for a in end.attempts] == pool.called
        reasons = [*labels[0].reasons, *end.reasons]
        if any(reason.startswith("escalation_skipped") for reason in reasons):
            assert not near.stored
    else:
        assert not near.stored
    parts = [value.ToNanoseconds() / 1e6 for _, value in ledger.parts.ListFields()]
    assert abs(sum(parts) - ledger.total.ToNanoseconds() / 1e6) <= 5
    assert [hop.tier for hop in ledger.hops if hop.name == "engine"] == pool.called


target = st.builds(
    Target, st.sampled_from(NAMES), healthy=st.booleans(), has_room=st.booleans(), p95_s=st.floats(0, 10)
)


@given(st.lists(target, max_size=4, unique_by=lambda t: t.tier), st.booleans(), st.floats(0, 10), st.floats(0, 1))
def test_a_tier_gets_through_exactly_when_every_gate_is_open(targets, quota_open, left_s, margin_s):
    gates = pass_gates(targets, quota_open=quota_open, left_s=left_s, margin_s=margin_s)
    fit = [t.tier for t in targets if t.healthy and t.has_room and quota_open and t.p95_s + margin_s <= left_s]
    assert gates.tier == (fit[0] if fit else None)
    assert bool(gates.shut) == (gates.tier is None)


view = st.builds(TierView, st.none() | st.floats(0, 20), st.floats(0, 1), st.booleans())
tiers = st.lists(
    st.builds(
        TierConfig,
        name=st.sampled_from([f"t{n}" for n in range(6)]),
        backend=st.just("vllm"),
        price_in=st.floats(0, 10),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda tier: tier.name,
)


@given(
    ordered=tiers,
    strong=st.integers(0, 5),
    views=st.dictionaries(st.sampled_from([f"t{n}" for n in range(6)]), view),
    batch=st.booleans(),
    explore=st.booleans(),
    left_s=st.floats(0, 30),
)
def test_rankings_lose_no_tier_and_shed_only_batch(ordered, strong, views, batch, explore, left_s):
    weaker = frozenset(tier.name for tier in ordered[strong:])
    ranking = rank(ordered, weaker, views, balance=BalanceConfig(), left_s=left_s, batch=batch, explore=explore)
    assert Counter(t.name for t in ranking.ordered) == Counter(t.name for t in ordered)
    backlogged = {name for name, seen in views.items() if seen.backlogged}
    if ranking.shed:
        assert batch
        assert {tier.name for tier in ordered} <= backlogged
    first = ranking.ordered[0]
    if first is not ordered[0]:
        assert ranking.reasons
        assert first.name not in ranking.passed_over
    if first.name in weaker and ordered[0].name not in weaker:
        assert "degraded" in ranking.reasons
        assert not batch
