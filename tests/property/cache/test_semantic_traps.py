"""Questions that only look alike, made in numbers: one trap for each way in which guards have been loosened.

Where a guard lets two ways of asking pass as one, a template here has its neighbour that asks something else.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.tier import comparable

PERSONS_ZH = [
    "老师",
    "学生",
    "医生",
    "病人",
    "经理",
    "员工",
    "猫",
    "狗",
    "房东",
    "租客",
    "卖家",
    "买家",
    "孩子",
    "大人",
    "家长",
    "司机",
    "乘客",
    "警察",
    "小偷",
    "管理员",
]
DEEDS_ZH = [
    "联系",
    "举报",
    "邀请",
    "照顾",
    "投诉",
    "教",
    "骗",
    "训练",
    "看",
    "打",
    "帮助",
    "信任",
    "了解",
    "管理",
    "咬",
    "喂",
    "起诉",
    "评价",
    "找",
    "付钱给",
    "借钱给",
    "通知",
    "喜欢",
    "关注",
]
TEMPLATES_ZH = [
    ("{a}怎么{v}{b}", "{b}怎么{v}{a}"),
    ("{a}可以{v}{b}吗", "{b}可以{v}{a}吗"),
    ("{a}为什么{v}{b}", "{b}为什么{v}{a}"),
    ("{a}什么时候{v}{b}", "{b}什么时候{v}{a}"),
    ("怎么让{a}{v}{b}", "怎么让{b}{v}{a}"),
    ("{a}应该{v}{b}吗", "{b}应该{v}{a}吗"),
    ("{a}多久{v}{b}一次", "{b}多久{v}{a}一次"),
    ("谁{v}{b}", "{b}{v}谁"),
    ("{a}对{b}做了什么", "{b}对{a}做了什么"),
    ("我怎么{v}{b}", "{b}怎么{v}我"),
    ("{b}会{v}我吗", "我会{v}{b}吗"),
    ("{a}给{b}做什么", "{b}给{a}做什么"),
    ("{a}比{b}大吗", "{b}比{a}大吗"),
    ("怎么从{a}那里得到{b}", "怎么从{b}那里得到{a}"),
    ("怎么{v}{b}", "怎么不{v}{b}"),
    ("什么时候{v}{b}", "什么时候别{v}{b}"),
    ("我想知道怎么{v}{b}", "我想知道为什么{v}{b}"),
    ("请告诉我如何{v}{b}", "请告诉我谁{v}{b}"),
    ("{b}多大", "{b}多重"),
    ("{b}有多高", "{b}有多重"),
    ("{b}有多大", "{b}有多快"),
    ("几个{b}", "几岁{b}"),
    ("3只{b}多少钱", "4只{b}多少钱"),
    ("一只{b}多少钱", "两只{b}多少钱"),
    ("{v}{b}的原因", "{v}{b}的后果"),
    ("{v}{b}的方法", "{v}{b}的原因"),
    ("{b}几点来", "{b}几月来"),
    ("{b}哪年来", "{b}哪天来"),
    ("登录失败怎么办", "登录怎么办"),
    ("{b}打不开", "{b}打得开"),
    ("想{v}{b}，怎么做", "不想{v}{b}，怎么做"),
    ("给{a}进行{v}", "给{b}进行{v}"),
    ("介绍一下{a}", "介绍一下{b}"),
    ("{a}要走了怎么办", "{a}走了怎么办"),
    ("{a}快生病了怎么办", "{a}生病了怎么办"),
    ("{a}为什么会{v}{b}", "{a}为什么要{v}{b}"),
    ("{a}怎么来北京", "{a}怎么去北京"),
]
PERSONS = [
    "teacher",
    "student",
    "doctor",
    "patient",
    "manager",
    "employee",
    "cat",
    "dog",
    "landlord",
    "tenant",
    "seller",
    "buyer",
    "child",
    "parent",
    "driver",
    "passenger",
    "officer",
    "thief",
    "team",
    "coach",
]
DEEDS = {
    "contact": "contacted",
    "report": "reported",
    "invite": "invited",
    "follow": "followed",
    "trust": "trusted",
    "help": "helped",
    "train": "trained",
    "sue": "sued",
    "pay": "paid",
    "teach": "taught",
    "find": "found",
    "visit": "visited",
    "notify": "notified",
    "block": "blocked",
    "thank": "thanked",
    "call": "called",
    "hire": "hired",
    "praise": "praised",
    "watch": "watched",
    "see": "seen",
}
TEMPLATES = [
    ("When did the {a} {v} the {b}?", "When did the {b} {v} the {a}?"),
    ("When was the {a} {d}?", "When did the {a} {v}?"),
    ("Where was the {a} {d}?", "Where did the {a} {v}?"),
    ("Who {d} the {a}?", "Who did the {a} {v}?"),
    ("Who was {d} by the {a}?", "Who {d} the {a}?"),
    ("The {a} was {d} by whom?", "The {a} {d} whom?"),
    ("Can you tell me how to {v} the {a}?", "Can you tell me how not to {v} the {a}?"),
    ("Does anyone know how to {v} a {a}?", "Does anyone {v} a {a}?"),
    ("How do I make a call to the {a}?", "How do I make the {a} call?"),
    ("How do I give the {a} a call?", "How do I get a call from the {a}?"),
    ("What does the {a} think of the {b}?", "What does the {b} think of the {a}?"),
    ("Who thinks of the {a}?", "Who does the {a} think of?"),
    ("the {a} of the {b}", "the {b} of the {a}"),
    ("How do I find the {a} of the {b} in the app?", "How do I find the {b} of the {a} in the app?"),
    ("{a} recipe", "{b} recipe"),
    ("{a} price", "{a} weight"),
    ("best {a}", "worst {a}"),
    ("What is a {a} for?", "What is a {a} like?"),
    ("What is the best {a} for a {b}?", "What is the best {b} for a {a}?"),
    ("How do I {v} a {a} quickly?", "How do I {v} a {a} slowly?"),
    ("How do I make the {a} warmer?", "How do I make the {a} cooler?"),
    ("How do I make the {a} brighter?", "How do I make the {a} darker?"),
    ("What time does the {a} leave?", "What day does the {a} leave?"),
    ("In what month do {a}s travel?", "In what year do {a}s travel?"),
    ("How do I update my {a} photo?", "How do I delete my {a} photo?"),
    ("I don't know how to {v} my {a}", "I don't know how my {a} can {v}"),
    ("Is the {a} available?", "Is the {a} unavailable?"),
    ("Recommend a good {a}", "Recommend a bad {a}"),
    ("Can you recommend a {a}?", "Can I recommend a {a}?"),
    ("What {a} do they use in Peru?", "What {a} do they use in Chile?"),
    ("Which {a} is the largest in the world?", "Which {a} is the largest in Asia?"),
    ("How do I take a picture of the {a}?", "How does the {a} take a picture?"),
    ("How often does the {a} need to be {d}?", "How often does the {a} need to {v}?"),
    ("How do I {v} my {a} without a {b}?", "How do I {v} my {b} without a {a}?"),
    ("What is a {a} a sign of?", "What is a sign of a {a}?"),
    ("I want to learn to {v} a {a}", "I want to learn why {a}s {v}"),
    ("How does the {a} {v} the {b}?", "How is the {a} {d} by the {b}?"),
    ("books about the {a} by the {b}", "books about the {b} by the {a}"),
    ("How do I cook for the {a}?", "How do I cook the {a}?"),
    ("Can I {v} with a {a}?", "Can I {v} a {a}?"),
    ("Why is the {a} so boring?", "Why is the {a} so bored?"),
    ("Is my {a} annoying?", "Is my {a} annoyed?"),
    ("How do I remember to call the {a}?", "How do I remember calling the {a}?"),
    ("What do {a}s want?", "What are {a}s?"),
    ("Who needs a {a}?", "Who has a {a}?"),
    ("Why do {a}s want to {v}?", "Why do {a}s {v}?"),
    ("What does the {a} need?", "What needs the {a}?"),
    ("How do I file a {a}?", "How do I document a {a}?"),
    ("How do I monitor a {a}?", "How do I screen a {a}?"),
    ("Hi, how do I {v} the {a}? Thanks", "Hi, when do I {v} the {a}? Thanks"),
]


def refuses(stored, asked):
    one, other = comparable(stored), comparable(asked)
    return one is None or other is None or bool(refusal_of(other, one) and refusal_of(one, other))


@pytest.mark.parametrize(("stored", "asked"), TEMPLATES_ZH)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_made_trap_is_a_hit_in_chinese(stored, asked, data):
    a, b = data.draw(st.lists(st.sampled_from(PERSONS_ZH), min_size=2, max_size=2, unique=True))
    words = {"a": a, "b": b, "v": data.draw(st.sampled_from(DEEDS_ZH))}
    assert refuses(stored.format(**words), asked.format(**words))


@pytest.mark.parametrize(("stored", "asked"), TEMPLATES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_made_trap_is_a_hit_in_english(stored, asked, data):
    a, b = data.draw(st.lists(st.sampled_from(PERSONS), min_size=2, max_size=2, unique=True))
    verb = data.draw(st.sampled_from(sorted(DEEDS)))
    words = {"a": a, "b": b, "v": verb, "d": DEEDS[verb]}
    assert refuses(stored.format(**words), asked.format(**words))
