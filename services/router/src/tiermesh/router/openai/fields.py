"""Reads JSON values of an expected type, and names the field of any other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
from tiermesh.router.validation import invalid
from tiermesh.shared.errors import InvalidRequest

_SHOWN_CHARS = 60
_KINDS = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
}


def read_object(body: bytes, *, max_bytes: int) -> dict[str, Any]:
    """Returns the JSON object that a request body is.

    Raises:
        InvalidRequest: the body is empty, too large, or no JSON object in UTF-8.
    """
    if not body.strip():
        raise InvalidRequest("the request body is empty; send a JSON object")
    if len(body) > max_bytes:
        raise InvalidRequest(f"the request body has {len(body)} bytes; at most {max_bytes} are allowed")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(_why_not_json(body, error)) from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the request body must be a JSON object, not {kind_of(value)}")
    return value


def _why_not_json(body: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as problem:
        return f"the request body is not valid UTF-8: byte {problem.start} is 0x{body[problem.start]:02x}"
    return f"the request body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"


def kind_of(value: Any) -> str:
    """Returns a JSON value's type in words."""
    return "null" if value is None else _KINDS.get(type(value), "something else")


def shown(value: str) -> str:
    """Returns a caller's text as messages show it: quoted and not long."""
    return repr(value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…")


def text(field: str, value: Any) -> str:
    """Returns a string.

    Raises:
        InvalidRequest: it is none.
    """
    if isinstance(value, str):
        return value
    raise _wrong(field, value, "a string")


def boolean(field: str, value: Any) -> bool:
    """Returns a boolean.

    Raises:
        InvalidRequest: it is none.
    """
    if isinstance(value, bool):
        return value
    raise _wrong(field, value, "true or false")


def integer(field: str, value: Any, low: int, high: int) -> int:
    """Returns an integer from `low` to `high`; booleans and fractions are none.

    Raises:
        InvalidRequest: it is none, or outside.
    """
    if type(value) is int:
        if low <= value <= high:
            return value
        raise invalid(field, f"must be from {low} to {high}, not {value}")
    if isinstance(value, float):
        # What JSON writes beyond 64 bits arrives as a fraction.
        raise invalid(field, f"must be an integer from {low} to {high}, not {value:g}")
    raise _wrong(field, value, "an integer")


def number(field: str, value: Any) -> float:
    """Returns a number; booleans are none.

    Raises:
        InvalidRequest: it is none.
    """
    if type(value) in {int, float}:
        return float(value)
    raise _wrong(field, value, "a number")


def array(field: str, value: Any) -> list[Any]:
    """Returns an array.

    Raises:
        InvalidRequest: it is none.
    """
    if isinstance(value, list):
        return value
    raise _wrong(field, value, "an array")


def mapping(field: str, value: Any, *, known: Collection[str] | None = None) -> dict[str, Any]:
    """Returns an object, whose keys are all in `known` if that is given.

    Raises:
        InvalidRequest: it is none, or has an unknown key.
    """
    if not isinstance(value, dict):
        raise _wrong(field, value, "an object")
    if known is not None:
        for key in value:
            if key not in known:
                raise invalid(
                    f"{field}.{key[:_SHOWN_CHARS]}", f"is not known here; known are {', '.join(sorted(known))}"
                )
    return value


def _wrong(field: str, value: Any, wanted: str) -> InvalidRequest:
    return invalid(field, f"must be {wanted}, not {kind_of(value)}")
