"""Numbers, however they are written."""

import pytest
from tiermesh.cache.semantic.numerals import numerals_in
from tiermesh.cache.semantic.question import question_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,000 euros", ("1000",)),
        ("1000 euros", ("1000",)),
        ("two hundred and fifty", ("200", "50")),
        ("three thousand five hundred", ("3500",)),
        ("2.50 and 2.5", ("2.5", "2.5")),
        ("version 3.11", ("3.11",)),
        ("which one is it", ()),
        ("第十二章", ("12",)),
        ("三百五十元", ("350",)),
        ("二〇二四年", ("2024",)),
        ("两个人", ("2",)),
        ("十万块", ("100000",)),
        ("存5万元", ("50000",)),
        ("一个问题", ()),
        ("三心二意", ()),
    ],
)
def test_values(text, values):
    assert numerals_in(question_of(text).words).values == values
