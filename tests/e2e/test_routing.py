"""Where requests go, in English and Chinese."""

import json

import pytest

LONG = "The history of the river is long. " * 700
LONG_ZH = "这条河的历史很长。" * 350


def headers(mesh, text, model="auto", **more):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    body = {"model": model, "messages": messages, "max_tokens": 4, **more}
    with mesh.http() as client:
        response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response.headers, response.json()


@pytest.mark.parametrize(
    ("text", "tier", "task"),
    [
        ("hello", "l0", "greeting"),
        ("Hi there!", "l0", "greeting"),
        ("你好", "l0", "greeting"),
        ("谢谢！", "l0", "greeting"),
        ("Classify the sentiment as positive or negative: I love this product", "l0", "label"),
        ("What is the capital of France?", "l1", "qa"),
        ("法国的首都是哪里？", "l1", "qa"),
        ("Tell me something nice about the spring.", "l1", None),
        ("跟我聊聊春天吧。", "l1", None),
        ("Write a Python function that merges two sorted lists.", "l2", "code"),
        ("写一个Python函数，合并两个有序列表。", "l2", "code"),
        ("```python\ndef f(x): return x+1\n```\nWhy does this fail?", "l2", "code"),
        ("你好，帮我写一段快速排序的代码", "l2", "code"),
        (f"Summarise this text: {LONG}", "l2", None),
        (f"请总结下面的文字：{LONG_ZH}", "l2", None),
        (
            "First analyse our sales data, then find the weakest regions, then write a plan for each, finally cost them.",
            "l2",
            "planning",
        ),
        (
            "第一步分析销售数据，第二步找出最弱的三个地区，第三步为每个地区制定计划，最后估算每个计划的成本。",
            "l2",
            "planning",
        ),
    ],
)
def test_first_choice(lite, text, tier, task):
    got, _ = headers(lite[0], text)
    assert got["x-tiermesh-tier"] == tier, dict(got)
    if task:
        assert got["x-tiermesh-task-type"] == task
    assert got["x-tiermesh-reasons"]


def test_faq_entries_are_answered_from_the_file(lite):
    from tiermesh.shared.rules import load_rules

    mesh = lite[0]
    book = load_rules(mesh.config.rules)
    entry = book.faq[0]
    for language in ("en", "zh"):
        question = entry.questions[language][0]
        got, answer = headers(mesh, question, max_tokens=500)
        assert (got["x-tiermesh-tier"], got["x-tiermesh-task-type"]) == ("l0", "faq")
        assert answer["choices"][0]["message"]["content"] == entry.answers[language]


def test_pinning_wins_over_rules(lite):
    got, answer = headers(lite[0], "hello", model="tier:l2")
    assert got["x-tiermesh-tier"] == "l2"
    assert "pinned" in got["x-tiermesh-reasons"]
    assert answer["model"] == "simulated-large"
    got, _ = headers(lite[0], "hello", model="simulated-small")
    assert got["x-tiermesh-tier"] == "l1"


def test_a_rules_tier_that_has_no_answer_passes_on_and_says_so(lite):
    mesh = lite[0]
    with mesh.http() as client:
        body = {"model": "tier:l0", "messages": [{"role": "user", "content": "Explain gravity to a child."}]}
        response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "NOT_APPLICABLE"


def test_simulated_answers_say_so(lite):
    got, answer = headers(lite[0], "Tell me about rivers.", max_tokens=20)
    assert got["x-tiermesh-simulated"] == "true"
    assert "simulated" in answer["model"]
    assert "simulated" in answer["choices"][0]["message"]["content"].lower()
    got, _ = headers(lite[0], "hello")
    assert "x-tiermesh-simulated" not in got


def test_thresholds_are_chosen_from_an_evaluation_set_of_prompts_alone(lite, tmp_path):
    mesh, evaluation = lite[0], tmp_path / "evaluation.jsonl"
    prompts = ["What is the capital of France?", "Write a Python function that merges two sorted lists."]
    rows = [{"prompt": prompt, "weak_correct": at == 0, "strong_correct": True} for at, prompt in enumerate(prompts)]
    evaluation.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    words = ("calibrate-thresholds", str(evaluation), "--config", str(mesh.config_path), "--target-quality", "1")
    told = json.loads(mesh.tiermesh(*words, "--json").stdout)
    assert (told["requests"], told["strong_share"], told["quality"]) == (2, 0.5, 1.0)
    assert told["cost_of_large"] > told["cost"] > 0
    assert f"complexity: as the mesh at {mesh.target} judges now" in mesh.tiermesh(*words).stdout
