"""Numbers that prove themselves by a check digit: pure functions."""

from __future__ import annotations

_RIC_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_RIC_CHECKS = "10X98765432"


def is_resident_id(text: str) -> bool:
    """Returns whether 18 characters are a Chinese resident identity number (GB 11643-1999, ISO 7064 MOD 11-2)."""
    if len(text) != 18 or not text[:17].isascii() or not text[:17].isdigit():
        return False
    month, day = int(text[10:12]), int(text[12:14])
    total = sum(int(digit) * weight for digit, weight in zip(text, _RIC_WEIGHTS, strict=False))
    return 1 <= month <= 12 and 1 <= day <= 31 and text[17].upper() == _RIC_CHECKS[total % 11]


def is_card_number(digits: str) -> bool:
    """Returns whether 13 to 19 digits are a payment card number (ISO/IEC 7812, Luhn)."""
    if not 13 <= len(digits) <= 19 or digits[0] == "0":
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_iban(text: str) -> bool:
    """Returns whether a text without spaces is an international bank account number (ISO 13616, MOD 97-10)."""
    if not 15 <= len(text) <= 34:
        return False
    moved = text[4:] + text[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1
