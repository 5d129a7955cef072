"""Numbers, units and dates must be the same."""

from __future__ import annotations

from collections import Counter

from tiermesh.cache.semantic.numerals import numerals_in
from tiermesh.cache.semantic.question import Question

_UNITS = {
    unit: names[0]
    for names in (
        ("usd", "dollar", "dollars", "bucks", "美元", "美金"), ("eur", "euro", "euros", "欧元"), ("gbp", "pound sterling", "quid"),
        ("cny", "rmb", "yuan", "人民币"), ("jpy", "yen", "日元"), ("km", "kilometer", "kilometers", "kilometre", "kilometres", "公里", "千米"),
        ("mile", "miles", "英里"), ("meter", "meters", "metre", "metres"), ("foot", "feet", "ft"), ("inch", "inches", "英寸"),
        ("cm", "centimeter", "centimeters", "厘米"), ("mm", "millimeter", "millimeters", "毫米"), ("kg", "kilo", "kilos", "kilogram", "kilograms", "公斤", "千克"),
        ("gram", "grams"), ("mg", "milligram", "milligrams", "毫克"), ("lb", "lbs", "pound", "pounds"), ("oz", "ounce", "ounces", "盎司"),
        ("liter", "liters", "litre", "litres"), ("ml", "milliliter", "milliliters", "毫升"), ("gallon", "gallons"), ("cup", "cups"),
        ("second", "seconds", "sec", "秒"), ("minute", "minutes", "min", "mins", "分钟"), ("hour", "hours", "hr", "hrs", "小时", "钟头"),
        ("day", "days"), ("week", "weeks"), ("month", "months"), ("year", "years"), ("celsius", "摄氏度"), ("fahrenheit", "华氏度"),
        ("percent", "per cent"), ("kb", "kilobyte", "kilobytes"), ("mb", "megabyte", "megabytes"), ("gb", "gigabyte", "gigabytes"), ("tb", "terabyte", "terabytes"), ("watt", "watts"), ("kwh",), ("mph",), ("kph",),
    )
    for unit in names
}  # fmt: skip
_SIGNS = {
    "$": "usd",
    "€": "eur",
    "£": "gbp",
    "¥": "cny",
    "￥": "cny",
    "%": "percent",
    "°": "degree",
    "+": "plus",
    "×": "times",
}
_ZH_UNITS = sorted((unit for unit in _UNITS if not unit.isascii()), key=len, reverse=True)


def refuse(asked: Question, known: Question) -> str | None:
    """Refuses other numbers, other units, and numbers that only one of them has."""
    one, other = numerals_in(asked.words).values, numerals_in(known.words).values
    if Counter(one) != Counter(other):
        return f"{', '.join(one) or 'no number'} and {', '.join(other) or 'no number'}"
    if one != other and len(set(one)) > 1:
        return "their numbers are in another order"
    mine, theirs = units_in(asked), units_in(known)
    if mine != theirs and (one or (mine and theirs)):
        return f"units {', '.join(sorted(mine)) or 'none'} and {', '.join(sorted(theirs)) or 'none'}"
    return None


def units_in(question: Question) -> frozenset[str]:
    """Returns the units and signs in a text, each by one name."""
    found = {name for sign, name in _SIGNS.items() if sign in question.text}
    if question.language == "zh":
        rest = question.text.lower()
        for unit in _ZH_UNITS:
            if unit in rest:
                found.add(_UNITS[unit])
                rest = rest.replace(unit, " ")
    found.update(_UNITS[word] for word in question.words if word in _UNITS)
    return frozenset(found)
