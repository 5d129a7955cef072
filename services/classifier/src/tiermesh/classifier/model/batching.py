"""A model asked by many calls at once: about short texts on the spot, about long ones on a thread of its own.

A short text is judged in less time than it takes to hand it to a thread and back. Of longer ones nobody waits for a
batch to fill: whoever comes while the thread is idle is served at once, and all who come while it works make up the
next batch. Batches so grow with load and not before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tiermesh.classifier.features import Features
from tiermesh.classifier.prediction import Prediction, RightBasis, Unanswered
from tiermesh.shared.telemetry import get_logger

SHORT_CHARS = 400
"""Judged in about a tenth of a millisecond."""
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

    def __init__(self, model: Predictor, *, timeout_s: float, short_chars: int = SHORT_CHARS) -> None:
        """Starts no thread yet.

        Args:
            model: Judges the batches, one batch at a time.
            timeout_s: Longest that one request waits.
            short_chars: Texts up to this length are judged on the spot.
        """
        self._model = model
        self._timeout_s = timeout_s
        self._short_chars = short_chars
        self._pool = ThreadPoolExecutor(1, "classifier-model")
        self._waiting: deque[_Asked] = deque()
        self._running = False
        self._started_s = 0.0

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
        if len(features.text) <= self._short_chars:
            return self._judge_now(features)
        loop = asyncio.get_running_loop()
        # A batch that overruns is not waited for again by everyone who comes after it.
        overdue = self._running and loop.time() - self._started_s > self._timeout_s
        if overdue or len(self._waiting) >= MAX_WAITING:
            return Unanswered("model_busy")
        answer: asyncio.Future[Prediction | Unanswered] = loop.create_future()
        self._waiting.append((features, answer))
        self._start(loop)
        try:
            async with asyncio.timeout(min(self._timeout_s, limit_s)):
                return await answer
        except TimeoutError:
            return Unanswered("model_timeout")

    def close(self) -> None:
        """Lets the thread end; a batch it is at is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _judge_now(self, features: Features) -> Prediction | Unanswered:
        try:
            (prediction,) = self._model.predict([features])
        except Exception as error:  # whatever a model does, the rules still have an answer
            self._log_failure(error, requests=1)
            return Unanswered("model_failed")
        return prediction

    def _log_failure(self, error: BaseException, *, requests: int) -> None:
        # The name only: messages of errors may quote the text.
        _log.warning("model_failed", error=type(error).__name__, requests=requests)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._running:
            return
        batch: list[_Asked] = []
        while self._waiting and len(batch) < MAX_BATCH:
            asked = self._waiting.popleft()
            if not asked[1].done():
                batch.append(asked)
        if not batch:
            return
        self._running, self._started_s = True, loop.time()
        work = loop.run_in_executor(self._pool, self._model.predict, [features for features, _ in batch])
        work.add_done_callback(lambda done: self._finish(loop, batch, done))

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: Sequence[_Asked], done: asyncio.Future[Sequence[Prediction]]
    ) -> None:
        self._running = False
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None and len(done.result()) != len(batch):
            error = ValueError("the model answered another number of requests than it was asked")
        if error is not None:
            self._log_failure(error, requests=len(batch))
        for at, (_, answer) in enumerate(batch):
            if not answer.done():
                answer.set_result(Unanswered("model_failed") if error is not None else done.result()[at])
        self._start(loop)
