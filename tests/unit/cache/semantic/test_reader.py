"""Vectors of two models are never compared: what another one has embedded is embedded anew."""

import pytest
from harness.semantic import FakeChangeLog, FakeEmbedder, FakeNeighbours
from tiermesh.cache.semantic.index import QuestionIndex, file
from tiermesh.cache.semantic.question import question_of
from tiermesh.cache.semantic.reader import QuestionReader
from tiermesh.cache.semantic.records import PoisonedRecord, Record, decode, encode
from tiermesh.shared.testing import FakeClock

P = b"p" * 32
ASKED, REWORDED = "How do I pay my bill?", "How do I pay my bill by card?"
OF_ANOTHER_SPACE = b"\x00\x3c" + b"\x00\x00" * 63


def told(text, vector, embedder):
    return encode(Record(b"t:" + text.encode(), P, text, vector, 1.0, 1 << 60, file(text, vector), embedder))


async def read(log, embedder):
    index = QuestionIndex(FakeNeighbours, max_entries=9, clock=FakeClock())
    await QuestionReader(log, index, FakeClock(), embedder).step(wait_ms=0)
    return index


@pytest.mark.parametrize("embedder", ["another", ""], ids=["another_model", "a_release_that_did_not_say"])
async def test_what_another_model_has_embedded_is_embedded_anew(embedder):
    log, mine = FakeChangeLog(), FakeEmbedder()
    asked = await mine.embed(REWORDED)
    expected = await mine.embed(ASKED)
    await log.append_questions([told(ASKED, OF_ANOTHER_SPACE, embedder)])
    index = await read(log, mine)
    assert mine.texts[2:] == [ASKED]
    found = index.best(P, question_of(REWORDED), asked)
    assert found.known.record.vector == found.known.filed.vector == expected
    assert found.similarity > 0.8
    assert found.known.record.embedder == mine.name


async def test_its_own_and_what_has_none_are_taken_as_they_are():
    log, mine = FakeChangeLog(), FakeEmbedder()
    vector = await mine.embed(ASKED)
    await log.append_questions([told(ASKED, vector, mine.name), told("怎么付款？", b"", "")])
    index = await read(log, mine)
    assert len(index) == 2
    assert mine.texts == [ASKED]
    assert index.best(P, question_of(ASKED), vector).similarity == pytest.approx(1, abs=1e-2)


async def test_a_text_that_this_model_has_no_tokens_for_is_not_found_by_the_others_vector():
    log, mine = FakeChangeLog(), FakeEmbedder()
    await log.append_questions([told("How do I pay at the café?", OF_ANOTHER_SPACE, "another")])
    index = await read(log, mine)
    assert len(index) == 1
    assert index.best(P, question_of(REWORDED), OF_ANOTHER_SPACE) is None


async def test_without_a_model_questions_are_known_as_they_were_told():
    log = FakeChangeLog()
    await log.append_questions([told(ASKED, OF_ANOTHER_SPACE, "another")])
    assert len(await read(log, None)) == 1


def test_a_release_that_knows_one_model_only_does_not_take_it_for_its_own():
    fields = told(ASKED, OF_ANOTHER_SPACE, "another")
    # That release reads version 1, and nothing else.
    assert fields[b"v"] == b"2"
    assert decode(fields).embedder == "another"
    with pytest.raises(PoisonedRecord):
        decode({**fields, b"embedder": b"words"})
    assert told("怎么付款？", b"", "")[b"v"] == b"1"
