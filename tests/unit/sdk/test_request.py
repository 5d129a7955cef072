import grpc
import pytest
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client import DeadlineError, Lane, StreamBroken, TiermeshError, Unavailable, make_request
from tiermesh.client._answer import Book
from tiermesh.client._request import lane_of
from tiermesh.shared.rpc import status_metadata


def test_a_question_becomes_a_request():
    request = make_request("为什么天是蓝的？", system="Be brief.", model="tier:l1", max_tokens=5, cache=False)
    assert [(m.role, m.content) for m in request.messages] == [
        (chat_pb2.ROLE_SYSTEM, "Be brief."),
        (chat_pb2.ROLE_USER, "为什么天是蓝的？"),
    ]
    assert (request.model, request.sampling.max_tokens) == ("tier:l1", 5)
    assert request.cache_mode == router_pb2.CACHE_MODE_OFF
    assert not request.sampling.HasField("temperature")


def test_messages_keep_their_roles_and_an_unknown_role_is_named():
    request = make_request([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert [m.role for m in request.messages] == [chat_pb2.ROLE_USER, chat_pb2.ROLE_ASSISTANT]
    with pytest.raises(ValueError, match="robot"):
        make_request([{"role": "robot", "content": "a"}])
    with pytest.raises(ValueError, match="warmth"):
        make_request("a", warmth=1)


def test_a_whole_request_passes_and_takes_no_more():
    whole = router_pb2.GenerateRequest(model="x")
    assert make_request(whole) is whole
    with pytest.raises(ValueError, match="whole request"):
        make_request(whole, max_tokens=4)


def test_the_lane_follows_the_priority_unless_named():
    assert lane_of(make_request("a"), None) is Lane.COMPLEX
    assert lane_of(make_request("a", batch=True), None) is Lane.BATCH
    assert lane_of(make_request("a", batch=True), Lane.SIMPLE) is Lane.SIMPLE


def event(**fields: object) -> router_pb2.GenerateResponse:
    return router_pb2.GenerateResponse(**fields)


def test_choices_are_kept_apart():
    book = Book()
    for index, text in ((0, "a"), (1, "x"), (0, "b"), (1, "y")):
        book.enter(event(delta=answer_pb2.Delta(choice_index=index, text=text)))
    book.enter(event(done=router_pb2.Done(usage=answer_pb2.Usage(completion_token_count=4))))
    answer = book.answer()
    assert answer.texts == ("ab", "xy")
    assert (answer.text, answer.usage.completion_token_count) == ("ab", 4)


def test_a_revision_replaces_the_text():
    book = Book()
    book.enter(event(delta=answer_pb2.Delta(text="quick")))
    book.enter(event(revision=router_pb2.Revision(tier="l2", texts=["better"])))
    book.enter(event(done=router_pb2.Done()))
    assert (book.answer().text, book.answer().revised_by) == ("better", "l2")


def test_an_answer_without_its_end_is_broken():
    book = Book()
    book.enter(event(delta=answer_pb2.Delta(text="half an")))
    with pytest.raises(StreamBroken):
        book.answer()


def test_a_failure_event_is_raised_with_its_fields():
    failure = answer_pb2.Failure(reason="QUEUE_FULL", message="full", field="f")
    failure.retry_after.FromMilliseconds(1500)
    with pytest.raises(TiermeshError) as caught:
        Book().enter(event(failure=failure))
    error = caught.value
    assert (error.reason, error.message, error.field, error.retry_after) == ("QUEUE_FULL", "full", "f", 1.5)


def status(code, trailers=()):
    """A failed call, as gRPC reports it."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), "RST_STREAM")


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE])
def test_a_connection_that_breaks_midway_breaks_the_answer_or_is_its_deadline(code):
    book = Book()
    book.enter(event(delta=answer_pb2.Delta(text="half an")))
    assert isinstance(book.failure(status(code), left_s=5.0), StreamBroken)
    assert isinstance(book.failure(status(code), left_s=0.0), DeadlineError)
    assert isinstance(book.failure(status(grpc.StatusCode.DEADLINE_EXCEEDED), left_s=0.0), DeadlineError)


def test_before_the_first_event_a_mesh_that_cannot_be_reached_is_told_from_one_that_broke_off():
    book = Book()
    assert isinstance(book.failure(status(grpc.StatusCode.UNAVAILABLE), left_s=5.0), Unavailable)
    # The headers of an answer had come, or gRPC would have called it UNAVAILABLE.
    assert isinstance(book.failure(status(grpc.StatusCode.INTERNAL), left_s=5.0), StreamBroken)
    assert isinstance(book.failure(status(grpc.StatusCode.INTERNAL), left_s=0.0), DeadlineError)


def test_what_the_ingress_says_is_told_from_what_the_callers_own_connection_says():
    book = Book()
    book.failure(status(grpc.StatusCode.UNAVAILABLE), left_s=5.0)
    assert not book.settled
    book.failure(status(grpc.StatusCode.UNAVAILABLE, (("server", "tiermesh"),)), left_s=5.0)
    assert book.settled


def test_what_a_service_says_of_its_failure_stands():
    book = Book()
    book.enter(event(delta=answer_pb2.Delta(text="half an")))
    told = status(grpc.StatusCode.UNAVAILABLE, status_metadata(Unavailable("gone")))
    assert isinstance(book.failure(told, left_s=5.0), Unavailable)
