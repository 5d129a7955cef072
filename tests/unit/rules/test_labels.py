"""Label prompts that plain words decide, and all those that they do not."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tiermesh.shared.rules import load_rules, match_fixed, parse_rules

PROFILE = Path(__file__).parents[3] / "mesh" / "profiles" / "rules.yaml"


@dataclass(frozen=True)
class Message:
    role: str
    content: str


@pytest.fixture(scope="module")
def book():
    return load_rules(PROFILE)


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("Classify the sentiment as positive or negative: I love this product", "positive"),
        ("Classify the sentiment of: 'I love this phone, it works great' as positive, negative or neutral", "positive"),
        ('Classify the sentiment of "The battery is terrible." as Positive, Negative, or Neutral.', "Negative"),
        ('Please classify "Worst purchase of my life" as POSITIVE / NEGATIVE. Answer with one word.', "NEGATIVE"),
        ('Is this review positive or negative? "Absolutely awful"', "negative"),
        ("Is the following review positive, negative or neutral?\n\nFantastic, I love it!", "positive"),
        (
            "What is the sentiment of this text (positive/negative/neutral)?\nText: Waste of money.\nSentiment:",
            "negative",
        ),
        ("Text: This is awesome\nSentiment (positive, negative, neutral):", "positive"),
        ("Decide whether this tweet is positive or negative: “highly recommend it”", "positive"),
        ('Classify as "positive" or "negative": \'Great product\'', "positive"),
        ("Classify this as positive, negative or neutral: it is so-so, nothing special", "neutral"),
        ("Classify this as positive, negative or neutral: it was mediocre", "neutral"),
        ("Label the following message with one of [billing, technical, account]: I was charged twice", "billing"),
        ('Choose one category from billing, technical, account for this ticket: "I cannot log in"', "account"),
        ("Categories: Billing, Technical, Shipping\nText: Where is my package?\nCategory:", "Shipping"),
        ("把下面这句话分类为：投诉、咨询、表扬。文本：客服态度恶劣，我要投诉", "投诉"),
        ("请判断以下评论的情感是正面、负面还是中性：这个手机非常好用，强烈推荐！", "正面"),
        ("将“物流太慢，非常失望”归类为正面或负面", "负面"),
        ("下面这段话属于哪一类（投诉/咨询/表扬）？请问这个产品多少钱？", "咨询"),
        ("从[投诉, 咨询, 表扬]中选择一个标签：客服小王非常耐心，值得表扬", "表扬"),
        ("判断情感倾向（正面/负面）：质量太差，浪费钱。只输出标签。", "负面"),
        ("请判断这条评论是好评还是差评：东西收到了，质量太差了", "差评"),
        ("请问这句话是积极还是消极：“太棒了”", "积极"),
    ],
)
def test_labels(book, prompt, label):
    answer = match_fixed(book, [Message("user", prompt)])
    assert (answer and answer.text) == label
    if answer:
        assert answer.kind == "label"
        assert answer.rule.startswith("label:")


@pytest.mark.parametrize(
    "prompt",
    [
        # No keyword, more than one label, or a word that may turn it round.
        "Classify as positive or negative: The sky is blue",
        "Classify as positive or negative: I love the screen, the battery is terrible",
        "Classify as positive or negative: I do not love it at all",
        "Classify as positive or negative: I love it, but it is slow",
        "Classify as positive or negative: I would love it if it were perfect",
        "Classify as positive or negative: not terrible",
        "Is it positive or negative: I love that you never reply?",
        "这句话是正面的还是负面的？“不是很好用”",
        "判断情感（正面/负面）：本来以为非常好用",
        "判断情感（正面/负面）：非常喜欢外观，但是质量太差",
        # A label that was not offered is the right one.
        "Classify as positive or neutral: this is terrible",
        # Asks for more than a label.
        "Classify the following text as positive or negative and explain why: I love it",
        "Classify as positive or negative: I love it. Reply in JSON.",
        "Classify as positive or negative with a confidence score: I love it",
        "判断情感是正面还是负面，并说明理由：太棒了",
        "判断情感是正面还是负面：太棒了。用JSON格式返回",
        "Translate and classify as positive or negative: I love it",
        # Several texts.
        "Classify each as positive or negative: I love it",
        "Classify as positive or negative:\nI love it\nGreat product",
        'Classify "I love it" and "great product" as positive or negative',
        # Unknown labels, labels of two sets, a single label, none.
        "Classify the text into positive, negative, happy: I love it",
        "Classify as positive or billing: I love it",
        "Is this positive: I love it",
        "What is the sentiment of 'I love it'?",
        "Is this good or bad: I love it",
        # Only looks like one.
        "I love it when positive and negative charges attract",
        "Write a positive or negative review: I love it",
        "positive negative",
        "Classify as positive or negative:",
        "Is a positive or negative mindset better?",
        # Long.
        "Classify as positive or negative: I love it " + "and so on " * 40,
    ],
)
def test_everything_doubtful_is_left_to_a_model(book, prompt):
    assert match_fixed(book, [Message("user", prompt)]) is None


def test_a_label_may_have_in_its_name_what_ends_an_instruction():
    text = """
labels:
  - name: size
    labels:
      - {name: small, called: {en: ["type: small"]}, keywords: {en: [tiny]}}
      - {name: large, called: {en: ["type: large"]}, keywords: {en: [huge]}}
"""
    book = parse_rules(text, Path("rules.yaml"))
    prompt = "Classify as type: small or type: large\nThe box is tiny."
    answer = match_fixed(book, [Message("user", prompt)])
    assert answer is not None
    assert answer.text == "type: small"
