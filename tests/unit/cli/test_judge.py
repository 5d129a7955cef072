"""`tiermesh judge`: what counts as right, and the log that it writes; with a router in this process."""

import json
from concurrent import futures

import grpc
import pytest
from tiermesh.api.classifier.v1 import classifier_pb2
from tiermesh.api.common.v1 import answer_pb2, chat_pb2
from tiermesh.api.router.v1 import router_pb2, router_pb2_grpc
from tiermesh.client.cli._app import make_app
from tiermesh.client.cli.judging import Question, WrongQuestion, is_right, parse_question, pretended_right
from tiermesh.shared.calibration import Features
from tiermesh.shared.calibration_log import read_log
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("right", "answer", "verdict"),
    [
        (["Paris"], "The capital of France is paris.", True),
        (["Paris"], "Comparisons are hard.", False),
        (["７"], "There are 7 days.", True),
        (["7"], "There are 70 days, or 1.7, or 7.5, or 17.", False),
        (["7", "seven"], "Seven!", True),
        (["7"], "一周有7天", True),
        (["北京"], "中国的首都是北京。", True),
        (["北京"], "中国的首都是南京。", False),
        (["New Delhi"], "It is New\n  Delhi", True),
        (["O"], "Oxygen", False),
        (["C++"], "C++ is it", True),
    ],
)
def test_a_right_answer_holds_one_of_the_words_as_a_word(right, answer, verdict):
    assert is_right(Question("?", tuple(right)), answer) is verdict


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x", "not JSON"),
        ('{"question": "a"}', "question"),
        ('{"question": "", "right": ["x"]}', "text"),
        ('{"question": "a", "right": []}', "right"),
        ('{"question": "a", "right": "x"}', "right"),
        ('["a"]', "object"),
    ],
)
def test_what_is_no_question_is_told(line, told):
    with pytest.raises(WrongQuestion, match=told):
        parse_question(line)


def test_a_simulated_answers_rightness_is_drawn_and_stays():
    def share(mean):
        drawn = [pretended_right(Question(f"q{n}", ("x",)), Features(mean, mean, 1.0)) for n in range(300)]
        assert drawn == [pretended_right(Question(f"q{n}", ("x",)), Features(mean, mean, 1.0)) for n in range(300)]
        return sum(drawn) / len(drawn)

    assert share(-0.05) == 1.0
    assert share(-1.0) == 0.0
    assert 0.65 < share(-0.44) < 0.9


class Router(router_pb2_grpc.RouterServiceServicer):
    def __init__(self):
        self.asked, self.simulated, self.answers = [], False, {}

    def Generate(self, request, context):
        self.asked.append(request)
        text = request.messages[-1].content
        if text not in self.answers:
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        route = router_pb2.RouteLabel(task_type=classifier_pb2.TASK_TYPE_QA, simulated=self.simulated)
        yield router_pb2.GenerateResponse(route=route)
        for word, logprob in self.answers[text]:
            token = answer_pb2.TokenLogprob(token=word, logprob=logprob, token_bytes=word.encode())
            token.top.add(token=word, logprob=logprob, token_bytes=word.encode())
            token.top.add(token="?", logprob=logprob - 2.0, token_bytes=b"?")
            yield router_pb2.GenerateResponse(delta=answer_pb2.Delta(text=word, logprobs=[token]))
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


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [{"question": "capital?", "right": ["Paris"]}, {"question": "首都？", "right": ["北京"]}]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def judge(router, questions, *arguments):
    out = questions.with_name("judged.jsonl")
    command = ["judge", str(questions), "--tier", "l1", "--out", str(out), "--target", f"127.0.0.1:{router.port}"]
    return CliRunner().invoke(make_app(), [*command, *arguments]), out


def test_answers_are_logged_with_what_their_first_tokens_look_like(router, questions):
    router.answers = {"capital?": [("Par", -0.1), ("is", -0.3), (" then", -9.0)], "首都？": [("南京", -2.0)]}
    done, out = judge(router, questions, "--hold-tokens", "2")
    assert done.exit_code == 0, done.output
    assert "2 of 2 answers judged, 1 right" in done.output
    first, second = read_log(out.read_text(encoding="utf-8").splitlines())
    assert (first.tier, first.task_type, first.right, second.right) == ("l1", "qa", True, False)
    assert first.features == Features(-0.2, -0.2, 2.0)
    assert not first.simulated
    sent = router.asked[0]
    assert (sent.model, sent.priority, sent.cache_mode) == (
        "tier:l1",
        chat_pb2.PRIORITY_BATCH,
        router_pb2.CACHE_MODE_OFF,
    )
    assert (sent.sampling.temperature, sent.sampling.top_logprob_count) == (0, 2)


def test_simulated_answers_say_so_in_every_line_and_in_what_is_fitted_to_them(router, questions):
    router.simulated = True
    router.answers = {"capital?": [("made up", -0.01)], "首都？": [("made up", -3.0)]}
    done, out = judge(router, questions)
    assert done.exit_code == 0, done.output
    records = read_log(out.read_text(encoding="utf-8").splitlines())
    assert [(record.right, record.simulated) for record in records] == [(True, True), (False, True)]
    fitted = CliRunner().invoke(make_app(), ["calibrate", str(out), "--keep-bands"])
    assert "queueing model made up" in fitted.output
    assert "bands:" not in fitted.output


def test_a_mesh_that_does_not_answer_leaves_no_log(router, questions):
    done, out = judge(router, questions)
    assert done.exit_code != 0
    assert "gone" in done.output
    assert not out.exists()


def test_a_file_without_questions_is_told(router, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n", encoding="utf-8")
    done, _ = judge(router, empty)
    assert done.exit_code == 2
    assert "no questions" in done.output


def test_what_was_judged_before_the_mesh_went_away_is_kept(router, questions):
    router.answers = {"capital?": [("Paris", -0.1)]}
    done, out = judge(router, questions)
    assert done.exit_code == 1
    assert [record.right for record in read_log(out.read_text(encoding="utf-8").splitlines())] == [True]


def test_a_log_that_cannot_be_written_is_told_before_anything_is_asked(router, questions):
    done, _ = judge(router, questions, "--out", str(questions / "judged.jsonl"))
    assert done.exit_code == 2
    assert "cannot be written" in done.output
    assert router.asked == []


def test_the_help_says_what_a_line_holds():
    assert "[words" in CliRunner().invoke(make_app(), ["judge", "--help"]).output
