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
        ("我想改签,怎么操作", "怎么改签"),
        ("耳机无法连接", "耳机连接不了"),
        ("饺子的做法", "饺子怎么做"),
        ("怎么划船?谢谢", "怎么划船"),
        ("在excel里如何画图表", "excel如何画图表"),
        ("怎么用rust写日志", "怎么rust写日志"),
        ("怎么办理居住证", "怎么申办居住证"),
        ("可以给兔子吃胡萝卜吗", "兔子可以吃胡萝卜吗"),
        ("灯塔的联系方式是什么", "怎么联系灯塔"),
        ("公司成立于哪一年", "公司哪年成立"),
        ("能介绍一下灯塔吗", "灯塔是什么"),
        ("能告诉我灯塔为什么倒了吗", "灯塔为什么倒了"),
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
        "老师能罚学生吗",
        "护照丢了怎么办",
        "怎么用rust",
        "在哪里取灯笼",
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
        ("铜的热量是多少", "铜有多少卡路里"),
        ("怎么更改头像", "在哪里可以更改头像"),
        ("灯塔离码头多远", "灯塔到码头有多远"),
        ("潮汐的过程是什么", "潮汐是怎么进行的"),
        ("光速是多少", "光的速度有多快"),
        ("含不含午餐", "含午餐吗"),
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
