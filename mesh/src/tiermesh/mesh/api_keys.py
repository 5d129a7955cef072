"""API keys: read from the tenants' files or environment variables; never printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tiermesh.shared.config import ConfigError, TenantConfig, TiermeshConfig

_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """Which key is whose."""

    by_tenant: Mapping[str, tuple[str, ...]] = field(repr=False)
    """Keys of each tenant."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields every key with its tenant."""
        for tenant, keys in self.by_tenant.items():
            for key in keys:
                yield key, tenant


def key_files(config: TiermeshConfig, state: Path) -> tuple[Path, ...]:
    """Returns the key files of all tenants that have one."""
    return tuple(state / tenant.key_file for tenant in config.tenants if tenant.key_file is not None)


def read_api_keys(config: TiermeshConfig, state: Path, environ: Mapping[str, str]) -> ApiKeys:
    """Reads the keys of every tenant.

    Args:
        config: Its `tenants` section is read.
        state: Folder that relative key files are in.
        environ: Where `key_env` is looked up.

    Raises:
        ConfigError: a tenant has no usable key, or two tenants share one. The message names no key.
    """
    by_tenant: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for tenant in config.tenants:
        source, keys = _read(tenant, state, environ)
        if not keys:
            raise ConfigError(f"tenant {tenant.name!r}: {source} holds no API key; write one a line")
        for number, key in enumerate(keys, start=1):
            # Envoy compares the rest of a header line: a key with a blank in it could never match.
            if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
                raise ConfigError(
                    f"tenant {tenant.name!r}: key {number} of {source} must be at least {_SHORTEST} printable ASCII "
                    "characters without blanks"
                )
            if owner.setdefault(key, tenant.name) != tenant.name:
                raise ConfigError(
                    f"tenant {tenant.name!r}: key {number} of {source} is also a key of tenant {owner[key]!r}; "
                    "a key must name one tenant"
                )
        by_tenant[tenant.name] = tuple(dict.fromkeys(keys))
    return ApiKeys(by_tenant)


def _read(tenant: TenantConfig, state: Path, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    if tenant.key_env is not None:
        source = f"environment variable {tenant.key_env}"
        return source, [key.strip() for key in environ.get(tenant.key_env, "").split(",") if key.strip()]
    assert tenant.key_file is not None
    path = state / tenant.key_file
    source = f"key_file {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tenant {tenant.name!r}: {source} cannot be read ({type(error).__name__})") from None
    lines = (line.strip() for line in text.splitlines())
    return source, [line for line in lines if line and not line.startswith("#")]
