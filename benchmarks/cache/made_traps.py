"""Questions that only look alike, made from templates: as many as it takes to bound a rare false hit.

A few hundred written pairs cannot tell a share of one in a thousand from none. Each template here asks for something
that words put into it change: a denial, a number, a name, who does it to whom, when, or which thing. Two fillings
of one template are a trap. The templates and the words of the two halves have nothing in common: guards
and word lists were made with the first half (`tuning`) in view, the second was only counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

SEED = 20_260
TEMPLATES: dict[str, dict[str, list[tuple[str, str, str]]]] = {
    "en": {
        "tuning": [
            ("negation", "Can I {verb} the {thing}?", "Can I not {verb} the {thing}?"),
            ("negation", "How do I enable {thing} alerts?", "How do I disable {thing} alerts?"),
            ("negation", "Is it safe to {verb} a {thing}?", "Is it unsafe to {verb} a {thing}?"),
            ("number", "How do I {verb} {n} files?", "How do I {verb} {m} files?"),
            ("number", "What is {n} percent of {k}?", "What is {m} percent of {k}?"),
            ("entity", "How do I {verb} my {thing} in {place}?", "How do I {verb} my {thing} in {place2}?"),
            ("entity", "Does {name} need a {thing}?", "Does {name2} need a {thing}?"),
            ("roles", "How do I get from {place} to {place2}?", "How do I get from {place2} to {place}?"),
            ("roles", "Does {name} know {name2}?", "Does {name2} know {name}?"),
            ("time", "When did the {thing} arrive?", "When will the {thing} arrive?"),
            ("time", "What should I {verb} before the {thing}?", "What should I {verb} after the {thing}?"),
            ("thing", "How do I {verb} a {thing}?", "How do I {verb} a {thing2}?"),
            ("thing", "How do I {verb} my {thing}?", "How do I {verb2} my {thing}?"),
            ("question", "How do I {verb} my {thing}?", "When do I {verb} my {thing}?"),
        ],
        "held_out": [
            ("negation", "Should children {verb} {thing}s?", "Should children never {verb} {thing}s?"),
            ("negation", "Why can we {verb} the {thing}?", "Why can't we {verb} the {thing}?"),
            ("negation", "What happens if the {thing} is locked?", "What happens if the {thing} is unlocked?"),
            ("negation", "How do I show the {thing} to guests?", "How do I hide the {thing} from guests?"),
            ("number", "Can {n} people share a {thing}?", "Can {m} people share a {thing}?"),
            ("number", "What does a {n} kg {thing} cost?", "What does a {m} kg {thing} cost?"),
            ("number", "Is version {n} of the {thing} supported?", "Is version {m} of the {thing} supported?"),
            ("entity", "Where can I {verb} a {thing} in {place}?", "Where can I {verb} a {thing} in {place2}?"),
            ("entity", "Who gave the {thing} to {name}?", "Who gave the {thing} to {name2}?"),
            ("entity", "Is {place} bigger than Monaco?", "Is {place2} bigger than Monaco?"),
            ("roles", "Is {place} larger than {place2}?", "Is {place2} larger than {place}?"),
            ("roles", "Did {name} pay {name2}?", "Did {name2} pay {name}?"),
            ("roles", "How do I move a {thing} into a {thing2}?", "How do I move a {thing2} into a {thing}?"),
            ("time", "Where is the {thing} kept in winter?", "Where is the {thing} kept in summer?"),
            ("time", "Was the {thing} free?", "Is the {thing} free?"),
            ("thing", "Why is the {thing} so heavy?", "Why is the {thing2} so heavy?"),
            ("thing", "Which {thing} is the best?", "Which {thing} is the cheapest?"),
            ("thing", "Where can I {verb} a {thing}?", "Where can I {verb2} a {thing}?"),
            ("question", "Why should I {verb} the {thing}?", "How should I {verb} the {thing}?"),
            ("question", "Who may {verb} the {thing}?", "Where may I {verb} the {thing}?"),
        ],
    },
    "zh": {
        "tuning": [
            ("negation", "可以{verb}{thing}吗", "不可以{verb}{thing}吗"),
            ("negation", "怎么打开{thing}提醒", "怎么关闭{thing}提醒"),
            ("number", "怎么{verb}{n}个{thing}", "怎么{verb}{m}个{thing}"),
            ("number", "{n}的百分之十是多少", "{m}的百分之十是多少"),
            ("entity", "在{place}怎么{verb}{thing}", "在{place2}怎么{verb}{thing}"),
            ("entity", "{name}有{thing}吗", "{name2}有{thing}吗"),
            ("roles", "从{place}到{place2}怎么走", "从{place2}到{place}怎么走"),
            ("roles", "{name}认识{name2}吗", "{name2}认识{name}吗"),
            ("time", "{verb}{thing}之前要做什么", "{verb}{thing}之后要做什么"),
            ("thing", "怎么{verb}{thing}", "怎么{verb}{thing2}"),
            ("thing", "如何{verb}{thing}", "如何{verb2}{thing}"),
            ("question", "怎么{verb}{thing}", "为什么{verb}{thing}"),
        ],
        "held_out": [
            ("negation", "孩子能不能{verb}{thing}", "孩子不能{verb}{thing}吗"),
            ("negation", "为什么要{verb}{thing}", "为什么不要{verb}{thing}"),
            ("negation", "{thing}锁定了怎么办", "{thing}解锁了怎么办"),
            ("number", "{n}个人能用一个{thing}吗", "{m}个人能用一个{thing}吗"),
            ("number", "{n}公斤的{thing}多少钱", "{m}公斤的{thing}多少钱"),
            ("number", "第{n}版{thing}什么时候出", "第{m}版{thing}什么时候出"),
            ("entity", "{place}哪里能{verb}{thing}", "{place2}哪里能{verb}{thing}"),
            ("entity", "谁把{thing}给了{name}", "谁把{thing}给了{name2}"),
            ("roles", "{place}比{place2}大吗", "{place2}比{place}大吗"),
            ("roles", "{name}给{name2}付钱了吗", "{name2}给{name}付钱了吗"),
            ("roles", "怎么把{thing}放进{thing2}", "怎么把{thing2}放进{thing}"),
            ("time", "{thing}夏天放在哪里", "{thing}冬天放在哪里"),
            ("time", "{thing}免费吗", "{thing}免费了吗"),
            ("thing", "{thing}为什么这么重", "{thing2}为什么这么重"),
            ("thing", "哪种{thing}最好", "哪种{thing}最便宜"),
            ("thing", "在哪里{verb}{thing}", "在哪里{verb2}{thing}"),
            ("question", "为什么应该{verb}{thing}", "应该怎么{verb}{thing}"),
            ("question", "谁可以{verb}{thing}", "在哪里可以{verb}{thing}"),
        ],
    },
}
WORDS: dict[str, dict[str, dict[str, list[str]]]] = {
    "en": {
        "tuning": {
            "verb": ["renew", "cancel", "install", "repair", "print", "pack", "paint", "insure", "return", "clean"],
            "thing": [
                "passport",
                "printer",
                "bicycle",
                "contract",
                "router",
                "sofa",
                "ticket",
                "camera",
                "license",
                "parcel",
            ],
            "place": ["Paris", "Lyon", "Tokyo", "Austin", "Dublin", "Cairo", "Lima", "Seoul", "Milan", "Perth"],
            "name": ["Anna", "Peter", "Maria", "James", "Chen", "Fatima", "Oliver", "Priya", "Lucas", "Emma"],
        },
        "held_out": {
            "verb": [
                "rent",
                "fold",
                "melt",
                "charge",
                "record",
                "export",
                "import",
                "peel",
                "polish",
                "wrap",
                "lend",
                "borrow",
                "sharpen",
                "weigh",
            ],
            "thing": [
                "blanket",
                "kettle",
                "violin",
                "ladder",
                "server",
                "lantern",
                "drone",
                "backpack",
                "helmet",
                "stapler",
                "tablet",
                "canoe",
            ],
            "place": [
                "Oslo",
                "Nairobi",
                "Denver",
                "Prague",
                "Quito",
                "Hanoi",
                "Bergen",
                "Geneva",
                "Jakarta",
                "Havana",
                "Turin",
                "Leeds",
            ],
            "name": [
                "Greta",
                "Hassan",
                "Ivan",
                "Yuki",
                "Carlos",
                "Naomi",
                "Bruno",
                "Leila",
                "Stefan",
                "Amara",
                "Dimitri",
                "Rosa",
            ],
        },
    },
    "zh": {
        "tuning": {
            "verb": ["修改", "取消", "安装", "修理", "打印", "清洗", "退回", "预订", "分享", "保存"],
            "thing": ["护照", "订单", "自行车", "合同", "路由器", "沙发", "门票", "相机", "驾照", "密码"],
            "place": ["北京", "上海", "广州", "成都", "杭州", "西安", "南京", "武汉", "重庆", "天津"],
            "name": ["小明", "小红", "张伟", "李娜", "王芳", "刘洋", "陈静", "杨光", "赵敏", "周杰"],
        },
        "held_out": {
            "verb": ["租", "折叠", "充电", "录制", "导出", "导入", "削皮", "包装", "出借", "磨", "称重", "涂漆"],
            "thing": [
                "毯子",
                "水壶",
                "小提琴",
                "梯子",
                "服务器",
                "灯笼",
                "无人机",
                "背包",
                "头盔",
                "平板",
                "皮划艇",
                "订书机",
            ],
            "place": ["青岛", "昆明", "大连", "厦门", "长沙", "苏州", "拉萨", "贵阳", "海口", "兰州", "哈尔滨", "合肥"],
            "name": ["阿强", "秀英", "建国", "海燕", "志明", "春娇", "大伟", "晓琳", "国栋", "佩琪", "文静", "子涵"],
        },
    },
}


def make_traps(language: str, part: str, count: int) -> list[dict[str, Any]]:
    """Returns `count` different traps of a half, as many of each template as of any other."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    templates = _in_turn(TEMPLATES[language][part])
    rng = random.Random(f"{SEED} {language} {part}")
    for _ in range(count * 50):
        if len(made) >= count:
            break
        kind, stored, asked = next(templates)
        words = _fill(WORDS[language][part], rng)
        pair = (stored.format(**words), asked.format(**words))
        made.setdefault(pair, {"kind": kind, "same": False, "part": part, "stored": pair[0], "asked": pair[1]})
    return list(made.values())


def _in_turn(templates: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    while True:
        yield from templates


def _fill(words: dict[str, list[str]], rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, choices in words.items():
        found[name], found[f"{name}2"] = rng.sample(choices, 2)
    found["n"], found["m"] = rng.sample(range(2, 100), 2)
    found["k"] = rng.randrange(100, 1000)
    return found
