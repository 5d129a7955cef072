"""Takes personal data out of texts, in Chinese and English.

Found are what has a form of its own (addresses, numbers with a check digit, keys), what a label names
(`姓名：`, `password =`), and names that a form of address or an introduction gives away. Names and
addresses in running text are not found: no rule is right for them. When in doubt, a piece is blotted
out, since the texts are only read by programs that learn.
"""

from tiermesh.outcomes.redaction.text import VERSION, redact, redact_outcome

__all__ = ["VERSION", "redact", "redact_outcome"]
