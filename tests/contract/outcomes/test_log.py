"""The log of outcomes over a real connection, in a real file."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from harness.outcomes import NOON, make_record, running_log
from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.adapters.sqlite import open_outcomes
from tiermesh.outcomes.log import OutcomeLog
from tiermesh.shared.budget import Budget
from tiermesh.shared.clock import SYSTEM_CLOCK
from tiermesh.shared.config import OutcomesConfig
from tiermesh.shared.errors import InvalidRequest, UnknownRequest

DAY_S = 86_400


def ids(outcomes):
    return [outcome.request_id for outcome in outcomes]


async def test_what_is_filed_is_listed_in_the_order_of_arrival_and_survives_a_restart(tmp_path):
    async with running_log(tmp_path) as log:
        assert await log.record(make_record(2), make_record(1)) == 2
        assert await log.record(make_record(3)) == 1
    async with running_log(tmp_path) as log:
        listed = await log.listed()
        assert ids(listed) == ["r1", "r2", "r3"]
        assert listed[0] == make_record(1)


async def test_a_record_that_is_sent_again_is_kept_once(tmp_path):
    async with running_log(tmp_path) as log:
        assert await log.record(make_record(1), make_record(1)) == 1
        assert await log.record(make_record(1), make_record(2)) == 1
        assert ids(await log.listed()) == ["r1", "r2"]


async def test_pages_of_many_records_lose_and_repeat_none(tmp_path):
    async with running_log(tmp_path) as log:
        # Many of one instant: only their order in the log tells them apart.
        for start in range(0, 1000, 500):
            await log.record(*(make_record(n // 300, request_id=f"x{n}") for n in range(start, start + 500)))
        found = await log.listed()
        assert sorted(ids(found)) == sorted(f"x{n}" for n in range(1000))
        assert [o.arrived.seconds for o in found] == sorted(o.arrived.seconds for o in found)
        assert ids(await log.listed(limit=450)) == ids(found)[-450:]
        assert len(await log.listed(limit=5000)) == 1000


async def test_records_are_selected_by_time_tenant_and_feedback(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(*(make_record(n, tenant="acme" if n % 2 else "other") for n in range(6)))
        await log.judge("r3", 1.0)
        await log.judge("r4", 0.0, tenant="other")
        since, until = Timestamp(seconds=NOON + 1), Timestamp(seconds=NOON + 4)
        assert ids(await log.listed(since=since, until=until)) == ["r1", "r2", "r3"]
        assert ids(await log.listed(tenant="other")) == ["r0", "r2", "r4"]
        assert ids(await log.listed(with_feedback=True)) == ["r3", "r4"]
        assert ids(await log.listed(with_feedback=True, tenant="acme", limit=5)) == ["r3"]


async def test_opinions_are_joined_to_their_request_with_their_time(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(make_record(1), make_record(2))
        assert await log.judge("r1", 1.0, source=record_pb2.FEEDBACK_SOURCE_USER)
        assert await log.judge("r1", 0.5, source=record_pb2.FEEDBACK_SOURCE_JUDGE, judge="large")
        first, second = await log.listed()
    assert [(f.score, f.judge) for f in first.feedback] == [(1.0, ""), (0.5, "large")]
    assert {f.reported.seconds for f in first.feedback} == {NOON}
    assert not second.feedback


async def test_a_tenant_can_judge_only_its_own_requests(tmp_path):
    async with running_log(tmp_path, arrival_s=0.01) as log:
        await log.record(make_record(1, tenant="acme"))
        with pytest.raises(UnknownRequest):
            await log.judge("r1", 0.0, tenant="mallory")
        assert not (await log.listed())[0].feedback


async def test_two_tenants_may_use_one_request_id(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(make_record(1, tenant="a", request_id="same"), make_record(1, tenant="b", request_id="same"))
        await log.judge("same", 1.0, tenant="b")
        assert [(o.tenant, len(o.feedback)) for o in await log.listed()] == [("a", 0), ("b", 1)]


async def test_an_opinion_on_an_id_that_was_used_twice_is_one_on_the_newer_request(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(make_record(1, request_id="again"), make_record(2, request_id="again"))
        await log.judge("again", 1.0)
        assert [len(o.feedback) for o in await log.listed()] == [0, 1]


async def test_an_opinion_that_comes_before_the_record_waits_for_it(tmp_path):
    async with running_log(tmp_path) as log:
        early = asyncio.create_task(log.judge("r1", 1.0))
        # Whether it waits already or not: it must find the record.
        await log.status()
        await log.record(make_record(0), make_record(1))
        assert await early
        assert [len(o.feedback) for o in await log.listed()] == [0, 1]


async def test_an_opinion_on_a_request_that_is_not_sampled_is_not_waited_for(tmp_path):
    async with running_log(tmp_path, sample=0.000001) as log:
        assert not await log.judge("r1", 1.0)


async def test_an_opinion_on_an_unknown_request_is_refused_and_the_field_named(tmp_path):
    async with running_log(tmp_path, arrival_s=0.01) as log:
        with pytest.raises(UnknownRequest) as caught:
            await log.judge("r1", 1.0)
        assert caught.value.field == "request_id"


async def test_an_opinion_does_not_wait_until_its_deadline(tmp_path):
    store = open_outcomes(tmp_path / "outcomes.db")
    with ThreadPoolExecutor(max_workers=1) as thread:
        log = OutcomeLog(
            store,
            thread,
            OutcomesConfig(),
            redact=lambda _: None,
            filed=lambda _: None,
            judged=lambda _: None,
            clock=SYSTEM_CLOCK,
            arrival_s=3600.0,
        )
        # Whoever has gone by then could not be told that the request is unknown.
        async with asyncio.timeout(60):
            with pytest.raises(UnknownRequest):
                await log.add_feedback("acme", "r1", record_pb2.Feedback(score=1.0), budget=Budget.of(0.2))
    store.close()


async def test_texts_are_dropped_unless_the_configuration_keeps_them(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(make_record(1, question="who?", answer="me"))
        assert not (await log.listed(with_text=True))[0].HasField("text")
    assert b"who?" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


async def test_texts_that_are_kept_lie_on_disk_without_personal_data(tmp_path):
    async with running_log(tmp_path, keep_text=True) as log:
        await log.record(make_record(1, question="我的手机号是13812345678", answer="write to bob@example.com"))
        (plain,) = await log.listed()
        (whole,) = await log.listed(with_text=True)
    assert not plain.HasField("text")
    assert whole.text.messages[0].content == "我的手机号是<phone>"
    assert list(whole.text.answers) == ["write to <email>"]
    assert dict(whole.text.redaction_counts) == {"phone": 1, "email": 1}
    assert whole.text.redaction_version
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"13812345678" not in on_disk
    assert b"bob@" not in on_disk


async def test_opinions_within_a_record_are_not_believed(tmp_path):
    async with running_log(tmp_path) as log:
        await log.record(make_record(1, scores=(1.0,)))
        assert not (await log.listed())[0].feedback


async def test_old_records_and_their_opinions_leave(tmp_path):
    async with running_log(tmp_path, max_age_days=1) as log:
        await log.record(make_record(1), make_record(2))
        await log.judge("r1", 1.0)
    async with running_log(tmp_path, max_age_days=1) as log:
        log.clock.advance(2 * DAY_S)
        await log.record(make_record(2 * DAY_S, request_id="new"))
        status = await log.status()
        assert ids(await log.listed()) == ["new"]
    assert (status.outcome_count, status.feedback_count, status.rotated_count) == (1, 0, 2)


async def test_the_log_stays_within_its_size_and_drops_the_oldest(tmp_path):
    async with running_log(tmp_path, max_size_mb=1) as log:
        for start in range(0, 6000, 500):
            await log.record(*(make_record(n, trace_id="x" * 600) for n in range(start, start + 500)))
        status, kept = await log.status(), await log.listed()
    assert status.size_bytes < 3 * 2**20
    assert status.rotated_count > 0
    assert status.rotated_count + status.outcome_count == 6000
    assert ids(kept) == [f"r{n}" for n in range(6000 - len(kept), 6000)]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 9 * 2**20


async def test_the_status_tells_what_is_there(tmp_path):
    async with running_log(tmp_path) as log:
        empty = await log.status()
        assert (empty.outcome_count, empty.HasField("oldest"), list(empty.drift)) == (0, False, [])
        await log.record(make_record(1), make_record(5))
        await log.judge("r1", 1.0)
        status = await log.status()
    assert (status.outcome_count, status.feedback_count) == (2, 1)
    assert (status.oldest.seconds, status.newest.seconds) == (NOON + 1, NOON + 5)
    assert status.size_bytes > 0


@pytest.mark.parametrize(
    ("changes", "at_fault"),
    [({"tenant": ""}, "outcomes[1]"), ({"request_id": ""}, "outcomes[1]"), ({"schema_version": 99}, "outcomes[1]")],
)
async def test_a_batch_with_a_wrong_record_is_refused_whole(tmp_path, changes, at_fault):
    async with running_log(tmp_path) as log:
        wrong = make_record(2)
        for name, value in changes.items():
            setattr(wrong, name, value)
        with pytest.raises(InvalidRequest) as caught:
            await log.record(make_record(1), wrong)
        assert caught.value.field == at_fault
        assert not await log.listed()


async def test_wrong_calls_name_the_field(tmp_path):
    async with running_log(tmp_path) as log:
        with pytest.raises(InvalidRequest, match="at most 1000"):
            await log.record(*(make_record(n) for n in range(1001)))
        for field in ("tenant", "request_id"):
            with pytest.raises(InvalidRequest, match=field):
                await log.judge(**{"request_id": "r", "tenant": "t", "score": 1.0, field: ""})
        with pytest.raises(InvalidRequest, match="score"):
            await log.judge("r1", 1.5)
        with pytest.raises(InvalidRequest, match="limit"):
            await log.listed(limit=-1)
