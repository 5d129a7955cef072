"""A model asked by many calls at once, in batches of whoever is there.

Nobody waits for a batch to fill: requests that come in one turn of the event loop are one batch, and one that is alone is
judged alone. A batch of few characters is judged on the spot, in less time than it takes to hand it to a thread and
back. A larger one is left to a thread, so that the loop stays free and a time limit can be kept; all who come while it works make up
the next batch. Batches so grow with load and not before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tiermesh.classifier.features import Features
from tiermesh.classifier.prediction import Prediction, RightBasis, Unanswered
from tiermesh.shared.clock import SYSTEM_CLOCK, Clock
from tiermesh.shared.telemetry import get_logger

SPOT_CHARS = 3072
"""Of all texts of a batch together, or of the longest single one: judged in about half a millisecond."""
SLOW_BATCHES = 3
"""So many overruns in a row on the spot are the model's; a single one may be a machine that gave its core to others."""
MAX_BATCH = 32
MAX_WAITING = 256

_log = get_logger(__name__)
_Asked = tuple[Features, asyncio.Future[Prediction | Unanswered]]


class Predictor(Protocol):
    """Judges several requests in one go; may be slow and may fail."""

    @property
    def version(self) -> str:
        """Identifies the weights."""
        ...

    @property
    def right_basis(self) -> RightBasis:
        """What its probabilities of being right rest on."""
        ...

    def predict(self, requests: Sequence[Features]) -> Sequence[Prediction]:
        """Judges each request."""
        ...


class BatchedModel:
    """Answers within a time limit, whatever becomes of the model. Belongs to one event loop."""

    def __init__(
        self, model: Predictor, *, timeout_s: float, spot_chars: int = SPOT_CHARS, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Starts no thread yet.

        Args:
            model: Judges the batches, one batch at a time.
            timeout_s: Longest that one request waits.
            spot_chars: Batches up to this length are judged on the spot; 0 leaves all to the thread.
            clock: Times what is judged on the spot.
        """
        self._model = model
        self._timeout_s = timeout_s
        self._spot_chars = spot_chars
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, "classifier-model")
        self._waiting: deque[_Asked] = deque()
        self._due = False
        """Whether the next batch is to be made in the next turn of the loop."""
        self._running = False
        """Whether the thread is at work."""
        self._started_s = 0.0
        self._slow = 0
        """Overruns in a row on the spot."""

    @property
    def version(self) -> str:
        """Identifies the weights."""
        return self._model.version

    @property
    def right_basis(self) -> RightBasis:
        """What the probabilities of being right rest on."""
        return self._model.right_basis

    async def ask(self, features: Features, *, limit_s: float) -> Prediction | Unanswered:
        """Judges a request within `limit_s` seconds and the model's own limit. Raises only CancelledError."""
        loop = asyncio.get_running_loop()
        # A batch that overruns is not waited for again by everyone who comes after it.
        overdue = self._running and loop.time() - self._started_s > self._timeout_s
        if overdue or len(self._waiting) >= MAX_WAITING:
            return Unanswered("model_busy")
        answer: asyncio.Future[Prediction | Unanswered] = loop.create_future()
        self._waiting.append((features, answer))
        self._go_on(loop)
        limit = loop.call_later(min(self._timeout_s, limit_s), _answer, answer, Unanswered("model_timeout"))
        try:
            return await answer
        finally:
            limit.cancel()

    def close(self) -> None:
        """Lets the thread end; a batch it is at is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and not self._due and not self._running:
            self._due = True
            loop.call_soon(self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = False
        batch: list[_Asked] = []
        while self._waiting and len(batch) < MAX_BATCH:
            asked = self._waiting.popleft()
            if not asked[1].done():
                batch.append(asked)
        requests = [features for features, _ in batch]
        if sum(len(features.text) for features in requests) <= self._spot_chars:
            self._judge_now(batch, requests)
            self._go_on(loop)
            return
        self._running, self._started_s = True, loop.time()
        work = loop.run_in_executor(self._pool, self._model.predict, requests)
        work.add_done_callback(lambda done: self._finish(loop, batch, done))

    def _judge_now(self, batch: Sequence[_Asked], requests: Sequence[Features]) -> None:
        if not batch:
            return
        began = self._clock.monotonic()
        try:
            predictions = self._model.predict(requests)
        except Exception as error:  # whatever a model does, the rules still have an answer
            self._settle(batch, error)
            return
        took_s = self._clock.monotonic() - began
        self._slow = self._slow + 1 if took_s > self._timeout_s else 0
        if self._slow >= SLOW_BATCHES:
            # It held up everything else. From here on only its thread waits for it, and callers no longer than they want.
            self._spot_chars = 0
            _log.warning("model_slow", took_ms=round(took_s * 1000), requests=len(batch))
        # Late or not, it is there: nobody has to wait for it any more.
        self._settle(batch, predictions)

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: Sequence[_Asked], done: asyncio.Future[Sequence[Prediction]]
    ) -> None:
        self._running = False
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        self._settle(batch, error if error is not None else done.result())
        self._go_on(loop)

    def _settle(self, batch: Sequence[_Asked], found: Sequence[Prediction] | BaseException) -> None:
        if not isinstance(found, BaseException) and len(found) != len(batch):
            found = ValueError("the model answered another number of requests than it was asked")
        if isinstance(found, BaseException):
            # The name only: messages of errors may quote the text.
            _log.warning("model_failed", error=type(found).__name__, requests=len(batch))
        for at, (_, answer) in enumerate(batch):
            _answer(answer, Unanswered("model_failed") if isinstance(found, BaseException) else found[at])


def _answer(answer: asyncio.Future[Prediction | Unanswered], said: Prediction | Unanswered) -> None:
    if not answer.done():
        answer.set_result(said)
