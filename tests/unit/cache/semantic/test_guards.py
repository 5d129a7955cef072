"""Each guard alone: what it refuses, and what it lets pass."""

import pytest
from tiermesh.cache.semantic.guards import (
    code,
    entities,
    language,
    manner,
    mention,
    numbers,
    polarity,
    question_type,
    refusal_of,
    roles,
    time,
    wording,
)
from tiermesh.cache.semantic.lexicon import chinese, english
from tiermesh.cache.semantic.question import question_of

REFUSED = [
    (polarity, "How can I switch dark mode on?", "How can I switch dark mode off?"),
    (polarity, "May I take this pill with milk?", "May I not take this pill with milk?"),
    (polarity, "Which plants are poisonous?", "Which plants aren't poisonous?"),
    (polarity, "Is this mushroom edible?", "Is this mushroom inedible?"),
    (polarity, "这种药哺乳期能吃吗", "这种药哺乳期不能吃吗"),
    (polarity, "怎么打开免打扰", "怎么关闭免打扰"),
    (numbers, "Convert 12 GBP to CHF", "Convert 21 GBP to CHF"),
    (numbers, "Set an alarm in twenty minutes", "Set an alarm in thirty minutes"),
    (numbers, "How far is 3 km?", "How far is 3 miles?"),
    (numbers, "满200减多少", "满500减多少"),
    (numbers, "三个月的小猫能洗澡吗", "两个月的小猫能洗澡吗"),
    (entities, "How do I get to Lisbon?", "How do I get to Porto?"),
    (entities, 'Translate "cheers" into Polish', 'Translate "sorry" into Polish'),
    (entities, "Why does build.log grow?", "Why does error.log grow?"),
    (entities, "《活着》的作者是谁", "《兄弟》的作者是谁"),
    (entities, "Docker怎么安装", "Nginx怎么安装"),
    (roles, "How do I drive from Oslo to Bergen?", "How do I drive from Bergen to Oslo?"),
    (roles, "Can the buyer sue the seller?", "Can the seller sue the buyer?"),
    (roles, "Is tea stronger than coffee?", "Is coffee stronger than tea?"),
    (roles, "What is my name?", "What is your name?"),
    (roles, "从杭州到南京怎么走", "从南京到杭州怎么走"),
    (roles, "小李比小张高吗", "小张比小李高吗"),
    (question_type, "How do I enrol?", "Where do I enrol?"),
    (question_type, "Can I cancel?", "How do I cancel?"),
    (question_type, "What is the capital of Peru?", "Where is the capital of Peru?"),
    (question_type, "怎么更改头像", "在哪里查看头像"),
    (question_type, "怎么报销", "在哪里报销"),
    (question_type, "可以退票吗", "怎么退票"),
    (time, "What is on the menu today?", "What's on the menu today?"),
    (time, "When will my parcel arrive?", "When did my parcel arrive?"),
    (time, "今天食堂吃什么", "请问今天食堂吃什么"),
    (time, "快递会到吗", "快递到了吗"),
    (code, "What does `a = b` do?", "What does `a == b` do?"),
    (code, "Why does foo(1) fail?", "Why does foo(2) fail?"),
    (code, "`rm -r`怎么用", "`rm -f`怎么用"),
    (language, "How do I pay?", "怎么付款"),
    (language, "Как мне оплатить?", "Как мне оплатить?"),
    (language, "¿Cómo puedo pagar?", "¿Cómo puedo pagar?"),
    (language, "支払い方法は何ですか", "支払い方法は何ですか"),
    (mention, "How do you say please in French?", "How do you say thanks in French?"),
    (mention, "How is quickly spelled?", "How is actually spelled?"),
    (mention, "What does huge mean?", "What does enormous mean?"),
    (mention, "What is a synonym of big?", "What is a synonym of large?"),
    (mention, "谢谢用法语怎么说", "请用法语怎么说"),
    (mention, "早上好用韩语怎么说", "你好用韩语怎么说"),
    (mention, "麻烦是什么意思", "请问是什么意思"),
    (manner, "Briefly explain how TCP works", "How does TCP work?"),
    (manner, "Explain how TCP works in detail", "Explain how TCP works"),
    (manner, "Explain to a child why it rains", "Explain why it rains"),
    (manner, "Explain gravity in two sentences", "Explain gravity step by step"),
    (manner, "请详细解释光合作用怎么进行", "请简单解释光合作用怎么进行"),
    (manner, "用通俗的话解释区块链是什么", "区块链是什么"),
    (wording, "What is the safest way to cross a river?", "What is the quickest way to cross a river?"),
    (wording, "Can puppies eat rice?", "Can dogs eat rice?"),
    (wording, "小猫能喝牛奶吗", "猫能喝牛奶吗"),
    (wording, "How do I archive a chat?", "How do I export a chat?"),
    (wording, "How do I return my shoes?", "How do I return my jacket?"),
    (wording, "怎么申请退款", "怎么申请退货"),
    (wording, "我的订单什么时候发货", "我的订单什么时候到货"),
]
ALLOWED = [
    ("How do I reset my PIN?", "What are the steps to reset my PIN?"),
    ("How can I delete my photos?", "How do I remove my pictures?"),
    ("Why is the sea salty?", "What is the reason the sea is salty?"),
    ("What time does the library open?", "When does the library open?"),
    ("How many legs does a spider have?", "What is the number of legs a spider has?"),
    ("I'd like to know how to merge two PDFs", "How do I combine two PDF files?"),
    ("How do I get to the station from here?", "How do I get from here to the station?"),
    ("In Excel, how do I freeze a row?", "How do I freeze a row in Excel?"),
    ("What does osmosis mean?", "What is the meaning of osmosis?"),
    ("What is the definition of osmosis?", "What is osmosis?"),
    ("How do you say goodbye in Italian?", "What is the Italian word for goodbye?"),
    ("How does TCP work in detail?", "In detail, how does TCP work?"),
    ("谢谢用法语怎么说", "谢谢用法语如何说"),
    ("请详细介绍一下光合作用是什么", "详细介绍光合作用是什么"),
    ("What is the capital of Peru?", "Which city is the capital of Peru?"),
    ("How do I check which ports are open?", "How do I check what ports are open?"),
    ("请问怎么注销账户？", "如何注销账号"),
    ("密码忘了怎么办", "忘记密码应该怎么办？"),
    ("地铁几点关门", "地铁什么时候关门"),
    ("能不能用微信付款", "可以用微信支付吗"),
]


@pytest.mark.parametrize(("guard", "asked", "known"), REFUSED)
def test_refused_by_the_guard_itself_and_so_by_all(guard, asked, known):
    one, other = question_of(asked), question_of(known)
    assert guard.refuse(one, other)
    assert guard.refuse(other, one)
    assert refusal_of(one, other) is not None


@pytest.mark.parametrize(("asked", "known"), ALLOWED)
def test_the_same_question_in_other_words(asked, known):
    one, other = question_of(asked), question_of(known)
    assert refusal_of(one, other) is None, refusal_of(one, other)
    assert refusal_of(other, one) is None


def test_a_refusal_names_its_guard_and_says_why():
    refusal = refusal_of(question_of("Convert 15 USD to EUR"), question_of("Convert 50 USD to EUR"))
    assert refusal.guard == "numbers"
    assert "15" in refusal.why
    assert "50" in refusal.why


def test_asking_whether_is_no_denial_in_chinese():
    for text in ("能不能退款", "有没有折扣", "是不是要预约", "可不可以带狗"):
        assert polarity.negations(question_of(text)) == 0
    assert polarity.negations(question_of("不能退款吗")) == 1


@pytest.mark.parametrize("lexicon", [english(), chinese()], ids=["en", "zh"])
def test_what_stands_for_others_stands_for_itself(lexicon):
    # A word that is rewritten further would be one thing here and another there.
    unsettled = {
        stands: lexicon.rewrite(stands)
        for stands in lexicon.phrases.values()
        if lexicon.rewrite(stands) != list(stands)
    }
    assert unsettled == {}


@pytest.mark.parametrize(
    ("one", "other", "guard"),
    [
        ("Do bananas have seeds?", "Are there seeds in bananas?", None),
        ("Do bananas have seeds?", "Are there bananas in seeds?", "roles"),
        ("Does insurance cover dental work?", "Is dental work covered by insurance?", None),
        ("Does insurance cover dental work?", "Is insurance covered by dental work?", "roles"),
        ("How do I fix a leaking tap?", "How do I fix a tap that leaks?", None),
        ("Which lake is the deepest in the world?", "What is the deepest lake in the world?", None),
        ("How do I get paid?", "How do I pay?", "wording"),
        ("How many calories are in a can of coke?", "What is the number of calories in coke?", "wording"),
        ("How long does it take to get a passport?", "How long does a passport take?", None),
        ("How do I connect my watch to my phone?", "How do I connect my watch with my phone?", None),
        ("How do I send my watch to my brother?", "How do I send my watch with my brother?", "roles"),
        ("What happens if I miss a payment?", "I missed a payment, what happens?", None),
        ("Where do penguins live?", "In which place do penguins live?", None),
        ("电话是谁发明的", "谁发明了电话", None),
        ("谁打了他", "他打了谁", "roles"),
        ("火车票能不能退", "能退火车票吗", None),
        ("猫能抓狗吗", "狗能抓猫吗", "roles"),
        ("蜂胶有什么作用", "蜂胶的作用是什么", None),
        ("狗喜欢什么", "什么喜欢狗", "roles"),
        ("那家店远不远", "那家店远吗", None),
        ("这个药贵不贵", "这个药不贵吗", "polarity"),
        ("这台电视支持投屏吗", "这台电视可以投屏吗", None),
        ("信用卡年费是多少", "信用卡年费多少钱", None),
        ("苹果有多少", "苹果多少钱", "question_type"),
        ("怎么把视频转成音频", "视频怎么转换成音频", None),
        ("怎么把视频转成音频", "怎么把音频转成视频", "roles"),
    ],
)
def test_another_order_is_another_question_only_where_it_changes_who_does_what(one, other, guard):
    for asked, known in ((one, other), (other, one)):
        refused = refusal_of(question_of(asked), question_of(known))
        assert (refused and refused.guard) == guard, refused
