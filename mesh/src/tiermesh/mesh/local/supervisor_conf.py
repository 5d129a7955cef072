"""Renders the configuration of supervisord."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from tiermesh.mesh.local.errors import LocalError
from tiermesh.mesh.local.layout import StateLayout
from tiermesh.mesh.local.processes import ProcessSpec

DIGEST = "TIERMESH_SETTINGS"
"""Makes supervisord see a process as changed when only the settings that it reads at its start have changed."""

_STOP_GRACE_S = 10
_SETTLED_S = 3
_RETRIES = 20


def render_supervisor_conf(specs: Iterable[ProcessSpec], layout: StateLayout, *, drain_s: float) -> str:
    """Returns the text of `supervisord.conf`.

    Args:
        specs: The processes to run.
        layout: Where sockets and logs go.
        drain_s: How long a process may take to finish what is in flight; it is killed 10 s later.

    Raises:
        LocalError: a path holds characters that the format cannot carry.
    """
    sections = [
        (
            "unix_http_server",
            {"file": str(layout.supervisor_socket), "chmod": "0600"},
        ),
        (
            "supervisord",
            {
                "pidfile": str(layout.supervisor_pid),
                "logfile": str(layout.supervisor_log),
                "logfile_maxbytes": "5MB",
                "logfile_backups": "2",
                "childlogdir": str(layout.logs),
                "directory": str(layout.root),
                "umask": "077",
            },
        ),
        (
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
        *((f"program:{spec.name}", _program(spec, layout, drain_s)) for spec in specs),
    ]
    return "\n".join(_section(name, values) for name, values in sections)


def _program(spec: ProcessSpec, layout: StateLayout, drain_s: float) -> dict[str, str]:
    environ = {**spec.environ, **({DIGEST: spec.digest} if spec.digest else {})}
    return {
        "command": shlex.join(spec.command),
        "environment": ",".join(f'{name}="{_plain(value)}"' for name, value in sorted(environ.items())),
        "autostart": "true",
        "autorestart": "true",
        # A process that ends sooner than this is started again after 1, 2, 3 ... s.
        "startsecs": str(_SETTLED_S),
        "startretries": str(_RETRIES),
        "stopsignal": "TERM",
        "stopwaitsecs": str(round(drain_s) + _STOP_GRACE_S),
        # SIGTERM goes to the process alone, which ends its own workers once it has drained; signalling the
        # group would end a vLLM worker in the middle of an answer. SIGKILL goes to all of them.
        "stopasgroup": "false",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(layout.log_of(spec.name)),
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "3",
        "priority": str(spec.stage.value * 10),
    }


def _section(name: str, values: Mapping[str, str]) -> str:
    # supervisord expands %(name)s and ends values at a spaced comment sign.
    lines = [f"{key} = {_escape(key, _checked(value))}" for key, value in values.items() if value]
    return f"[{name}]\n" + "\n".join(lines) + "\n"


def _escape(key: str, value: str) -> str:
    escaped = value.replace("%", "%%")
    # Names of log files are expanded twice.
    return escaped.replace("%", "%%") if key == "stdout_logfile" else escaped


def _plain(value: str) -> str:
    if '"' in value or "'" in value:
        raise LocalError(
            f"{value!r} has a quote in it, which supervisord's configuration cannot carry",
            "move the checkout or state folder to a path without quotes.",
        )
    return value


def _checked(value: str) -> str:
    if "\n" in value or " ;" in value or " #" in value:
        raise LocalError(
            f"{value!r} has a character in it that supervisord's configuration cannot carry",
            "move the checkout or state folder to a path without ` ;`, ` #` and line breaks.",
        )
    return value
