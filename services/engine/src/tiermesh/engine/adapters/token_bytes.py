"""The bytes behind a vocabulary's entries, which need not be whole characters."""

from __future__ import annotations

import re
from collections.abc import Collection

_HEX = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"
_BYTE_SPACE = "\u0120"


def _byte_alphabet() -> dict[str, int]:
    # GPT-2's byte-level alphabet: printable bytes stand for themselves, the others for characters from U+0100 on.
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(own)]
    return {chr(byte): byte for byte in own} | {chr(0x100 + place): byte for place, byte in enumerate(moved)}


_ALPHABET = _byte_alphabet()


class TokenBytes:
    """Turns vocabulary entries into bytes, for byte-level and for SentencePiece vocabularies.

    Args:
        vocabulary: All entries, from which the kind is told.
        special: Entries that are markers, written out as they are.
    """

    def __init__(self, vocabulary: Collection[str], special: Collection[str]) -> None:
        self._byte_level = _BYTE_SPACE in vocabulary
        self._special = frozenset(special)

    def of(self, entry: str) -> bytes:
        """Returns the bytes of one entry."""
        if entry in self._special:
            return entry.encode("utf-8", "replace")
        if self._byte_level:
            known = [_ALPHABET.get(character) for character in entry]
            if None not in known:
                return bytes(byte for byte in known if byte is not None)
            # An entry that was added later is plain text.
            return entry.encode("utf-8", "replace")
        single = _HEX.fullmatch(entry)
        if single:
            return bytes([int(single[1], 16)])
        return entry.replace(_SPACE_MARK, " ").encode("utf-8", "replace")
