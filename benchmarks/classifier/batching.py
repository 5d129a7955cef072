"""The learnt model asked by many at once: in batches of whoever is there, and one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
from tiermesh.classifier.features import Features
from tiermesh.classifier.model import BatchedModel, LinearModel
from tiermesh.classifier.prediction import Prediction, RightBasis, Unanswered

CONCURRENCY = (1, 8, 32, 64)


class OneByOne:
    """The same model without batching: however many are there, each is judged in a call of its own."""

    def __init__(self, model: LinearModel) -> None:
        self._model = model

    @property
    def version(self) -> str:
        """Identifies the weights."""
        return self._model.version

    @property
    def right_basis(self) -> RightBasis:
        """What the probabilities of being right rest on."""
        return self._model.right_basis

    def predict(self, requests: Sequence[Features]) -> list[Prediction]:
        """Judges each request."""
        return [prediction for request in requests for prediction in self._model.predict([request])]


def measure_batching(model: LinearModel, requests: Sequence[Features], calls: int) -> dict[str, dict[str, float]]:
    """Returns rate, latency and processor time at each concurrency, with batches and without, in turns."""
    return asyncio.run(_measure(model, requests, calls))


async def _measure(model: LinearModel, requests: Sequence[Features], calls: int) -> dict[str, dict[str, float]]:
    rows = {}
    for concurrency in CONCURRENCY:
        for name, predictor in (("alone", OneByOne(model)), ("batched", model)):
            batched = BatchedModel(predictor, timeout_s=60)
            await _load(batched, requests, concurrency, calls // 4)
            rows[f"{concurrency}_{name}"] = await _load(batched, requests, concurrency, calls)
            batched.close()
    return rows


async def _load(model: BatchedModel, requests: Sequence[Features], concurrency: int, calls: int) -> dict[str, float]:
    numbers = iter(range(calls))
    waits: list[float] = []

    async def caller() -> None:
        for number in numbers:
            began = time.perf_counter()
            answer = await model.ask(requests[number % len(requests)], limit_s=60)
            if isinstance(answer, Unanswered):
                raise RuntimeError(answer.reason)  # noqa: TRY004 -- no wrong type: the model had nothing to say
            waits.append(time.perf_counter() - began)
            # What a server does between two requests: other things.
            await asyncio.sleep(0)

    began, own = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    took, worked = time.perf_counter() - began, time.process_time() - own
    p50, p99 = np.percentile(waits, (50, 99)) * 1000
    return {
        "per_s": round(calls / took),
        "p50_ms": round(float(p50), 3),
        "p99_ms": round(float(p99), 3),
        "cpu_ms": round(worked / calls * 1000, 4),
    }
