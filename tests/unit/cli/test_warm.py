"""`tiermesh cache warm`: what is asked, when, and how it goes on; with a router in this process."""

import json
from concurrent import futures
from datetime import time

import grpc
import pytest
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli import _warm
from tiermesh.client.cli._app import make_app
from tiermesh.client.cli.warming import WrongLine, mark_of, parse_line, parse_window
from tiermesh.router.openai.request import read_chat_request
from typer.testing import CliRunner


class Router(router_pb2_grpc.RouterServiceServicer):
    def __init__(self):
        self.asked = []
        self.refuse = set()
        self.code = grpc.StatusCode.INVALID_ARGUMENT
        self.status = router_pb2.CACHE_STATUS_MISS

    def Generate(self, request, context):
        text = request.messages[-1].content
        self.asked.append(request)
        if text in self.refuse:
            context.abort(self.code, "no")
        yield router_pb2.GenerateResponse(route=router_pb2.RouteLabel(cache_status=self.status))
        yield router_pb2.GenerateResponse(done=router_pb2.Done())


@pytest.fixture
def router():
    servicer = Router()
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    router_pb2_grpc.add_RouterServiceServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer
    server.stop(None).wait()


def warm(router, path, *arguments):
    command = ["cache", "warm", str(path), "--target", f"127.0.0.1:{router.port}", *arguments]
    return CliRunner().invoke(make_app(), command)


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    lines = ["one", {"question": "two"}, {"messages": [{"role": "user", "content": "三"}], "temperature": 0}, "one"]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_asks_each_question_once_behind_live_traffic(router, questions):
    done = warm(router, questions)
    assert done.exit_code == 0, done.output
    assert [request.messages[-1].content for request in router.asked] == ["one", "two", "三"]
    assert {request.priority for request in router.asked} == {chat_pb2.PRIORITY_BATCH}
    assert "3 of 3 questions answered" in done.output


def test_the_body_of_a_chat_completion_is_asked_as_the_router_would_read_it(router, tmp_path):
    body = {
        "model": "tier:l1",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "tea?"}]},
        ],
        "temperature": 0,
        "max_completion_tokens": 20,
        "stop": "x",
        "n": 2,
        "seed": None,
        "stream": True,
        "user": "ann",
    }
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(body), encoding="utf-8")
    assert warm(router, path).exit_code == 0
    (asked,) = router.asked
    read = read_chat_request(path.read_bytes(), max_bytes=10_000).request
    read.priority = chat_pb2.PRIORITY_BATCH
    assert asked == read


def test_a_file_that_is_not_there_or_a_mark_that_cannot_be_written_is_told_before_anything_is_asked(router, questions):
    gone = warm(router, questions.with_name("gone.jsonl"))
    assert gone.exit_code == 2
    assert "gone.jsonl: cannot be read (No such file or directory)" in gone.output
    unwritable = warm(router, questions, "--done", str(questions / "marks"))
    assert unwritable.exit_code == 2
    assert "cannot be written" in unwritable.output
    assert router.asked == []


def test_where_nobody_looks_at_a_terminal_its_progress_comes_in_lines(router, questions):
    assert "warming: 0 of 3" in warm(router, questions).stderr


def test_refusals_are_told_by_their_reason(router, questions):
    router.refuse = {"two", "三"}
    done = warm(router, questions)
    assert done.exit_code == 1
    assert "1 of 3 questions answered" in done.output
    assert "2 refused: INVALID_REQUEST" in done.output


def test_what_goes_for_all_questions_ends_it_at_once(router, questions):
    router.refuse, router.code = {"one"}, grpc.StatusCode.UNAUTHENTICATED
    done = warm(router, questions)
    assert done.exit_code == 1
    assert len(router.asked) == 1
    assert "What to do" in done.output
    assert "0 of 3 questions answered" in done.output


def test_what_the_cache_had_or_will_not_keep_is_said(router, questions):
    router.status = router_pb2.CACHE_STATUS_HIT
    assert "3 of them by the cache already" in warm(router, questions).output
    questions.with_name("questions.jsonl.done").unlink()
    router.status = router_pb2.CACHE_STATUS_BYPASS
    assert "3 of them are not kept" in warm(router, questions).output


def test_goes_on_where_it_stopped_and_names_nothing(router, questions):
    router.refuse = {"two"}
    assert warm(router, questions).exit_code == 1
    marks = questions.with_name("questions.jsonl.done").read_text()
    assert "one" not in marks
    router.refuse, router.asked = set(), []
    assert warm(router, questions).exit_code == 0
    assert [request.messages[-1].content for request in router.asked] == ["two"]
    assert "answered already" in warm(router, questions).output


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        "{}",
        '{"messages": [{"role": "robot", "content": "x"}]}',
        '{"messages": [{"role": "tool", "content": "4", "tool_call_id": "1"}]}',
        '{"messages": ["x"]}',
        '{"question": "x", "tools": []}',
        '{"question": "x", "temprature": 0}',
        '{"question": "x", "temperature": "hot"}',
        '""',
    ],
)
def test_a_wrong_line_is_named(router, tmp_path, line):
    path = tmp_path / "q.jsonl"
    path.write_text('"fine"\n' + line, encoding="utf-8")
    done = warm(router, path)
    assert done.exit_code == 2
    assert "q.jsonl:2" in done.output
    assert router.asked == []


def test_windows():
    night = parse_window("22:30-05:00")
    assert night.holds(time(23, 0))
    assert night.holds(time(4, 59))
    assert not night.holds(time(5, 0))
    assert not night.holds(time(12, 0))
    day = parse_window("09:00-17:00")
    assert day.holds(time(9, 0))
    assert not day.holds(time(17, 0))
    with pytest.raises(ValueError, match="01:00-05:30"):
        parse_window("at night")


def test_equal_questions_have_one_mark():
    assert mark_of(parse_line('"x"')) == mark_of(parse_line('{"question": "x"}'))
    assert mark_of(parse_line('"x"')) != mark_of(parse_line('{"question": "x", "temperature": 0}'))
    with pytest.raises(WrongLine):
        parse_line('{"question": 5}')


def test_the_group_is_there_without_the_caches_package():
    import typer

    app = typer.Typer()
    _warm.register(app)
    assert "warm" in CliRunner().invoke(app, ["cache", "--help"]).output
