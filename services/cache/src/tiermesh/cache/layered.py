"""Exact first, then the semantic tier; one place that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tiermesh.api.cache.v1 import cache_pb2
from tiermesh.cache.access import StoreAccess
from tiermesh.cache.answers import AnswerCache, Found, Result
from tiermesh.cache.invalidation import Invalidation
from tiermesh.cache.keeping import AnswerKeeper, Kept, Offer
from tiermesh.cache.keys import Place, place_of
from tiermesh.cache.ports import ChangeLog
from tiermesh.cache.run_tokens import ClaimText
from tiermesh.cache.runs import Runs
from tiermesh.cache.semantic.records import Record, encode
from tiermesh.cache.semantic.tier import NO_MATCH, Match, SemanticTier
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import Clock
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_TELL_S = 0.05


@dataclass(frozen=True, slots=True)
class Looked:
    """What both tiers found."""

    found: Found
    match: Match = NO_MATCH
    run: cache_pb2.ClaimedRun | None = None
    """Who runs the request, where that was asked and can be told."""


class LayeredCache:
    """Looks answers up by their request, then by their question.

    Args:
        exact: The exact tier.
        keeper: Keeps answers in it.
        invalidation: Forgets answers.
        semantic: The semantic tier; None where it is off.
        log: Where answered questions are told; None where nobody listens.
        access: Bounds what telling may cost.
        clock: Measures what the store has cost already.
        runs: Who runs what; None where nobody claims.
    """

    def __init__(
        self,
        exact: AnswerCache,
        keeper: AnswerKeeper,
        invalidation: Invalidation,
        semantic: SemanticTier | None,
        log: ChangeLog | None,
        access: StoreAccess,
        clock: Clock,
        runs: Runs | None = None,
    ) -> None:
        self._runs = runs
        self.exact = exact
        self._keeper = keeper
        self.invalidation = invalidation
        self._semantic = semantic
        self._log = log
        self._access = access
        self._clock = clock

    async def lookup(self, request: cache_pb2.LookupRequest, budget: Budget) -> Looked:
        """Finds an answer; an exact one wins. Where there is none, claims the run if that is asked for."""
        if request.token_only:
            return Looked(await self.exact.token(request.key.tenant, request.key.fingerprint, budget))
        place = place_of(request.key.tenant, request.key.fingerprint)
        runs = self._runs if request.HasField("claim") else None
        claimant = runs.claimant(place, request.claim) if runs is not None else None
        asks_semantic = self._semantic is not None and request.HasField("semantic")
        began = self._clock.monotonic()
        # Claimed in the same step as it is read, unless another tier may still answer.
        found = await self.exact.lookup_at(place, budget, claim=None if asks_semantic else claimant)
        looked = Looked(found)
        if found.result is Result.MISS and asks_semantic:
            looked = await self._lookup_similar(found, request, budget, began)
        if looked.found.result is not Result.MISS or runs is None or claimant is None:
            return looked
        holder = found.holder
        if holder is None and found.moment:
            holder = await runs.claim(claimant.at(found.moment), budget, spent_s=self._clock.monotonic() - began)
        return replace(looked, run=_claimed(holder, router=request.claim.router))

    async def _lookup_similar(
        self, found: Found, request: cache_pb2.LookupRequest, budget: Budget, began: float
    ) -> Looked:
        assert self._semantic is not None
        spent_s = self._clock.monotonic() - began
        query = request.semantic
        match = await self._semantic.match(request.key.tenant, query.partition, query.text, query.task_type, budget)
        if match.candidate is None or match.refused_by:
            return Looked(found, match)
        entry = match.candidate.known.record.entry
        place = Place(entry.rpartition(b":")[0] + b":generation", entry)
        similar = await self.exact.lookup_at(place, budget, spent_s=spent_s)
        if similar.result is Result.HIT:
            return Looked(replace(similar, result=Result.HIT_SEMANTIC, token=found.token), match)
        if similar.result is Result.MISS:
            # Expired, evicted or invalidated: the question is of no more use either.
            self._semantic.index.remove(entry)
            match = replace(match, refused_by="gone")
        return Looked(found, match)

    async def keep(self, offers: Sequence[Offer], budget: Budget) -> list[bool]:
        """Keeps answers, and tells the replicas of their questions where other wordings may have them.

        Returns:
            Of each, whether it was kept.
        """
        outcomes = await self._keeper.keep(offers, budget)
        records = []
        for offer, outcome in zip(offers, outcomes, strict=True):
            if offer.run_token and not outcome.run_ended and self._runs is not None:
                # Only now: whoever asks next is to find either the claim or the answer.
                await self._runs.release(offer.run_token, budget)
            if outcome.kept is not None and (record := await self._record(offer, outcome.kept, budget)) is not None:
                records.append(encode(record))
        if records and self._log is not None:
            try:
                await self._access.run(partial(self._log.append_questions, records), budget=budget, cap_s=_TELL_S)
            except Unavailable as error:
                _log.debug("answered questions were not told", count=len(records), error=error.message)
        return [outcome.kept is not None for outcome in outcomes]

    async def _record(self, offer: Offer, kept: Kept, budget: Budget) -> Record | None:
        if self._semantic is None or self._log is None or offer.semantic is None:
            return None
        usage = offer.answer.usage
        return await self._semantic.record(
            offer.tenant,
            offer.semantic.partition,
            offer.semantic.text,
            task_type=offer.answer.task_type,
            entry=kept.place.entry,
            cost=usage.prompt_token_count + 4 * usage.completion_token_count,
            ends_ms=kept.ends_ms,
            budget=budget,
        )


def _claimed(holder: bytes | None, *, router: str) -> cache_pb2.ClaimedRun | None:
    standing = ClaimText.decode(holder) if holder is not None else None
    if standing is None:
        return None
    if standing.router == router:
        # Its own, also where another request of the same router was first by a moment.
        return cache_pb2.ClaimedRun(token=standing.token, leading=True)
    return cache_pb2.ClaimedRun(token=standing.token, trace_parent=standing.trace_parent)
