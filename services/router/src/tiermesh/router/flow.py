"""One request from its arrival to its last event.

    the same is being run already ──────────────────────► its pieces ───────► done
    cache lookup ─┬─ hit ──────────────────────────────► recorded pieces ──► done (stale: ─► run again, nobody waits)
    classification┘  miss ─► policy ─► engine stream ──► pieces ───────────► done ─► store
                                  ▲        │ declined, unavailable or full before it started
                                  └────────┘ next candidate

A request stays with a tier once that tier has started: its label is out, and pieces of two tiers
are never joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from opentelemetry.trace import INVALID_SPAN_CONTEXT
from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.router.caching.background import BackgroundReruns
from tiermesh.router.caching.place import CachePlace, cache_key, cache_place
from tiermesh.router.caching.policy import BOTH, TOKEN_ONLY, plan_cache
from tiermesh.router.caching.reader import CacheReader, Looked
from tiermesh.router.call import Call, in_background, in_lane
from tiermesh.router.coalescing.claim import span_of
from tiermesh.router.coalescing.flight import Events, Flight, Member
from tiermesh.router.coalescing.flights import Flights
from tiermesh.router.coalescing.key import RunKey, run_key
from tiermesh.router.coalescing.neighbours import NeighbourRuns
from tiermesh.router.coalescing.sharing import follow_run, lead_run
from tiermesh.router.deciding import Deciding
from tiermesh.router.events import Completed, Event
from tiermesh.router.generation import Generation
from tiermesh.router.outcomes.record import make_outcome
from tiermesh.router.outcomes.sender import OutcomeSender
from tiermesh.router.policy.candidates import Decision
from tiermesh.router.policy.models import pinned_tiers
from tiermesh.router.ports import CachePort
from tiermesh.router.telling import observe
from tiermesh.router.telling.label import cached_label, decided_label
from tiermesh.router.telling.metrics import RequestMetrics
from tiermesh.router.tiers.watch import TierWatch
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import TiermeshError
from tiermesh.shared.outcomes import is_sampled

Order = tuple[Call, Decision, router_pb2.CacheStatus.ValueType, CachePlace | None]
"""What `Generation.run` takes."""
Judging = asyncio.Task[classifier_pb2.ClassifyResponse | None]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision that was not carried out."""

    label: router_pb2.RouteLabel
    classification: classifier_pb2.ClassifyResponse | None
    candidates: tuple[str, ...]
    fingerprint: bytes


class RequestFlow:
    """Answers requests.

    Args:
        cache: Answers given before.
        deciding: Classifies requests and decides where they go.
        generation: Runs engines.
        watch: What is known of the tiers.
        clock: Time.
        metrics: Counts requests.
        reruns: Runs requests again whose answer has become stale.
        neighbours: Runs that are shared with other routers; None where there are none.
        outcomes: Takes the records of requests to the log of outcomes, where the configuration has it on.
    """

    def __init__(
        self,
        *,
        cache: CachePort,
        deciding: Deciding,
        generation: Generation,
        watch: TierWatch,
        clock: Clock,
        metrics: RequestMetrics | None = None,
        reruns: BackgroundReruns | None = None,
        outcomes: OutcomeSender | None = None,
        neighbours: NeighbourRuns | None = None,
    ) -> None:
        self._reader = CacheReader(cache)
        self._deciding = deciding
        self._generation = generation
        self._watch = watch
        self._clock = clock
        self._metrics = metrics or RequestMetrics()
        self._reruns = reruns or BackgroundReruns()
        self._outcomes = outcomes
        self.flights = Flights(clock)
        """Runs under way that identical requests join."""
        self._neighbours = neighbours or NeighbourRuns(None, clock)

    async def answer(self, call: Call) -> AsyncGenerator[Event, None]:
        """Streams the events of a valid request; close the generator to abandon it.

        Raises:
            TiermeshError: the request failed. Nothing was yielded if no tier had started.
        """
        outcome = "cancelled"
        try:
            routed = await self._route(call)
            if isinstance(routed, cache_pb2.LookupResponse):
                for event in self._replay(call, routed):
                    yield event
            else:
                async with aclosing(routed) as events:
                    async for event in events:
                        yield event
            outcome = "ok"
        except TiermeshError as error:
            outcome = error.reason
            raise
        finally:
            statement = call.account.close()
            observe.record_ledger(call.span, statement)
            self._metrics.request(statement, outcome=outcome)
            if self._outcomes is not None:
                self._keep_outcome(self._outcomes, call, outcome, statement.total)

    def _keep_outcome(self, sender: OutcomeSender, call: Call, outcome: str, total_s: float) -> None:
        settings = call.snapshot.config.outcomes
        if settings.enabled and is_sampled(call.caller.request_id, settings.sample):
            arrived = self._clock.wall() - total_s
            sender.offer(partial(make_outcome, call, outcome=outcome, total_s=total_s, arrived=arrived))

    async def _route(self, call: Call) -> cache_pb2.LookupResponse | Events:
        """Returns the hit, or the run that answers: a shared one where policy allows."""
        request, config = call.request, call.snapshot.config
        # Before any call is made: a name that does not exist must not reach the cache.
        pinned_tiers(request.model, config.tiers)
        plan = plan_cache(request, cache_control=call.caller.cache_control, enabled=config.cache.enabled)
        place = cache_place(call) if plan.read or plan.write else None
        if place is None:
            return self._run(call, Looked())
        key = run_key(call, place) if plan.read and plan.write and config.cache.coalescing != "off" else None
        if key is not None:
            if (member := await self._join_under_way(key, call, place)) is not None:
                return self._follow(member)
            if (claim := self._neighbours.claim(key, call)) is not None:
                place = replace(place, claim=claim)
        judging: Judging | None = asyncio.create_task(self._deciding.classify(call))
        try:
            looked = await self._reader.look(call, place, plan)
            if looked.hit is not None:
                if looked.hit.stale and looked.keep_at is not None:
                    self._reruns.start(place.key, partial(self._rerun, call, replace(looked.keep_at, claim=None)))
                return looked.hit
            if key is not None and (member := self._joined(key, call, place, looked)) is not None:
                return self._follow(member)
            run = self._run(call, looked, judging=judging)
            judging = None
        finally:
            if judging is not None:
                judging.cancel()
        if key is None:
            return run
        again = partial(self._again, looked, key, place)
        member = self.flights.start(
            key, call, run, again=again, token=looked.token or b"", on_end=self._neighbours.ended
        )
        self._neighbours.lead(place.claim, member.flight)
        return lead_run(member)

    async def _join_under_way(self, key: RunKey, call: Call, place: CachePlace) -> Member | None:
        """Joins the run of the same request here, unless there was an invalidation since it began."""
        if not self.flights.has(key):
            return None
        asked = await self._reader.look(call, place, TOKEN_ONLY)
        return self.flights.join(key, call, token=asked.token)

    def _joined(self, key: RunKey, call: Call, place: CachePlace, looked: Looked) -> Member | None:
        """Joins the run of the same request that is under way, here or elsewhere, by what a lookup has said."""
        # One may have begun here while this request was looked up.
        member = self.flights.join(key, call, token=looked.token)
        if member is not None:
            self._neighbours.lead(place.claim, member.flight)
        elif looked.elsewhere is not None:
            again = partial(self._again, looked, key, place)
            led_from = span_of(looked.elsewhere.trace_parent) or INVALID_SPAN_CONTEXT
            run = self._neighbours.follow(looked.elsewhere.token, max_s=call.snapshot.config.deadlines.max_ms / 1000)
            member = self.flights.start(
                key,
                call,
                run,
                again=again,
                token=looked.token or b"",
                led_from=led_from,
                on_end=self._neighbours.ended,
            )
            member.flight.followed.add(looked.elsewhere.token)
        return member

    async def _run(self, call: Call, looked: Looked, *, judging: Judging | None = None) -> Events:
        """Streams a request's own run.

        Args:
            call: The request.
            looked: What the cache has to do with it.
            judging: Its classification, if that has begun; it is cancelled with the run.
        """
        try:
            judgement = await (judging or self._deciding.classify(call))
        finally:
            if judging is not None:
                judging.cancel()
        order = self._order(call, judgement, looked)
        async with aclosing(self._generation.run(*order)) as events:
            async for event in events:
                yield event

    async def _again(self, looked: Looked, key: RunKey, place: CachePlace, flight: Flight, call: Call) -> Events:
        """Streams the run of a request that had followed another's, which failed; others may be quicker again.

        Args:
            looked: What the cache said to the first of them.
            key: What is run.
            place: Where its answer is or would be.
            flight: The run that failed.
            call: The request that takes over.
        """
        self._metrics.promoted()
        claim = self._neighbours.claim(key, call)
        if flight.claim is None and claim is not None:
            looked = await self._reader.look(call, replace(place, claim=claim), BOTH)
            if looked.hit is not None:
                flight.is_led_elsewhere = False
                for event in self._replay(call, looked.hit):
                    yield event
                return
            # What is run from here on is of now, and what is out already must be the same.
            flight.token = looked.token or b""
            self._neighbours.lead(claim, flight)
        elsewhere = looked.elsewhere
        # Not the very run that has failed, where its router has not cleared it away yet.
        flight.is_led_elsewhere = elsewhere is not None and elsewhere.token not in flight.followed
        if elsewhere is not None and flight.is_led_elsewhere:
            flight.followed.add(elsewhere.token)
            flight.led_from = span_of(elsewhere.trace_parent) or INVALID_SPAN_CONTEXT
            run = self._neighbours.follow(elsewhere.token, max_s=call.snapshot.config.deadlines.max_ms / 1000)
        else:
            run = self._run(call, looked)
        async with aclosing(run) as events:
            async for event in events:
                yield event

    def _follow(self, member: Member) -> Events:
        self._metrics.coalesced(elsewhere=member.flight.is_led_elsewhere)
        return follow_run(member, in_lane=in_lane)

    def _order(
        self,
        call: Call,
        judgement: classifier_pb2.ClassifyResponse | None,
        looked: Looked,
    ) -> Order:
        observe.record_classification(call.span, judgement)
        call.trail.judgement = judgement
        decision = call.trail.decision = self._deciding.decide(call, judgement)
        observe.record_gains(call.span, decision.gains)
        if decision.refusal is not None:
            raise decision.refusal
        if looked.reasons:
            decision = replace(decision, reasons=(*decision.reasons, *looked.reasons))
        return in_lane(call, decision.lane), decision, looked.status, looked.keep_at

    async def _rerun(self, call: Call, place: CachePlace) -> None:
        """Makes a stale answer anew, behind all live traffic; what is good enough to keep is stored."""
        call = in_background(call, self._clock)
        order = self._order(
            call, await self._deciding.classify(call), Looked(router_pb2.CACHE_STATUS_MISS, keep_at=place)
        )
        async with aclosing(self._generation.run(*order)) as events:
            async for _ in events:
                pass

    async def explain(self, call: Call) -> Explanation:
        """Returns where a valid request would go, and what the cache has for it, without running a model.

        Raises:
            UnknownModel: the model asked for does not exist.
        """
        request = call.request
        pinned_tiers(request.model, call.snapshot.tiers)
        enabled = call.snapshot.config.cache.enabled
        plan = plan_cache(request, cache_control=call.caller.cache_control, enabled=enabled)
        looking = self._reader.look(call, cache_place(call), plan)
        looked, judgement = await asyncio.gather(looking, self._deciding.classify(call))
        observe.record_classification(call.span, judgement)
        decision = self._deciding.decide(call, judgement, dry=True)
        observe.record_gains(call.span, decision.gains)
        first = decision.candidates[0] if decision.candidates else None
        refused = () if decision.refusal is None else (decision.refusal.reason.lower(),)
        label = decided_label(
            call,
            decision,
            tier=first.name if first else "",
            model=first.public_model if first else "",
            cache_status=looked.status,
            reasons=(*decision.reasons, *looked.reasons, *refused),
            open_breakers=self._watch.breakers.open_for(request.priority),
            simulated=first is not None and first.backend == "simulated",
        )
        observe.record_route(call.span, label, tenant=call.caller.tenant)
        candidates = tuple(tier.name for tier in decision.candidates)
        return Explanation(label, judgement, candidates, cache_key(call).fingerprint)

    def _replay(self, call: Call, found: cache_pb2.LookupResponse) -> Sequence[Event]:
        label, cached = cached_label(call, found), found.answer
        elapsed = self._clock.monotonic() - call.caller.arrived
        observe.record_route(call.span, label, tenant=call.caller.tenant)
        observe.record_first_text(call.span, elapsed)
        observe.record_usage(call.span, cached.usage)
        trail = call.trail
        trail.label, trail.deltas = label, cached.deltas
        trail.end = Completed(cached.finishes, cached.usage, (), True, elapsed)
        return [label, *cached.deltas, trail.end]
