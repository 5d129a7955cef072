"""What is taken out of texts, and what is left in them."""

from __future__ import annotations

import pytest
from harness.outcomes import make_record
from tiermesh.api.common.v1 import chat_pb2
from tiermesh.outcomes.redaction import VERSION, redact, redact_outcome
from tiermesh.outcomes.redaction.check_digits import is_card_number, is_iban, is_resident_id

FOUND = [
    ("我的手机号是13812345678。", "我的手机号是<phone>。"),
    ("电话 021-52345678 转 8001", "电话 <phone> 转 8001"),
    ("+86 138 1234 5678 请回电", "<phone> 请回电"),
    ("call me at (415) 555-2671 or +44 20 7946 0958", "call me at <phone> or <phone>"),
    ("邮箱 zhang.san@example.com，谢谢", "邮箱 <email>，谢谢"),
    ("write to jane_doe+x@mail.example.co.uk!", "write to <email>!"),
    ("身份证号：11010519491231002X，请核对", "身份证号：<id>，请核对"),
    ("证件 110105194912310021 有误", "证件 110105194912310021 有误"),
    ("SSN 078-05-1120", "SSN <id>"),
    ("passport number: E12345678", "passport number: <id>"),
    ("护照号：G12345678", "护照号：<id>"),
    ("Card 4111 1111 1111 1111 exp 12/29", "Card <card> exp 12/29"),
    ("银行卡 6222021234567890128", "银行卡 <card>"),
    ("IBAN DE89 3704 0044 0532 0130 00", "IBAN <account>"),
    ("微信：zhangsan_88", "微信：<account>"),
    ("姓名：张三丰\n年龄：30", "姓名：<name>\n年龄：30"),
    ('{"收货人": "李雷", "city": "北京"}', '{"收货人": "<name>", "city": "北京"}'),
    ('{"full name": "Jane Doe"}', '{"full name": "<name>"}'),
    ("My name is John Smith and I ask", "My name is <name> and I ask"),
    ("Dr. Jane O'Neil will call", "Dr. <name> will call"),
    ("张先生您好，王小明老师在吗", "<name>先生您好，<name>老师在吗"),
    ("我叫李雷，请问", "我叫<name>，请问"),
    ("地址：北京市朝阳区建国路88号", "地址：<address>"),
    ("请寄到上海市浦东新区世纪大道100号，谢谢", "<address>，谢谢"),
    ("shipping address: 221B Baker Street, London", "shipping address: <address>"),
    ("my password is hunter22", "my password is <secret>"),
    ("密码：abc123456；验证码是482913", "密码：<secret>；验证码是<secret>"),
    ("api_key=abcd1234efgh", "api_key=<secret>"),
    ("sk-abcdefghijklmnopqrstuvwxyz012345", "<secret>"),
    ("https://user:pass@host/x", "https://<secret>@host/x"),
    ("Authorization: Bearer abcdefghijklmnop.qrst", "Authorization: Bearer <secret>"),
    ("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\nok", "<secret>\nok"),
    ("from 10.0.0.17 to 8.8.8.8", "from <ip> to <ip>"),
    ("出生日期：1990年1月2日", "出生日期：<birthday>"),
]
LEFT = [
    "What is 1234567890 * 987654321?",
    "In 2023-11-05 the price was 12,345.67, and pi is 3.14159265358979.",
    "ISBN 978-3-16-148410-0",
    "def f(name: str, token: int) -> None: pass",
    "The year is 1984 and the answer is 42.",
    "数字 12345 加 67890 等于多少？",
    "version 1.2.3",
    "Rivers meander because banks erode.",
    "写一个Python函数，实现快速排序",
    "compute 4111111111111112 mod 7",
]


@pytest.mark.parametrize(("text", "expected"), FOUND)
def test_personal_data_is_blotted_out(text, expected):
    assert redact(text)[0] == expected


@pytest.mark.parametrize("text", LEFT)
def test_what_is_none_is_left(text):
    assert redact(text) == (text, {})


@pytest.mark.parametrize(("text", "expected"), FOUND)
def test_a_redacted_text_stays_as_it_is(text, expected):
    assert redact(expected)[0] == expected


def test_what_was_blotted_out_is_counted_by_kind():
    _, counts = redact("a@example.com, b@example.com and 13812345678")
    assert counts == {"email": 2, "phone": 1}


def test_long_lists_of_numbers_are_blotted_out_unseen():
    numbers = " ".join(f"1381234{n:04}" for n in range(2000))
    redacted, counts = redact(numbers)
    assert "1381234" not in redacted
    assert counts["phone"] > 0


@pytest.mark.parametrize(
    "piece", ["a@", "://a:", "name: ", "张", "1 2 ", "区路1号", "eyJ", "-----BEGIN PRIVATE KEY-----"]
)
def test_no_text_takes_for_ever(piece):
    # Bounded by the test's own limit: a pattern that backtracks would take hours.
    redact(piece * (60_000 // len(piece)))


def test_a_record_is_redacted_in_place_with_names_and_tool_calls():
    record = make_record(1, question="my mail is a@example.com", answer="call 13812345678")
    record.text.messages[0].name = "Zhang San"
    call = chat_pb2.ToolCall(id="1", name="send", arguments_json='{"to": "b@example.com"}')
    record.text.messages.add(role=chat_pb2.ROLE_ASSISTANT, tool_calls=[call])
    redact_outcome(record)
    assert record.text.messages[0].content == "my mail is <email>"
    assert record.text.messages[0].name == ""
    assert record.text.messages[1].tool_calls[0].arguments_json == '{"to": "<email>"}'
    assert list(record.text.answers) == ["call <phone>"]
    assert dict(record.text.redaction_counts) == {"email": 2, "name": 1, "phone": 1}
    assert record.text.redaction_version == VERSION


def test_check_digits():
    assert is_resident_id("11010519491231002X")
    assert is_resident_id("11010519491231002x")
    assert not is_resident_id("110105194912310021")
    assert not is_resident_id("11010519491331002X")
    assert is_card_number("4111111111111111")
    assert not is_card_number("4111111111111112")
    assert not is_card_number("0" * 16)
    assert is_iban("GB82WEST12345698765432")
    assert not is_iban("GB82WEST12345698765433")
