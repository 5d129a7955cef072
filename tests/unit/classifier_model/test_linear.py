"""What the shipped model says of requests."""

import pytest
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.model import LinearModel, load_builtin
from tiermesh.shared.rules import TokenWeights


@pytest.fixture(scope="module")
def model():
    return LinearModel(load_builtin())


def asked(text):
    return read_features((Turn("user", text),), TokenWeights())


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Translate this sentence into Danish: the boat leaves at six", "translate"),
        ("把这句话翻译成荷兰语：船六点开", "translate"),
        ("Write a Rust function that parses a hex colour", "code"),
        ("用Go写一个函数解析十六进制颜色", "code"),
        ("What is 48 * 17 + 3?", "math"),
        ("计算48乘以17加3", "math"),
        (
            "Summarize this article in two sentences: The mill closed in 1962. Its wheel still turns on Sundays.",
            "summarise",
        ),
        ("用两句话总结这篇文章：磨坊1962年关闭，水车每逢周日仍在转动。", "summarise"),
    ],
)
def test_plain_requests_are_recognised_in_both_languages(model, text, task):
    assert model.predict([asked(text)])[0].task_type == task


@pytest.mark.parametrize(
    ("easy", "hard"),
    [
        (
            "What is the capital of Norway?",
            "Prove that every continuous function on a compact set is uniformly continuous.",
        ),
        ("你好呀", "设计一个支持多活的分布式事务方案，写出不变量并证明其正确性。"),
    ],
)
def test_hard_requests_are_harder_and_less_for_a_small_model(model, easy, hard):
    low, high = model.predict([asked(easy), asked(hard)])
    assert low.complexity < high.complexity
    assert low.small_right > high.small_right
    assert low.answer_tokens < high.answer_tokens


def test_a_batch_says_what_single_requests_say(model):
    requests = [asked(text) for text in ("hello there", "2+2", "请总结下面的内容：今天开会了。", "", "🙂" * 50)]
    assert model.predict(requests) == [model.predict([request])[0] for request in requests]
    assert model.predict([]) == []
