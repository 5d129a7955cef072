"""The model asked by many at once."""

import asyncio
import threading

from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.model import BatchedModel
from tiermesh.classifier.model.batching import MAX_BATCH, MAX_WAITING, SLOW_BATCHES
from tiermesh.classifier.prediction import Prediction, Unanswered
from tiermesh.shared.rules import TokenWeights
from tiermesh.shared.testing import FakeClock


def asked(text):
    return read_features((Turn("user", text),), TokenWeights())


class Gated:
    """Answers with the length of each text, once it is let."""

    version = "gated-1"
    right_basis = "judgement"

    def __init__(self):
        self.gate = threading.Event()
        self.batches = []
        self.began = threading.Event()
        self.threads = set()

    def predict(self, requests):
        self.threads.add(threading.current_thread())
        self.began.set()
        self.gate.wait(30)
        self.batches.append(len(requests))
        return [Prediction("chat", 0.5, 0.5, 0.5, len(r.text), 0.5, 0.5, 0.5) for r in requests]


async def test_requests_that_come_while_it_works_share_the_next_batch_and_get_their_own_answers():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, spot_chars=0)
    first = asyncio.create_task(model.ask(asked("x"), limit_s=30))
    await asyncio.to_thread(gated.began.wait, 30)
    calls = [asyncio.create_task(model.ask(asked("x" * n), limit_s=30)) for n in range(2, 2 * MAX_BATCH)]
    await asyncio.sleep(0)
    gated.gate.set()
    answers = await asyncio.gather(first, *calls)
    assert [answer.answer_tokens for answer in answers] == list(range(1, 2 * MAX_BATCH))
    assert gated.batches == [1, MAX_BATCH, MAX_BATCH - 2]
    model.close()


async def test_requests_of_one_turn_of_the_loop_are_one_batch_on_the_spot_and_a_lone_one_is_not_kept_waiting():
    gated = Gated()
    gated.gate.set()
    model = BatchedModel(gated, timeout_s=30, spot_chars=100)
    answers = await asyncio.gather(*(model.ask(asked("x" * n), limit_s=30) for n in range(1, 6)))
    assert [answer.answer_tokens for answer in answers] == [1, 2, 3, 4, 5]
    await model.ask(asked("x"), limit_s=30)
    assert gated.batches == [5, 1]
    assert gated.threads == {threading.current_thread()}
    await asyncio.gather(*(model.ask(asked("x" * 30), limit_s=30) for _ in range(4)))
    assert gated.batches == [5, 1, 4]
    assert len(gated.threads) == 2, "more than 100 characters are left to a thread of their own"
    model.close()


class Timed(Gated):
    """Takes as long as it is told, by a clock of its own."""

    def __init__(self):
        super().__init__()
        self.gate.set()
        self.clock = FakeClock()
        self.takes_s = 0.0

    def predict(self, requests):
        self.clock.advance(self.takes_s)
        return super().predict(requests)


async def test_a_model_that_keeps_holding_up_the_loop_is_left_to_its_thread_from_then_on():
    slow = Timed()
    slow.takes_s = 31.0
    model = BatchedModel(slow, timeout_s=30, spot_chars=100, clock=slow.clock)
    for _ in range(SLOW_BATCHES):
        assert (await model.ask(asked("x"), limit_s=30)).answer_tokens == 1, "late, but there"
    assert slow.threads == {threading.current_thread()}
    assert (await model.ask(asked("x"), limit_s=30)).answer_tokens == 1
    assert len(slow.threads) == 2
    model.close()


async def test_a_machine_that_pauses_now_and_then_leaves_the_model_on_the_spot():
    paused = Timed()
    model = BatchedModel(paused, timeout_s=30, spot_chars=100, clock=paused.clock)
    for takes_s in ([31.0] * (SLOW_BATCHES - 1) + [0.001]) * 3:
        paused.takes_s = takes_s
        await model.ask(asked("x"), limit_s=30)
    assert paused.threads == {threading.current_thread()}
    model.close()


async def test_a_request_that_gave_up_is_not_worked_for():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, spot_chars=0)
    first = asyncio.create_task(model.ask(asked("a"), limit_s=30))
    await asyncio.to_thread(gated.began.wait, 30)
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
    model = BatchedModel(gated, timeout_s=30, spot_chars=0)
    assert await model.ask(asked("a"), limit_s=0.01) == Unanswered("model_timeout")
    gated.gate.set()
    model.close()


async def test_more_than_can_wait_are_turned_away_at_once():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, spot_chars=0)
    first = asyncio.create_task(model.ask(asked("a"), limit_s=30))
    await asyncio.to_thread(gated.began.wait, 30)
    calls = [first, *(asyncio.create_task(model.ask(asked("a"), limit_s=30)) for _ in range(MAX_WAITING))]
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

    model = BatchedModel(Short(), timeout_s=30, spot_chars=0)
    assert await model.ask(asked("a"), limit_s=30) == Unanswered("model_failed")
    model.close()


async def test_a_failure_on_the_spot_is_told():
    gated = Gated()
    model = BatchedModel(gated, timeout_s=30, spot_chars=5)
    gated.predict = lambda requests: 1 / 0
    assert await model.ask(asked("short"), limit_s=30) == Unanswered("model_failed")
    model.close()
