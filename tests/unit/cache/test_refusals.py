"""Which answers decline."""

import pytest
from tiermesh.cache.refusals import is_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I cannot provide medical advice.",
        "Sorry, I am unable to open links.",
        "I cannot assist with this request.",
        "As an AI language model, I do not have opinions.",
        "Unfortunately, that is not possible for me.",
        "抱歉，我无法回答这个问题。",
        "对不起，这个我不能提供。",
        "作为一个人工智能，我没有个人看法。",
        "我无法协助完成这个请求。",
    ],
)
def test_refusals(text):
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Paris is the capital of France.",
        "You cannot take liquids over 100 ml on board.",
        "I can help you with that: open the settings first.",
        "Dogs can't eat grapes.",
        "孕妇不能吃这种药。",
        "可以，请在设置里打开。",
        "要道歉，可以说“对不起”。" + "说明" * 100 + "无法",
        "",
    ],
)
def test_answers(text):
    assert not is_refusal(text)
