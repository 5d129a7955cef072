"""Files that commands are given: what is wrong with one is told as a configuration's mistakes are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tiermesh.shared.config import ConfigError

T = TypeVar("T")


def read_input(path: Path, read: Callable[[Path], T]) -> T:
    """Returns what `read` makes of a file.

    Raises:
        ConfigError: the file cannot be read, or `read` raised `ValueError`.
    """
    try:
        return read(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name an existing file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from None
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check_writable(path: Path) -> None:
    """Makes sure that a file can be written, and leaves one that is there as it is.

    Raises:
        ConfigError: it cannot.
    """
    there = path.exists()
    try:
        path.open("a").close()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from None
    if not there:
        path.unlink()
