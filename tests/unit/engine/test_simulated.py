import pytest
from tiermesh.engine.adapters.simulated import Pace, SimulatedBackend
from tiermesh.engine.ports import Finish, Lane, Piece, Sampling, Turn
from tiermesh.shared.config import TierConfig
from tiermesh.shared.testing import FakeClock

TIER = TierConfig(name="l1", backend="simulated", model="toy", simulated_ttft_ms=100, simulated_tokens_per_second=50)


def backend(tier: TierConfig = TIER) -> tuple[SimulatedBackend, FakeClock]:
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    return SimulatedBackend(tier, clock=clock, sleep=sleep), clock


async def pieces(sampling: Sampling, text: str = "Tell me about rivers", *, tier: TierConfig = TIER) -> list[Piece]:
    simulated, _ = backend(tier)
    prompt = await simulated.prepare([Turn("user", text)])
    generation = simulated.generate(prompt, sampling, request_id="r", lane=Lane.INTERACTIVE)
    return [piece async for piece in generation]


async def answer(sampling: Sampling, text: str = "Tell me about rivers", choice: int = 0) -> str:
    return "".join(piece.text for piece in await pieces(sampling, text) if piece.choice == choice)


@pytest.mark.parametrize(
    ("text", "head"),
    [("Tell me about rivers", "[simulated toy] "), ("介绍一下长江", "【模拟 toy】")],
    ids=["English", "Chinese"],
)
async def test_every_answer_says_that_it_is_simulated(text: str, head: str):
    assert (await answer(Sampling(max_tokens=400), text)).startswith(head)


async def test_the_same_request_gets_the_same_text_and_seeds_change_it():
    first = await answer(Sampling(max_tokens=400, seed=1))
    assert first == await answer(Sampling(max_tokens=400, seed=1))
    others = {await answer(Sampling(max_tokens=400, seed=seed)) for seed in range(2, 8)}
    assert others - {first}


async def test_greedy_choices_are_alike_and_sampled_ones_differ():
    greedy = await pieces(Sampling(max_tokens=400, temperature=0.0, choices=2))
    texts = ["".join(p.text for p in greedy if p.choice == n) for n in (0, 1)]
    assert texts[0] == texts[1]
    sampled = await pieces(Sampling(max_tokens=400, choices=8))
    assert len({"".join(p.text for p in sampled if p.choice == n) for n in range(8)}) > 1
    assert sorted(p.choice for p in sampled if p.finish) == list(range(8))


async def test_a_token_limit_ends_the_answer():
    found = await pieces(Sampling(max_tokens=5))
    assert sum(piece.token_count for piece in found) == 5
    assert found[-1].finish is Finish.LENGTH
    whole = await pieces(Sampling(max_tokens=1000))
    assert whole[-1].finish is Finish.STOP


async def test_a_stop_text_ends_the_answer_and_is_not_returned():
    whole = await answer(Sampling(max_tokens=1000))
    cut = await pieces(Sampling(max_tokens=1000, stop=("never", "toy]")))
    assert "".join(piece.text for piece in cut) == whole.partition("toy]")[0]
    assert cut[-1].finish is Finish.STOP


async def test_an_answer_stopped_at_once_still_ends():
    (only,) = await pieces(Sampling(max_tokens=9, stop=("[",)))
    assert (only.text, only.token_count, only.finish) == ("", 0, Finish.STOP)


async def test_logprobs_come_one_a_token_with_alternatives_best_first():
    found = await pieces(Sampling(max_tokens=12, logprobs=True, top_logprobs=3))
    for piece in found:
        assert len(piece.scores) == piece.token_count == len(piece.token_ids)
        for score in piece.scores:
            assert len(score.top) == 3
            assert [one.logprob for one in score.top] == sorted((one.logprob for one in score.top), reverse=True)
            assert score.chosen.logprob < 0
    assert not any(piece.scores for piece in await pieces(Sampling(max_tokens=12)))


async def test_an_answer_takes_the_time_of_its_tier():
    simulated, clock = backend()
    prompt = await simulated.prepare([Turn("user", "x")])
    start = clock.monotonic()
    arrivals = [
        clock.monotonic() - start
        async for _ in simulated.generate(prompt, Sampling(max_tokens=11), request_id="r", lane=Lane.INTERACTIVE)
    ]
    assert arrivals[0] == pytest.approx(0.1, abs=0.01)
    assert arrivals[-1] - arrivals[0] == pytest.approx(10 / 50)


async def test_an_instant_engine_writes_many_tokens_at_once():
    instant = TIER.model_copy(update={"simulated_ttft_ms": 0.0, "simulated_tokens_per_second": 1e9})
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        clock.advance(max(seconds, 0.001))

    simulated = SimulatedBackend(instant, clock=clock, sleep=sleep)
    prompt = await simulated.prepare([Turn("user", "x")])
    found = [p async for p in simulated.generate(prompt, Sampling(max_tokens=40), request_id="r", lane=Lane.BATCH)]
    assert len(found) < 5
    assert sum(piece.token_count for piece in found) == 40


async def test_kv_cache_fills_while_answers_run_and_empties_after():
    simulated, _ = backend()
    prompt = await simulated.prepare([Turn("user", "x")])
    generation = simulated.generate(prompt, Sampling(max_tokens=9), request_id="r", lane=Lane.INTERACTIVE)
    await anext(generation)
    assert simulated.kv_cache_utilization > 0
    await generation.aclose()
    assert simulated.kv_cache_utilization == 0


def test_a_batch_slows_each_answer_and_serves_more_in_all():
    pace = Pace(ttft_s=0.045, tokens_per_second=31)
    alone, of_four, of_sixteen = (1 / pace.token_s(n) for n in (1, 4, 16))
    # What vLLM did on two cores: 31 alone, 24 each of 4, 11 to 14 each of 16.
    assert alone == pytest.approx(31)
    assert of_four == pytest.approx(24, abs=1)
    assert of_sixteen == pytest.approx(12.4, abs=1.5)
    assert pace.prefill_s(1000, 1) > pace.prefill_s(10, 1)
