"""Chinese frames: read as the plainest question, and never as another one."""

import pytest
from tiermesh.cache.semantic.frames_zh import narrow, plain_chinese, simplified
from tiermesh.cache.semantic.guards import refusal_of
from tiermesh.cache.semantic.question import question_of


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("你好,请问一下怎么钓鱼", "怎么钓鱼"),
        ("有人知道灯塔是谁造的吗", "灯塔是谁造的"),
        ("能不能解释一下为什么会打雷", "为什么会打雷"),
        ("解释一下摩擦力", "摩擦力是什么"),
        ("怎么给阳台做清洁", "怎么清洁阳台"),
        ("一只章鱼有几条触手", "章鱼有几个触手"),
        ("三杯水是多少毫升", "3杯水是多少毫升"),
        ("我想改签,怎么操作", "改签,怎么操作"),
        ("耳机无法连接", "耳机连接不了"),
        ("饺子的做法", "饺子怎么做"),
        ("怎么划船?谢谢", "怎么划船"),
    ],
)
def test_a_frame_is_read_as_the_plainest_question(text, plain):
    assert plain_chinese(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "给小学生讲讲火山",
        "第一名有奖吗",
        "用一句话解释摩擦力",
        "百度怎么用",
        "万一下雪怎么走",
        "怎么把信给他",
        "写辞职信",
    ],
)
def test_what_is_no_frame_is_left_alone(text):
    assert plain_chinese(text) == text


def test_widths_and_characters_have_one_form():
    assert narrow("ＷｉＦｉ　５Ｇ？") == "WiFi 5G?"
    assert simplified("電腦壞了怎麼辦") == "电脑坏了怎么办"
    assert question_of("電腦壞了怎麼辦？").signature == question_of("电脑坏了怎么办").signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("灯塔多重", "灯塔的重量是多少"),
        ("生蚝能吃吗", "能吃生蚝吗"),
        ("灯塔高度", "灯塔有多高"),
        ("橡树多大了", "橡树的年龄是多少"),
        ("要不要带伞", "需要带伞吗"),
    ],
)
def test_one_question_in_two_frames(one, other):
    a, b = question_of(one), question_of(other)
    assert refusal_of(a, b) is None, refusal_of(a, b)
    assert refusal_of(b, a) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("橡树多少岁", "橡树有多大"),
        ("我怎么告发上司", "上司怎么告发我"),
        ("海豹怎么追企鹅", "企鹅怎么追海豹"),
        ("一张票多少钱", "两张票多少钱"),
        ("灯塔哪年开放", "灯塔几点开放"),
        ("解释一下火山的原因", "解释一下火山的后果"),
        ("耳机连接不了", "耳机连接"),
        ("谁能照顾病人", "病人能照顾谁"),
        ("我想退货怎么办", "我不想退货怎么办"),
    ],
)
def test_two_questions_in_like_frames(one, other):
    a, b = question_of(one), question_of(other)
    assert refusal_of(a, b)
    assert refusal_of(b, a)
