"""The model asked by many at once."""

import asyncio
import threading

from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.model import BatchedModel
from tiermesh.classifier.model.batching import MAX_BATCH, MAX_WAITING
from tiermesh.classifier.prediction import Prediction, Unanswered
from tiermesh.shared.rules import TokenWeights


def asked(text):
    return read_features((Turn("user", text),), TokenWeights())


class Gated:
    """Answers with the length of each text, once it is let."""

    version = "gated-1"
    right_basis = "judgement"

    def __init__(self):
        self.gate = threading.Event()
        self.batches = []

    def predict(self, requests):
        self.gate.wait(30)
        self.batches.append(len(requests))
        return [Prediction("chat", 0.5, 0.5, 0.5, len(r.text), 0.5, 0.5, 0.5) for r in requests]


async def test_requests_that_come_while_it_works_share_the_next_batch_and_get_their_own_answers():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, short_chars=0)
    calls = [asyncio.create_task(model.ask(asked("x" * n), limit_s=30)) for n in range(1, 2 * MAX_BATCH)]
    await asyncio.sleep(0)
    gated.gate.set()
    answers = await asyncio.gather(*calls)
    assert [answer.answer_tokens for answer in answers] == list(range(1, 2 * MAX_BATCH))
    assert gated.batches == [1, MAX_BATCH, MAX_BATCH - 2]
    model.close()


async def test_a_request_that_gave_up_is_not_worked_for():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, short_chars=0)
    first = asyncio.create_task(model.ask(asked("a"), limit_s=30))
    await asyncio.sleep(0)
    gone = asyncio.create_task(model.ask(asked("b"), limit_s=30))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})
    gated.gate.set()
    await first
    last = await model.ask(asked("cc"), limit_s=30)
    assert last.answer_tokens == 2
    assert gated.batches == [1, 1]
    model.close()


async def test_the_callers_own_limit_counts():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, short_chars=0)
    assert await model.ask(asked("a"), limit_s=0.01) == Unanswered("model_timeout")
    gated.gate.set()
    model.close()


async def test_more_than_can_wait_are_turned_away_at_once():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, short_chars=0)
    calls = [asyncio.create_task(model.ask(asked("a"), limit_s=30)) for _ in range(MAX_WAITING + 1)]
    await asyncio.sleep(0)
    assert await model.ask(asked("a"), limit_s=30) == Unanswered("model_busy")
    gated.gate.set()
    await asyncio.gather(*calls)
    model.close()


async def test_a_model_that_answers_too_few_has_failed():
    class Short:
        version = "short-1"

        def predict(self, requests):
            return []

    model = BatchedModel(Short(), timeout_s=30, short_chars=0)
    assert await model.ask(asked("a"), limit_s=30) == Unanswered("model_failed")
    model.close()


async def test_short_texts_are_judged_on_the_spot_and_failures_told():
    gated = Gated()
    gated.gate.set()
    model = BatchedModel(gated, timeout_s=30, short_chars=5)
    assert (await model.ask(asked("short"), limit_s=30)).answer_tokens == 5
    gated.predict = lambda requests: 1 / 0
    assert await model.ask(asked("short"), limit_s=30) == Unanswered("model_failed")
    model.close()
