"""Ways of asking that are one question, and those that only look like it."""

import pytest
from tiermesh.cache.semantic.frames import plain_question
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.order import owned_first, plain_order
from tiermesh.cache.semantic.question import question_of

PLAIN = [
    ("what is the most reliable technique for descaling a kettle", "how to descaling a kettle"),
    ("are there any tips for repotting a fern", "how to repotting a fern"),
    ("what steps do i follow to join a call", "how to join a call"),
    ("is it permitted to record a lecture", "can record a lecture"),
    ("is it okay for rabbits to eat kale", "can rabbits eat kale"),
    ("are you able to sing", "can you sing"),
    ("is it advisable to rinse rice", "should rinse rice"),
    ("do we have to register", "must we register"),
    ("what is the depth of the lake?", "how deep is the lake?"),
    ("what is the lake's depth?", "how deep is the lake?"),
    ("who is the inventor of the zipper?", "who invented the zipper?"),
    ("by whom was the zipper invented?", "who invented the zipper?"),
    ("how can a carpet be cleaned?", "how can cleaned a carpet?"),
    ("in word, how do i add a footnote?", "how do i add a footnote in word"),
    ("which lake is the deepest in europe?", "what is the deepest lake in europe?"),
    ("how do i switch the fan off?", "how do i switch off the fan?"),
    ("i want to sell my boat. how do i do that?", "how to sell my boat"),
    ("how does a crow differ from a raven?", "what is the difference between a crow and a raven?"),
]
LEFT_ALONE = [
    "what is the way to the station",
    "how can i be reached",
    "what is the meaning of depth",
    "can the bill be paid by my sister",
    "how do i get from oslo to bergen",
]
SAME = [
    ("How do I descale a kettle?", "What's the easiest method for descaling a kettle?"),
    ("How do I repot a fern?", "How should a fern be repotted?"),
    ("Can rabbits eat kale?", "Is it safe for rabbits to eat kale?", "wording"),
    ("Can rabbits safely eat kale?", "Is it safe for rabbits to eat kale?"),
    ("How deep is Lake Baikal?", "What is the depth of Lake Baikal?"),
    ("How long do tortoises live?", "What is the life expectancy of a tortoise?"),
    ("Who invented the zipper?", "Who is the inventor of the zipper?"),
    ("How do I change the motto of the group?", "How can the group's motto be changed?"),
    ("How is tofu made?", "How do you make tofu?"),
    ("How do I remove glue from a table?", "How do I get glue off the table?"),
    ("How many strings does a harp have?", "How many strings are there on a harp?"),
    ("Where was Mozart born?", "What is Mozart's birthplace?"),
    ("How many days a week do nurses work?", "How many days do nurses work each week?"),
    ("How do I restore deleted emails?", "Is there a way to get back emails I have deleted?"),
    ("How is gift tax calculated?", "How is tax on gifts calculated?"),
    ("What is the shelf life of yeast?", "What is yeast's shelf life?"),
    ("Where can I buy dog shampoo?", "Where can I buy shampoo for dogs?"),
    ("How do I apply for a patent?", "What is the application process for a patent?"),
    ("Must I tip in Spain?", "Is tipping expected in Spain?"),
    ("At what temperature does tin melt?", "What is the melting point of tin?"),
]
OTHER = [
    ("Can I be sued?", "Can I sue?", "roles"),
    ("How can I be reached?", "How can I reach you?", "roles"),
    ("Can my dog be trained?", "Can my dog train?", "roles"),
    ("What does a judge do?", "What is a judge?", "wording"),
    ("What is needed to make soap?", "How do I make soap?", "question_type"),
    ("Is it safe to eat clay?", "Is it legal to eat clay?", "wording"),
    ("What is the depth of the pool?", "What is the width of the pool?", "wording"),
    ("When does the fair open?", "What is the closing time of the fair?", "polarity"),
    ("What is the brother of my wife called?", "What is the wife of my brother called?", "roles"),
    ("Where can I buy a tea cup?", "Where can I buy a cup of tea?", "roles"),
    ("How do I keep a dog in a house?", "How do I keep a house in a dog?", "roles"),
    ("What is a house cat?", "What is a cat house?", "roles"),
    ("Is this berry edible?", "Is this berry inedible?", "polarity"),
    ("How do I switch the fan off?", "How do I switch the fan on?", "polarity"),
    ("How do I clean a fish from a tank?", "How do I clean a tank?", "wording"),
]


@pytest.mark.parametrize(("text", "plain"), PLAIN)
def test_a_frame_is_read_as_the_plainest_question(text, plain):
    assert plain_question(text) == plain


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_no_frame_is_left_alone(text):
    assert plain_question(text) == text


@pytest.mark.parametrize("pair", SAME)
def test_one_question_in_two_frames(pair):
    one, other = question_of(pair[0]), question_of(pair[1])
    refused = [refusal_of(one, other), refusal_of(other, one)]
    expected = pair[2] if len(pair) > 2 else None
    assert [refusal and refusal.guard for refusal in refused] == [expected, expected], refused


@pytest.mark.parametrize(("asked", "known", "guard"), OTHER)
def test_two_questions_in_like_frames(asked, known, guard):
    one, other = question_of(asked), question_of(known)
    assert [refusal_of(one, other).guard, refusal_of(other, one).guard] == [guard, guard]


@pytest.mark.parametrize(
    ("text", "most", "order"),
    [
        ("Where does my mother's father live?", 1, ["father", "mother", "live"]),
        ("Where does the father of my mother live?", 1, ["father", "mother", "live"]),
        ("What is the printer's serial number?", 2, ["serial", "number", "printer"]),
    ],
)
def test_what_is_owned_stands_before_its_owner(text, most, order):
    question = question_of(text)
    assert owned_first(plain_order(question), question, most=most) == order


def test_the_active_voice_comes_first():
    assert plain_order(question_of("Is the roof covered by the policy?")) == ["policy", "cover", "roof"]
