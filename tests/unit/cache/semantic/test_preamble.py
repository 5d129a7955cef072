"""What is said around a question goes; what is asked of the one who answers stays."""

import pytest
from tiermesh.cache.semantic.preamble import without_preamble


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("hi there, could you please tell me how to fold a map?", "how to fold a map?"),
        ("does anybody know where the fuse box is?", "where the fuse box is?"),
        ("just wondering, how do owls hunt?", "how do owls hunt?"),
        ("quick question: what is a lien?", "what is a lien?"),
        ("i do not understand why bread rises", "why bread rises"),
        ("i would like to know how to tune a banjo, thanks in advance!", "how to tune a banjo"),
        ("how do owls hunt? thanks", "how do owls hunt?"),
    ],
)
def test_what_is_said_around_a_question_goes(text, rest):
    assert without_preamble(text).rstrip("?") == rest.rstrip("?")


@pytest.mark.parametrize(
    "text",
    [
        "how do you say thank you in korean?",
        "explain gravity in one sentence",
        "can you swim?",
        "tell me a story",
        "do you know it?",
        "how do you spell please",
        "i need help",
        "show me the blue one",
    ],
)
def test_what_is_asked_for_stays(text):
    assert without_preamble(text) == text
