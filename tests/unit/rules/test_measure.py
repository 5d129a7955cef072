"""Token estimates, against counts that SmolLM2's own tokenizer gave."""

import pytest
from tiermesh.shared.rules import TokenWeights, estimate_tokens, measure

MEASURED = [
    (
        "The quick settlement of coastal towns changed the shape of the region. Fishermen who had once lived from the sea began to rent rooms to visitors, and within twenty years most of the harbours had become marinas. Local historians argue about whether the change was planned or simply happened.",
        56,
    ),
    ("How do I reset my password? I have tried the link in the e-mail, but it says that the token has expired.", 27),
    (
        "Please summarise the following meeting notes in three bullet points: Anna said that the release slips to Thursday; Bob wants two more testers; we agreed to cut the export feature.",
        36,
    ),
    ("What is the capital of France, and how many people lived there in 1900?", 20),
    (
        "Photosynthesis is the process by which green plants use sunlight to synthesise nutrients from carbon dioxide and water. It generally involves the green pigment chlorophyll and generates oxygen as a by-product.",
        37,
    ),
    ("Invoice 4711 of 2024-03-15: 12 x 19.99 EUR = 239.88 EUR, due within 30 days. Contact: billing@example.com", 55),
    ("今天天气很好，我们去公园玩吧。小明带了风筝，小红带了一些水果和饮料，大家玩得非常开心。", 79),
    ("请问我的订单什么时候发货？我上周三下的单，订单号是20240315，到现在物流信息还没有更新。", 71),
    (
        "人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的能以人类智能相似的方式做出反应的智能机器。该领域的研究包括机器人、语言识别、图像识别、自然语言处理和专家系统等。",
        154,
    ),
    ("把下面这段话翻译成英文：中国的经济在过去四十年里取得了举世瞩目的成就，人民生活水平显著提高。", 85),
    ("帮我写一个Python函数，输入一个列表，返回其中出现次数最多的元素，并给出单元测试。", 56),
    ("會議紀錄：王經理表示，產品發佈將延後到下週四；李工程師希望再增加兩位測試人員；大家同意刪除匯出功能。", 99),
    ("如何重置密码？我点击了邮件里的链接，但是提示链接已经过期，请问应该怎么办？", 65),
    ("春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。", 51),
    ("小王今年24岁，比小李大3岁，小李比小张小5岁，请问三个人的年龄之和是多少？", 67),
    ("用 Docker 部署 FastAPI 服务时，container 启动后立刻退出，log 里显示 ModuleNotFoundError，应该怎么排查？", 55),
    ("Hello 你好 👋 nice to meet you 😊", 15),
    ("Explain the difference between 了 and 过 in Chinese, with examples such as 我去了北京 and 我去过北京.", 40),
]


def estimate(text, **weights):
    return estimate_tokens(measure(text), TokenWeights(**weights))


@pytest.mark.parametrize(("text", "tokens"), MEASURED)
def test_estimates_are_near_the_tokenizer(text, tokens):
    assert estimate(text) == pytest.approx(tokens, rel=0.3, abs=3)


def test_estimates_are_right_on_the_whole():
    assert sum(estimate(text) for text, _ in MEASURED) == pytest.approx(sum(n for _, n in MEASURED), rel=0.1)


def test_weights_are_the_operators():
    text = "今天天气很好" * 10
    assert estimate(text, han=0.7) < estimate(text) / 2


def test_empty_and_tiny_texts():
    assert estimate("") == 0
    assert estimate("a") >= 1
    assert estimate(" ") >= 1


def test_counts():
    counts = measure("Héllo 你好，世界 12!\nかな 한국 Привет 👋")
    assert (counts.letters, counts.accented, counts.han, counts.digits) == (4, 1, 4, 2)
    assert (counts.kana, counts.hangul, counts.emoji, counts.lines) == (2, 2, 1, 2)
    assert counts.other_letters == 6
    assert counts.symbols == 1
    assert counts.marks == 1


def test_lone_surrogates_do_no_harm():
    assert measure("a\ud800b").chars == 3
