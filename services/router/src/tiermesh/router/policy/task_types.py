"""Names of the kinds of work, as configuration, labels and headers write them."""

from __future__ import annotations

from tiermesh.api.classifier.v1.classifier_pb2 import TaskType

_PREFIX = "TASK_TYPE_"
UNSPECIFIED = "unspecified"
_NAMES: dict[int, str] = {number: name.removeprefix(_PREFIX).lower() for name, number in TaskType.items()}
_NUMBERS = {name: number for number, name in _NAMES.items()}


def task_type_name(value: int) -> str:
    """Returns the name of an enum value, such as `faq`; values of a newer contract are `unspecified`."""
    return _NAMES.get(value, UNSPECIFIED)


def task_type_value(name: str) -> TaskType.ValueType:
    """Returns the enum value of a name; unknown names are TASK_TYPE_UNSPECIFIED."""
    return TaskType.ValueType(_NUMBERS.get(name, 0))
