"""Which texts count as the same."""

import pytest
from tiermesh.shared.rules import fold, phrase_key


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello  World", "hello world"),
        ("ＨＥＬＬＯ，ｗｏｒｌｄ！", "hello,world!"),
        ("你好。谢谢、再见？", "你好.谢谢,再见?"),
        ("“don’t”", '"don\'t"'),
        ("a\u200bb\ufeff", "ab"),
        ("a\r\nb \n\n\n c", "a\nb\n\nc"),
        ("Straße", "strasse"),
        ("３．５ ㎏", "3.5 kg"),
        ("", ""),
    ],
)
def test_fold(text, folded):
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Hello!!!", "hello"),
        ("  你 好 ，😊", "你好"),
        ("Hi, there 👋", "hi there"),
        ("重置 密码", "重置密码"),
        ("我用 Python 3.5。", "我用python 3.5"),
        ("“Hello”", "hello"),
        ("C++", "c++"),
        ("what's node.js?", "what's node.js"),
        ("-5", "-5"),
        ("30%", "30%"),
        ("？！……", ""),
        ("👋🎉", ""),
    ],
)
def test_phrase_key(text, key):
    assert phrase_key(text) == key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my password?", "How do I change my password?"),
        ("3.5", "35"),
        ("10 kg", "10 g"),
        ("c", "c++"),
        ("is it safe", "is it not safe"),
        ("cant", "can't"),
        ("重置密码", "重设密码"),
        ("+5", "-5"),
    ],
)
def test_different_meanings_stay_apart(one, other):
    assert phrase_key(one) != phrase_key(other)
