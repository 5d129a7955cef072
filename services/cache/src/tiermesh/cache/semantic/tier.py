"""Decides whether the answer to another question will do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tiermesh.cache.ports import Embedder
from tiermesh.cache.semantic.guards import language, passed_before, refusal_of, time
from tiermesh.cache.semantic.index import Candidate, QuestionIndex, file
from tiermesh.cache.semantic.question import Question, question_of
from tiermesh.cache.semantic.records import Record, partition_of
from tiermesh.cache.semantic.redaction import redact
from tiermesh.shared.budget import Budget
from tiermesh.shared.telemetry import get_logger

_log = get_logger(__name__)
_MAX_CHARS = 400
"""Longer texts say too much to be compared."""
_EMBEDDING_S = 0.004
"""Least time left for which an embedding is begun."""
_REPLY_S = 0.003
"""What is left of a caller's time for the reply: an embedding that is later is of no use."""


@dataclass(frozen=True, slots=True)
class Match:
    """What became of the best candidate."""

    candidate: Candidate | None = None
    refused_by: str = ""
    """Guard that refused it, `threshold`, `shadow`, or empty; without a candidate, why none was looked for or found."""
    threshold: float = 0.0
    """Least similarity that it needed."""
    passed: tuple[str, ...] = ()
    """Guards that it passed."""

    @property
    def similarity(self) -> float:
        """Likeness of the candidate, 0 where there is none."""
        return self.candidate.similarity if self.candidate else 0.0


NO_MATCH = Match()
"""There was no candidate."""


class SemanticTier:
    """Matches questions.

    Args:
        index: Questions answered before.
        embedder: Turns a text into a vector; None where no model is installed, and then only Chinese is matched.
        threshold: Least likeness of two questions.
        task_types: Task types whose answers may be given to other wordings.
        shadow: Report what would be answered, and answer nothing.
    """

    def __init__(
        self,
        index: QuestionIndex,
        embedder: Embedder | None,
        *,
        threshold: float,
        task_types: frozenset[str],
        shadow: bool,
    ) -> None:
        self.index = index
        self._embedder = embedder
        self._threshold = threshold
        self._task_types = task_types
        self._shadow = shadow

    async def match(self, tenant: str, digest: bytes, text: str, task_type: str, budget: Budget) -> Match:
        """Returns the best candidate for a question, or why there is none.

        Args:
            tenant: Who asks.
            digest: SHA-256 of everything but the last user message.
            text: The last user message.
            task_type: What kind of work it is, where that is known.
            budget: The caller's.
        """
        if task_type and task_type not in self._task_types:
            return NO_MATCH
        question = comparable(text)
        if question is None:
            return Match(refused_by=incomparable(text))
        vector = b""
        if question.language != "zh":
            if self._embedder is None:
                return NO_MATCH
            embedded = await self._embed(question.text, budget)
            if embedded is None:
                return Match(refused_by="late")
            if not embedded:
                return NO_MATCH
            vector = embedded
        candidate = self.index.best(partition_of(tenant, digest), question, vector)
        if candidate is None:
            return Match(refused_by="starting") if self.index.is_filling else NO_MATCH
        needed = self._threshold - candidate.allowance
        if candidate.likeness < self._threshold:
            return Match(candidate, "threshold", needed)
        refusal = refusal_of(question, candidate.known.question, likeness=candidate.similarity)
        passed = passed_before(refusal)
        if refusal is not None:
            return Match(candidate, refusal.guard, needed, passed)
        if self._shadow:
            _log.info(
                "would have answered",
                asked=redact(question.text),
                known=redact(candidate.known.question.text),
                similarity=round(candidate.similarity, 3),
                entry=candidate.known.record.entry.rsplit(b":", 1)[-1][:8].decode("ascii"),
            )
            return Match(candidate, "shadow", needed, passed)
        return Match(candidate, threshold=needed, passed=passed)

    async def record(
        self,
        tenant: str,
        digest: bytes,
        text: str,
        *,
        task_type: str,
        entry: bytes,
        cost: float,
        ends_ms: int,
        budget: Budget,
    ) -> Record | None:
        """Returns what to tell the replicas about an answered question, or None where it may not be shared."""
        question = comparable(text) if task_type in self._task_types else None
        if question is None:
            return None
        vector = b""
        if question.language != "zh":
            vector = await self._embed(question.text, budget) or b""
            if not vector:
                return None
        filed = file(question.text, vector)
        embedder = self._embedder.name if vector and self._embedder is not None else ""
        return Record(entry, partition_of(tenant, digest), question.text, vector, cost, ends_ms, filed, embedder)

    async def _embed(self, text: str, budget: Budget) -> bytes | None:
        """Returns a text's vector, nothing where it has none, or None where that took too long."""
        if self._embedder is None:
            return b""
        if budget.remaining() < _EMBEDDING_S:
            return None
        try:
            async with asyncio.timeout(budget.remaining() - _REPLY_S):
                # Cancelled, it is never begun if it still waits for its turn: nobody waits for it any more.
                return await self._embedder.embed(text)
        except TimeoutError:
            return None


def comparable(text: str) -> Question | None:
    """Returns a text taken apart, or None where no answer of another wording can ever do for it."""
    return None if incomparable(text) else question_of(text)


def incomparable(text: str) -> str:
    """Returns why no answer of another wording can ever do for a text: `length`, `language` or `time`; else nothing."""
    if not text.strip() or len(text) > _MAX_CHARS:
        return "length"
    question = question_of(text)
    if question.language not in language.LANGUAGES:
        return "language"
    return "time" if time.is_about_now(question) else ""
