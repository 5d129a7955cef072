"""What is in the files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pem:
    """Contents of the files that a process is known by."""

    certificate: bytes
    private_key: bytes = field(repr=False)
    trusted_ca: bytes | None = None
