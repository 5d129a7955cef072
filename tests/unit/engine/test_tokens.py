import pytest
from tiermesh.engine.tokens import count_tokens, split_tokens


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello, world!",
        "我的订单什么时候发货？",
        "mixed 中英 text 123,456",
        "a\n\n  b\tc",
        "👩‍👩‍👧 family",
        "naïve e\u0301",
        "ไทย" * 9,
    ],
)
def test_pieces_joined_are_the_text(text: str):
    assert "".join(split_tokens(text)) == text
    assert count_tokens(text) == len(split_tokens(text))


def test_chinese_has_a_token_a_character_and_english_a_token_a_word():
    assert split_tokens("我的订单") == ["我", "的", "订", "单"]
    assert split_tokens("the quick fox") == ["the", " quick", " fox"]


def test_one_very_long_word_is_many_tokens():
    assert count_tokens("a" * 1200) == 100
