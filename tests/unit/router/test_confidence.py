"""What is thought of an answer's first tokens."""

import math

import pytest
from tiermesh.router.escalation.confidence import Sample, Step, judge
from tiermesh.router.escalation.detectors import holds_phrase, refuses, repeats_itself
from tiermesh.shared.answer_features import features_of
from tiermesh.shared.config import BandConfig, CalibrationConfig

CALIBRATION = CalibrationConfig(intercept=4.0, mean=4.0, window=1.0)
BAND = BandConfig()


def think(*samples, calibration=CALIBRATION, band=BAND, phrases=()):
    return judge(samples, calibration=calibration, band=band, safety_phrases=phrases)


def sample(text, logprob, count=16):
    return Sample(text, [(logprob, logprob - 2.0)] * count)


@pytest.mark.parametrize(
    "text",
    [
        "17 17 17 17 17 17 17",
        "The answer is 17 17 17 17 17 17 17 17",
        "yes, yes, yes, yes, yes, yes, yes",
        "the cat sat the cat sat the cat sat the cat sat",
        "I think that I think that I think that I think that",
        "是的是的是的是的是的",
        "我不知道我不知道我不知道我不知道",
        "好好好好好好好好",
        "答案是答案是答案是答案是",
        "It is xxxxxxxxxxxxxxxxxxxxxxxx",
        "hahahahahahahahahaha",
        "loop. Loop! LOOP? loop, loop; loop",
    ],
)
def test_loops_are_seen(text):
    assert repeats_itself(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No no no, that is not what I meant to say at all.",
        "哈哈哈哈哈，这个笑话真好笑，我要讲给朋友听。",
        "The quick brown fox jumps over the lazy dog near the river bank.",
        "A river is a large stream of water that flows to the sea.",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "1. Wash the rice. 2. Wash the pot. 3. Wash the spoon.",
        "| --- | --- | --- | --- | --- |",
        "河流是在陆地表面流动的天然水流。",
        "天天向上，好好学习，年年有余。",
        "int a = 1; int b = 2; int c = 3;",
        "yes yes yes yes",
        "antidisestablishmentarianism",
        "Mississippi",
    ],
)
def test_ordinary_repetition_is_no_loop(text):
    assert not repeats_itself(text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I can’t assist with that request.",
        "Sorry, I cannot answer this question.",
        "I cannot provide medical advice.",
        "As an AI language model, I cannot browse the internet",
        "As an AI, I don't have personal opinions",
        "Unfortunately, I'm unable to access that file.",
        "I don't know the answer to that.",
        "I do not have enough information to say.",
        "I am afraid I am not able to do that",
        "抱歉，我无法回答这个问题。",
        "很抱歉，我不能提供这方面的帮助。",
        "对不起，我没有办法满足您的要求",
        "作为一个人工智能助手，我无法浏览网页",
        "作为AI语言模型，我没有个人观点",
        "我无法回答您的问题。",
        "非常遗憾，我暂时无法处理",
        "我不知道答案。",
    ],
)
def test_refusals_are_seen(text):
    assert refuses(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I'm sorry to hear that you are ill. Rest and drink water.",
        "You cannot divide by zero.",
        "Sorry is a word that expresses regret.",
        "I can help you with that.",
        "Dogs cannot see red as people do.",
        "As an AI researcher, she could not sleep.",
        "I do not recommend it, because it is slow.",
        "抱歉在英文里是 sorry。",
        "对不起是一种道歉的方式。",
        "我不能说它一定更好，但它更快。",
        "我知道答案：四十二。",
        "人工智能无法完全代替医生。",
        "您的问题很好。",
    ],
)
def test_ordinary_beginnings_are_no_refusals(text):
    assert not refuses(text)


def test_phrases_are_found_in_any_case():
    assert holds_phrase("Take 500 MG of Aspirin", ["mg of aspirin"])
    assert holds_phrase("请服用阿司匹林", ["阿司匹林"])
    assert not holds_phrase("Drink water", ["aspirin"])
    assert not holds_phrase("anything", [])


def test_a_looping_answer_is_low_confidence_however_sure_its_tokens_are():
    for calibration in (CALIBRATION, None):
        looping = think(sample("no no no no no no no no no no no no no no no no", -0.1), calibration=calibration)
        assert looping.step is Step.TOP
        assert looping.confidence < 0.2
        assert looping.objection == "repetition"
    assert think(sample("A river is a large stream of water.", -0.1)).step is Step.ACCEPT


@pytest.mark.parametrize(
    ("mean", "step"), [(-0.05, Step.ACCEPT), (-0.3, Step.NEXT), (-0.7, Step.TOP), (-math.inf, Step.TOP)]
)
def test_bands_decide_how_far_up(mean, step):
    judged = think(sample("A river is a stream.", mean))
    assert judged.step is step
    assert (judged.objection == "low_confidence") == (step is not Step.ACCEPT)
    assert 0 <= judged.confidence <= 1


def test_one_bad_passage_lowers_confidence_that_the_mean_hides():
    smooth = [(-0.3, -3.0)] * 16
    rough = [(-0.02, -3.0)] * 12 + [(-1.14, -3.0)] * 4
    assert features_of(rough).mean_logprob == pytest.approx(features_of(smooth).mean_logprob)
    assert think(Sample("a b c", rough)).confidence < think(Sample("a b c", smooth)).confidence


def test_the_margin_to_the_second_best_counts_where_calibrated():
    calibration = CalibrationConfig(intercept=0.0, margin=1.0)
    clear = think(Sample("a", [(-0.1, -5.0)] * 8), calibration=calibration)
    close = think(Sample("a", [(-0.7, -0.8)] * 8), calibration=calibration)
    assert close.confidence < clear.confidence
    assert features_of([(-0.1, None)]).mean_margin > 4


def test_without_a_calibration_the_tokens_say_nothing():
    judged = think(sample("A river is a stream.", -3.0), calibration=None)
    assert judged.step is Step.ACCEPT
    assert judged.confidence is None
    assert judged.features.mean_logprob == -3.0


def test_without_log_probabilities_only_the_text_is_judged():
    assert think(Sample("A river is a stream.")).step is Step.ACCEPT
    assert think(Sample("I cannot answer that.")).objection == "refusal"


def test_the_worst_choice_counts():
    judged = think(sample("A river is a stream.", -0.01), sample("抱歉，我无法回答。", -0.01))
    assert judged.objection == "refusal"
    assert judged.step is Step.TOP


def test_safety_phrases_come_first():
    assert think(sample("Sorry, I cannot ... Take Aspirin", -0.01), phrases=("aspirin",)).objection == "safety"


def test_bands_and_calibrations_are_looked_up_with_defaults():
    from tiermesh.shared.config import EscalationConfig

    strict, loose = BandConfig(top_below=0.9, next_below=0.99), BandConfig(top_below=0.1, next_below=0.2)
    config = EscalationConfig(
        bands={"qa": strict, "default": loose},
        calibrations={"l1": {"qa": CALIBRATION, "default": CalibrationConfig(intercept=0.0)}},
    )
    assert config.band("qa") is strict
    assert config.band("chat") is loose
    assert EscalationConfig().band("qa") == BandConfig(top_below=0.8, next_below=0.95)
    assert config.calibration("l1", "qa") is CALIBRATION
    assert config.calibration("l1", "chat").intercept == 0.0
    assert config.calibration("l2", "qa") is None
    by_model = EscalationConfig(calibrations={"small": {"qa": CALIBRATION}})
    assert by_model.calibration("l1", "qa", model="small") is CALIBRATION
    assert by_model.calibration("l1", "qa", model="other") is None
