"""A systemd unit and a cron line that start a run's command after a boot or a failure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.io.escaping import one_line

NOT_RESTARTED = (2, 3, 4)
"""Exit codes of `jprep train` that a restart does not help: usage, environment, input."""

_STOPPED = 130  # by a signal, with a checkpoint
_MINUTES = 10  # between two attempts of cron
STOP_FILE = "service.stopped"
"""The file of a run directory that ends its cron job."""

_LOCK_FILE, _LOG_FILE = "service.lock", "service.log"

_UNIT = """\
# systemd unit of the run {title}
#   jprep service RUN > {name}.service
#   sudo cp {name}.service /etc/systemd/system/
#   sudo systemctl daemon-reload
#   sudo systemctl enable --now {name}.service     # starts now and at each boot
#   journalctl -u {name}.service                   # what it prints
[Unit]
Description=jprep run {title}
Wants=network-online.target
After=network-online.target
RequiresMountsFor={mounts}

[Service]
{user}WorkingDirectory={folder}
{environment}ExecStart={command}
# 0: finished. {stopped}: stopped by a signal, after saving a checkpoint. {never}: a restart does not help.
SuccessExitStatus={stopped}
Restart=on-failure
RestartPreventExitStatus={never}
RestartSec=30
# The signal goes to the supervisor, which lets the workers save a checkpoint.
KillMode=mixed
TimeoutStopSec=90
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
"""


class Service(NamedTuple):
    """What a service starts.

    Attributes:
        name: the run's name.
        run: the absolute path of the run directory.
        folder: the absolute path of the working directory.
        command: the program, with an absolute path, and its arguments.
        environment: environment variables.
        environment_file: path of a file with more of them, such as tokens; "" for none.
        user: the user to run as; "" for the default.
    """

    name: str
    run: Path
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    environment_file: str = ""
    user: str = ""


def systemd_unit(service: Service) -> str:
    """Return a unit that runs the command at boot, and again after a failure.

    Raises:
        ConfigError: a unit cannot express the path of the program or of the working directory.
    """
    program, *words = service.command
    _check_program(program)
    name, title = unit_name(service.name), one_line(service.name).replace("%", "%%")
    mounts = dict.fromkeys((str(service.folder), str(service.run)))
    environment = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in service.environment.items())
    file = f"EnvironmentFile={_plain(service.environment_file)}\n" if service.environment_file else ""
    return _UNIT.format(
        name=name,
        title=title,
        mounts=" ".join(_quoted(_checked(path)) for path in mounts),
        user=f"User={_plain(service.user)}\n" if service.user else "",
        folder=_plain(str(service.folder)),
        environment=environment + file,
        command=" ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in words)]),
        stopped=_STOPPED,
        never=" ".join(map(str, NOT_RESTARTED)),
    )


def cron_line(service: Service) -> str:
    """Return a line for crontab that runs the command every ten minutes, unless it runs already.

    A file in the run directory keeps cron from running it again once it is finished, or failed with an exit code that a
    restart does not help.

    Raises:
        ConfigError: a crontab cannot express a path or an argument.
    """
    stop, lock, log = (shlex.quote(str(service.run / file)) for file in (STOP_FILE, _LOCK_FILE, _LOG_FILE))
    variables = shlex.join(f"{name}={value}" for name, value in service.environment.items())
    command = f"env {variables} {shlex.join(service.command)}" if variables else shlex.join(service.command)
    file = f"set -a; . {shlex.quote(service.environment_file)}; set +a; " if service.environment_file else ""
    codes = "|".join(map(str, (0, *NOT_RESTARTED)))
    attempt = f"{file}{command}; case $? in {codes}) touch {stop};; esac"
    guarded = f"[ -e {stop} ] || flock -n {lock} sh -c {shlex.quote(attempt)} >> {log} 2>&1"
    line = f"cd {shlex.quote(str(service.folder))} && {{ {guarded}; }}"
    if one_line(line) != line or "\\" in line:
        fix = "use the systemd unit, or paths without control characters and backslashes"
        raise ConfigError("a crontab cannot express this command", where=str(service.run)[:200], fix=fix)
    return f"*/{_MINUTES} * * * * {line.replace('%', chr(92) + '%')}\n"


def unit_name(name: str) -> str:
    """Return the name of a run's unit, without `.service`."""
    return "jprep-" + (re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:200] or "run")


def _check_program(program: str) -> None:
    """systemd refuses programs with these characters in their path."""
    if one_line(program) != program or any(sign in program for sign in "\"'\\"):
        fix = "install jprep under a path without quotes, backslashes and control characters"
        raise ConfigError("systemd cannot start a program under this path", where=program, fix=fix)


def _checked(path: str) -> str:
    """Return a path that settings without escapes can express."""
    if one_line(path) != path or path != path.strip() or path.endswith("\\"):
        fix = "rename it: no control characters, no spaces at its ends, no backslash at its end"
        raise ConfigError("a systemd unit cannot express this path", where=path, fix=fix)
    return path


def _plain(text: str) -> str:
    """Return the value of a setting that systemd reads as it is, except for specifiers."""
    return _checked(text).replace("%", "%%")


def _quoted(word: str) -> str:
    """Return a word of a setting, quoted for systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = "".join(map(_escape, escaped))
    return escaped if re.fullmatch(r"[\w./=:,@%+-]+", escaped, re.ASCII) else f'"{escaped}"'


def _escape(sign: str) -> str:
    """Return a character, as an escape of systemd if a terminal or an editor may not show it."""
    if one_line(sign) == sign:
        return sign
    number = ord(sign)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
