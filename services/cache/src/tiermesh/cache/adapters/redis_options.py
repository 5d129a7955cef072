"""What every client of Redis is told, whatever it speaks to."""

from __future__ import annotations

from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig


def client_options() -> dict[str, Any]:
    """Returns the options: RESP2 without greetings, and no second tries (see `redis`)."""
    return {
        "protocol": 2,
        "driver_info": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        "retry": Retry(NoBackoff(), 0),
    }
