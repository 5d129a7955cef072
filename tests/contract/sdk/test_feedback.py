"""Reporting on an answer, with both clients and the command line, to a router that keeps the reports."""

import asyncio

import pytest
from harness.sdk import Kind, running_router
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.client import FeatureOff, UnknownRequest, make_report
from tiermesh.client.cli._app import make_app
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.testing import ScriptedRouter, router_answer
from typer.testing import CliRunner

both = pytest.mark.parametrize("kind", ["async", "sync"])


async def report(served, kind, *arguments, **options):
    if kind == "async":
        async with served.client(api_key="k-1") as client:
            return await client.report(*arguments, **options)
    return await served.in_thread(lambda client: client.report(*arguments, **options), api_key="k-1")


@both
async def test_a_report_says_which_request_and_how_good_its_answer_was(kind: Kind):
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        assert await report(served, kind, "r-1", right=True)
        assert await report(served, kind, "r-1", score=0.25, source="check", judge="unit-tests")
        first, second = served.router.reports
        assert served.router.metadata[0]["authorization"] == "Bearer k-1"
        assert 0 < served.router.remaining[0] <= 60.003
    assert (first.request_id, first.WhichOneof("verdict"), first.right) == ("r-1", "right", True)
    assert first.source == record_pb2.FEEDBACK_SOURCE_USER
    assert (second.WhichOneof("verdict"), second.score, second.judge) == ("score", 0.25, "unit-tests")
    assert second.source == record_pb2.FEEDBACK_SOURCE_CHECK


@both
async def test_a_request_that_was_not_sampled_is_told(kind: Kind):
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        served.router.sampled = False
        assert not await report(served, kind, "r-1", right=False)


@both
async def test_a_report_is_retried_where_the_mesh_is_away_and_refused_where_it_is_wrong(kind: Kind):
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        served.router.report_errors = [Unavailable("down")]
        assert await report(served, kind, "r-1", right=True)
        assert len(served.waits) == 1
        served.router.report_errors = [UnknownRequest("none")]
        with pytest.raises(UnknownRequest):
            await report(served, kind, "r-2", right=True)
        served.router.report_errors = [FeatureOff("off")]
        with pytest.raises(FeatureOff):
            await report(served, kind, "r-2", right=True)
        assert len(served.waits) == 1


@pytest.mark.parametrize("opinion", [{}, {"right": True, "score": 1.0}, {"right": True, "source": "rumour"}])
def test_a_report_that_says_nothing_or_too_much_is_not_sent(opinion):
    with pytest.raises(ValueError, match=r"exactly one|source must be one of"):
        make_report("r-1", **opinion)


async def command(served, *words):
    runner = CliRunner(env={"TIERMESH_API_KEY": "k-1"})
    return await asyncio.to_thread(runner.invoke, make_app(), ["feedback", *words, "--target", served.target])


async def test_the_command_reports(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        assert (await command(served, "r-1", "--right")).output == "filed\n"
        assert (await command(served, "r-1", "--wrong")).exit_code == 0
        assert (await command(served, "r-1", "--score", "0.5", "--source", "judge", "--judge", "large")).exit_code == 0
        served.router.sampled = False
        assert "not among those sampled" in (await command(served, "r-1", "--right")).output
        served.router.report_errors = [UnknownRequest("none")]
        refused = await command(served, "r-9", "--right")
        verdicts = [(r.WhichOneof("verdict"), r.right or r.score) for r in served.router.reports]
        assert served.router.metadata[0]["authorization"] == "Bearer k-1"
    assert verdicts[:3] == [("right", True), ("right", False), ("score", 0.5)]
    assert refused.exit_code == 1
    assert "UNKNOWN_REQUEST" in refused.output


@pytest.mark.parametrize(
    "words", [[], ["--right", "--wrong"], ["--right", "--score", "1"], ["--right", "--source", "x"]]
)
async def test_the_command_refuses_what_is_no_opinion(words):
    async with running_router(ScriptedRouter(router_answer("a"))) as served:
        assert (await command(served, "r-1", *words)).exit_code == 2
        assert not served.router.reports
