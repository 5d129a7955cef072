"""What the rules of the local profile take requests for, in English and Chinese, and which tier that asks for."""

from pathlib import Path

import pytest
from tiermesh.classifier.features import Turn, read_features
from tiermesh.classifier.judge import judge
from tiermesh.shared.config import load_config
from tiermesh.shared.rules import load_rules

PROFILES = Path(__file__).parents[3] / "mesh" / "profiles"
L0, L1, L2 = "l0", "l1", "l2"
TIERS = {"greeting": L0, "faq": L0} | dict.fromkeys(("code", "math", "planning"), L2)

PROMPTS = r"""
greeting  | Hey there!
greeting  | 早上好！
faq       | What are your opening hours?
faq       | 你是谁？
chat      | I am so tired today
chat      | 今天心情不好
chat      | Write a short poem about autumn.
chat      | 写一首关于秋天的诗
chat      | Tell me a joke
chat      | 给我讲个笑话
qa        | What is the capital of France?
qa        | Who wrote Hamlet?
qa        | What is Python?
qa        | Why is the sky blue
qa        | Explain gravity to a child.
qa        | How tall is Mount Everest?
qa        | 法国的首都是哪里？
qa        | 为什么天空是蓝色的
qa        | 光合作用是什么？
qa        | 解释一下相对论
qa        | 長城有多長？
qa        | Can dogs eat chocolate?
translate | Translate the following to French: Good morning, how are you?
translate | Please translate "I love programming" into Chinese
translate | How do you say thank you in Japanese?
translate | 把下面这句话翻译成英文：今天天气很好
translate | 请翻译：The weather is nice today
translate | "谢谢"用英语怎么说？
translate | 請將這段文字翻譯成英文：我喜歡程式設計
summarise | Summarize this paragraph: The meeting covered the budget and hiring.
summarise | Give me a summary of the following text: cats are great.
summarise | TL;DR: The report says that sales rose in spring.
summarise | 请总结下面的内容：会议讨论了预算和招聘。
summarise | 用一句话概括：这本书讲了一个男孩的成长。
rewrite   | Rewrite this sentence to be more polite: Send me the file.
rewrite   | Fix the grammar: He go to school yesterday.
rewrite   | Make this email more formal: hey, need that report asap
rewrite   | 润色这段话：我今天很高兴见到你
rewrite   | 把这句话改写得更正式一点：快点把文件发我
extract   | Extract all dates from: The fair runs from May 3 to June 9.
extract   | List the names of people mentioned: Anna met Bob in Rome.
extract   | 从下面的文字中提取人名和地名：小明去了北京。
extract   | 找出这段话里的电话号码：请拨打 010-12345678
label     | Classify this news as sports, politics or tech: The team won the cup.
label     | 把这条新闻归类为体育、政治或科技：球队夺冠了
label     | Is this review positive or negative? The phone arrived on Monday.
code      | Write a Python function that merges two sorted lists.
code      | How do I reverse a string in Java?
code      | My script crashes with a segmentation fault
code      | Explain this code: for i in range(10): print(i)
code      | SELECT name FROM users WHERE id = 3 ORDER BY name
code      | def f(x):\n    return x + 1\nwhat does it do
code      | Convert this JavaScript function to TypeScript
code      | write a regex that matches emails
code      | TypeError: 'NoneType' object is not iterable
code      | How to undo the last git commit?
code      | 写一个快速排序的代码
code      | 这段代码为什么报错？
code      | 用Python怎么读取CSV文件
code      | 帮我写个爬虫抓取网页标题
code      | Docker 容器启动失败怎么排查
code      | Java 里 HashMap 和 Hashtable 的区别，给出示例代码
code      | 帮我优化这个SQL查询
code      | 寫一個函式計算費氏數列的程式碼
math      | What is 17 * 23?
math      | Solve the equation 2x + 5 = 15
math      | Calculate the integral of x^2 from 0 to 1
math      | Prove that the square root of 2 is irrational
math      | If a train travels 60 miles in 1.5 hours, how far does it travel in 4 hours?
math      | What is 15% of 80?
math      | 计算 123 + 456
math      | 求解方程 x^2 - 5x + 6 = 0
math      | 小王今年24岁，比小李大3岁，两人年龄之和是多少？
math      | 证明根号2是无理数
math      | 求 f(x)=x^3 的导数
planning  | First analyse our sales data, then find the weakest regions, then write a plan for each, finally cost them.
planning  | Create a 3-month marketing plan for a coffee shop
planning  | Plan a trip to Japan for two weeks
planning  | Design a scalable system for ride sharing
planning  | 第一步分析销售数据，第二步找出最弱的地区，最后估算成本。
planning  | 帮我制定一个三个月的健身计划
planning  | 先收集用户反馈，再归纳主要问题，最后写一份改进方案
planning  | 设计一个电商系统的架构
planning  | 帮我做一个去云南的七天旅游攻略
chat      | florbulate the widget
qa        | 什么是云计算？
qa        | Is it safe to take ibuprofen with food?
chat      | ok
chat      | 继续
chat      | 😊😊😊
chat      | Let's talk about movies
qa        | Do you know any good restaurants?
qa        | 股票代码600519是哪家公司？
qa        | 邮政编码是什么意思？
qa        | What time is it in Tokyo?
qa        | who won the 2010 world cup
qa        | How many people live in Berlin?
qa        | 一年有多少天？
chat      | Write an email to my boss asking for a day off
chat      | 帮我写一封请假邮件
chat      | I need a name for my new puppy
qa        | 2024年奥运会在哪里举办？
qa        | What happened on 9/11?
qa        | Where is flight 12-34 going?
qa        | Could you recommend a good book about the Roman Empire?
qa        | What's the difference between a virus and a bacterium?
qa        | Is tomato a fruit or a vegetable?
qa        | I wonder how magnets work
qa        | how do vaccines work?
qa        | What should I cook tonight with chicken and rice?
qa        | what are the symptoms of the flu
chat      | I just got promoted!
chat      | I had a terrible day at work and need to vent.
chat      | You are funny
chat      | thanks, that was really useful, I'll try it
chat      | Good idea, let me think about it
chat      | Can you write a birthday message for my sister?
chat      | Come up with five names for a coffee shop
summarise | Here is an article. Give me the key points: Researchers found that sleep improves memory.
summarise | Can you sum up what this says? The contract ends in May.
rewrite   | Paraphrase: The cat sat on the mat.
rewrite   | Proofread my text: I has two apple.
rewrite   | Shorten this: We would like to inform you that your order has shipped.
extract   | Pull out the email addresses from this text: a@b.com and c@d.org
translate | What does "bonjour" mean in English?
translate | Put this into Spanish: I would like a coffee
translate | 中译英：我喜欢喝茶
translate | How would you say 'see you tomorrow' in German?
translate | 这个单词用日语怎么讲：苹果
code      | Why am I getting a 'list index out of range' error?
code      | Help me understand async/await in JavaScript
code      | Create a React component for a login form
code      | What does this regex do: ^\d{3}-\d{4}$
code      | Give me a bash one-liner to count files in a folder
code      | Implement Dijkstra's algorithm
code      | npm install fails with EACCES
code      | import numpy as np\nx = np.array([1,2,3])\nprint(x.sum())
code      | how do I center a div
code      | 用C++实现一个二叉树
code      | 这个函数怎么写单元测试？
code      | vue 组件之间怎么传值
code      | linux 怎么查看端口占用
code      | 给这段代码加上注释：x = [i*i for i in range(5)]
math      | What's the derivative of sin(x)?
math      | Find x: 3x - 7 = 11
math      | A shop sells apples at 3 for $2. How much do 12 apples cost?
math      | How many ways can 5 people sit in a row?
math      | (12+8)*5
math      | 圆的半径是5厘米，面积是多少？
math      | 一个长方形长8米宽5米，求面积
math      | 1+1等于几
math      | 解不等式 3x-5>10
planning  | I want to learn piano. Give me a step-by-step plan for six months.
planning  | Develop a business strategy for entering the Brazilian market.
planning  | Compare PostgreSQL and MySQL for our use case and recommend one.
planning  | Outline the steps to migrate our servers to the cloud, including risks and a timeline.
planning  | How should I organise a conference for 300 people? Please give me a detailed schedule and budget.
planning  | 帮我规划一下从零开始学习机器学习的路线
planning  | 我们团队要上线新系统，请给出详细的实施方案和时间表
planning  | 先分析问题，然后给出三个方案，最后比较它们
qa        | 红楼梦的作者是谁
qa        | 北京到上海坐高铁要多久
qa        | 感冒了应该吃什么药？
qa        | 孩子发烧怎么办
qa        | 推荐几本科幻小说
qa        | 台灣的首都在哪裡
chat      | 你真聪明
chat      | 我想你了
chat      | 哈哈哈，太好笑了
chat      | 明天要考试了，好紧张
summarise | 帮我概括一下这篇文章的主要内容：春天来了，花开了。
summarise | 這段話的重點是什麼？請摘要：今天開會討論了預算。
rewrite   | 请把这段话改得更口语化：鄙人不才
rewrite   | 检查这句话有没有语病：他的写作水平明显改进了
extract   | 提取以下简历中的姓名、电话和邮箱：张三 13800000000
label     | 判断下面这句话的情感是积极还是消极：今天天气一般
label     | Tag this ticket as bug, feature or question: The button is blue.
label     | 下列评论属于哪一类：好评、差评、中评？东西已经收到
qa        | When did the Berlin Wall fall?
qa        | Which planet has the most moons?
qa        | My cat keeps sneezing, should I worry?
qa        | What does "procrastinate" mean?
qa        | Are electric cars really better for the environment?
chat      | Good to see you again!
chat      | I'm learning to cook and I burned the rice again
chat      | Say something that makes me smile
chat      | Write a thank-you note to my teacher
summarise | Boil this down to two sentences: The city council met on Tuesday and approved the plan.
summarise | What are the main points of this passage? Bees pollinate plants.
rewrite   | Can you rephrase "I don't like your idea" so it sounds nicer?
rewrite   | Turn this into passive voice: The dog chased the cat.
extract   | Extract the order number and date: Order 12345 was placed on 3 June.
translate | Translate into Mandarin: Where is the train station?
translate | Can you translate this for me? Je suis fatigué
code      | Write a SQL query that finds duplicate emails
code      | What's wrong with my code? x = [1,2,3; print(x)
code      | How can I parse JSON in Go?
code      | Refactor this class to use dependency injection
code      | Write a program that prints the first 20 Fibonacci numbers
code      | Set up a GitHub Actions workflow that runs pytest
math      | Simplify (x^2 - 9)/(x - 3)
math      | A car depreciates 15% per year. What is it worth after 3 years if it cost $20000?
math      | What is the probability of rolling two sixes?
math      | What is the sum of the first 100 natural numbers?
planning  | Help me plan a surprise party: first the guests, then the food, and finally the games.
planning  | Build a 12-week training plan for a half marathon
planning  | Write a business plan for a bakery
planning  | How do I migrate from monolith to microservices? Give phases, risks and a rollout strategy.
qa        | 秦始皇是什么时候统一中国的？
qa        | 喝咖啡对身体有害吗
qa        | 怎么做番茄炒蛋？
qa        | 量子计算机的原理是什么
qa        | 附近有什么好吃的
chat      | 我失恋了，很难过
chat      | 陪我聊会儿天
chat      | 帮我写一段生日祝福语
summarise | 请用三句话概括下文：昨天，市政府召开了会议。
summarise | 归纳这段文字的中心思想：海纳百川，有容乃大。
rewrite   | 帮我把这封邮件写得更正式：老板，我明天不来了
rewrite   | 换个说法：这个产品不好
extract   | 请列出文中出现的所有日期：会议定于3月5日和4月8日举行
extract   | 抽取关键词：人工智能正在改变世界
translate | 请把“谢谢你的帮助”翻成日语
translate | how to say 苹果 in English
code      | 写一个Java程序，输出1到100的素数
code      | 请用 Go 实现一个简单的 HTTP 服务器
code      | pandas 怎么合并两个 DataFrame
code      | 这个报错是什么意思：NullPointerException
code      | 帮我写个正则匹配手机号
math      | 鸡兔同笼，共有35个头，94只脚，问鸡和兔各多少只？
math      | 求函数 y=x^2+2x 的最小值
math      | 计算定积分 x^2 从0到1
math      | 25的平方根是多少
planning  | 为公司年会设计一个完整的活动方案
planning  | 帮我做一份两周的减脂食谱计划
planning  | 写一份开咖啡店的商业计划书
planning  | 首先介绍背景，然后分析问题，最后提出建议
"""
CASES = [
    tuple(part.strip().replace("\\n", "\n") for part in line.split("|", 1)) for line in PROMPTS.strip().splitlines()
]


@pytest.fixture(scope="module")
def judged():
    book = load_rules(PROFILES / "rules.yaml")

    def judged(*turns, tenant="local"):
        turns = tuple(Turn("user", turn) if isinstance(turn, str) else turn for turn in turns)
        return judge(book, turns, read_features(turns, book.token_weights), tenant=tenant)

    return judged


@pytest.fixture(scope="module")
def first_choice():
    """The weakest tier of the local profile that takes a judgement, as the router reads the configuration."""
    tiers = load_config(PROFILES / "local.yaml").tiers

    def first_choice(judgement):
        return next(
            tier.name
            for tier in tiers
            if judgement.complexity <= tier.max_complexity
            and (not tier.task_types or judgement.task_type in tier.task_types)
            and judgement.task_type not in tier.excluded_task_types
        )

    return first_choice


@pytest.mark.parametrize(("task_type", "prompt"), CASES)
def test_task_type_and_tier(judged, first_choice, task_type, prompt):
    judgement = judged(prompt)
    assert (judgement.task_type, first_choice(judgement)) == (task_type, TIERS.get(task_type, L1)), judgement.rules


@pytest.mark.parametrize(
    ("task_type", "prompt"),
    [
        ("label", "Classify the sentiment of: 'I love it, works great' as positive, negative or neutral"),
        ("label", "把下面这句话分类为：投诉、咨询、表扬。文本：客服态度恶劣，我要投诉"),
        ("greeting", "你好 👋"),
        ("faq", "您好，请问怎么重置密码？"),
    ],
)
def test_what_has_a_fixed_answer_goes_to_the_rules_tier(judged, first_choice, task_type, prompt):
    judgement = judged(prompt)
    assert (judgement.task_type, judgement.complexity, judgement.confidence) == (task_type, 0.0, 1.0)
    assert first_choice(judgement) == L0


@pytest.mark.parametrize(
    "prompt",
    [
        "Summarise this text: " + "The history of the river is long. " * 700,
        "请总结下面的文字：" + "这条河的历史很长。" * 200,
        "Translate into German: " + "The house is old and the garden is large. " * 200,
    ],
)
def test_long_input_is_long_context_whatever_is_asked(judged, first_choice, prompt):
    judgement = judged(prompt)
    assert judgement.task_type == "long_context"
    assert first_choice(judgement) == L2


@pytest.mark.parametrize(
    "prompt",
    [
        "Write a 2000-word essay on the causes of the First World War.",
        "写一篇3000字的论文，讨论人工智能的影响",
        "What are the pros and cons of nuclear energy?",
        "深入分析中美贸易的利弊",
        "What is entropy? Where does it come from? Why does it grow? Can it shrink?",
    ],
)
def test_ordinary_kinds_that_are_harder_than_they_look_go_up(judged, first_choice, prompt):
    assert first_choice(judged(prompt)) == L2


def test_a_greeting_with_a_request_is_the_request(judged, first_choice):
    for prompt in ("你好，帮我写一段快速排序的代码", "Hello! Write a Python script that renames files."):
        judgement = judged(prompt)
        assert judgement.task_type == "code"
        assert first_choice(judgement) == L2


def test_a_greeting_under_a_system_prompt_is_one_but_needs_a_model(judged, first_choice):
    judgement = judged(Turn("system", "You are a pirate."), "hello")
    assert judgement.task_type == "greeting"
    assert judgement.rules[0] == "greeting:hello-en"
    assert first_choice(judgement) == L1


def test_a_question_of_the_file_after_other_turns_needs_a_model(judged, first_choice):
    turns = ("I have two accounts.", Turn("assistant", "Which one do you mean?"), "How do I reset my password?")
    judgement = judged(*turns)
    assert judgement.task_type == "faq"
    assert first_choice(judgement) == L1
    assert first_choice(judged(*turns[:2], "thanks!")) == L0


def test_tools_and_long_conversations_go_up(judged, first_choice):
    calls = Turn("assistant", "", 'weather {"city": "Oslo"}')
    judgement = judged("What is the weather?", calls, Turn("tool", "12 degrees"), "And tomorrow?")
    assert judgement.task_type == "tool_use"
    assert first_choice(judgement) == L2
    chat = [Turn(role, "I see, go on.") for _ in range(12) for role in ("user", "assistant")][:-1]
    assert first_choice(judged(*chat)) == L2
    assert first_choice(judged(*chat[-3:])) == L1


def test_a_follow_up_on_code_is_about_code(judged, first_choice):
    earlier = ("Write a function that adds.", Turn("assistant", "```py\ndef add(a, b): return a + b\n```"))
    for prompt in ("And now faster, please", "再加一些注释"):
        judgement = judged(*earlier, prompt)
        assert judgement.task_type == "code"
        assert first_choice(judgement) == L2
    assert first_choice(judged(*earlier, "谢谢！")) == L0


def test_what_nothing_matches_is_said_to_be_a_default(judged):
    judgement = judged("florbulate the widget")
    assert (judgement.task_type, judgement.source, judgement.rules) == ("chat", "default", ())
    assert judgement.confidence < 0.5


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [
        ("法国的首都是哪里？", "qa-zh"),
        ("天空为什么是蓝色的?", "qa-zh"),
        ("What is the capital of France?", "qa-en"),
        ("so tea is a leaf?", "qa-en"),
        ("What does 你好 mean?", "qa-en"),
        ("?", "qa-en"),
    ],
)
def test_a_question_is_one_by_the_rule_of_its_own_language(judged, prompt, rule):
    assert judged(prompt).rules == (rule,)
