import pytest
from tiermesh.engine.limits import answer_limit
from tiermesh.shared.errors import ContextTooLong


@pytest.mark.parametrize(
    ("prompt", "wanted", "expected"),
    [(10, 5, 5), (10, 900, 50), (90, 900, 10), (99, 900, 1)],
    ids=["as asked", "capped by the tier", "capped by the context left", "room for one token"],
)
def test_answers_are_capped(prompt: int, wanted: int, expected: int):
    assert answer_limit(prompt, wanted, context_tokens=100, answer_tokens=50) == expected


def test_a_prompt_that_fills_the_context_is_refused_with_numbers():
    with pytest.raises(
        ContextTooLong, match=r"the prompt has 130 tokens, and this tier holds 100 .* by 31 tokens"
    ) as error:
        answer_limit(130, 1, context_tokens=100, answer_tokens=50)
    assert error.value.field == "messages"
