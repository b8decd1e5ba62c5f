"""The systemd unit and the cron line of a run: what they start, when they stop, and quoting."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError
from jprep.train.launcher.service import NOT_RESTARTED, Service, cron_line, systemd_unit, unit_name
from jprep.train.launcher.start_command import COMMAND, StartCommand, read_command, write_command
from tests.conftest import PATIENCE

HOSTILE = [
    "a b", "it's", '"quoted"', "100%", "$HOME", "${A}", "back\\slash", "tab\there", "line\nbreak", "%n %%", "~", "東京",
    "\u202e", "é\x85", ";rm", "#",
]  # fmt: skip


def service(tmp_path: Path, command: list[str] | None = None, **more: object) -> Service:
    given = {"name": "small", "run": tmp_path / "run", "folder": tmp_path, "environment": {}}
    return Service(command=command or ["/usr/bin/jprep", "train", "r.toml"], **given | more)  # type: ignore[arg-type]


def setting(unit: str, name: str) -> str:
    found = re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)
    assert len(found) == 1
    return str(found[0])


def systemd_words(value: str) -> list[str]:
    """Read words as systemd.service(5) and systemd.syntax(7) say: quotes, C escapes, specifiers, variables."""
    words, word, quoted, index, begun = [], "", "", 0, False
    while index < len(value):
        sign = value[index]
        index += 1
        if sign == "\\":
            escape = re.match(r'x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([\\"\'])', value[index:])
            assert escape, "an unknown escape"
            digits = escape[1] or escape[2] or escape[3]
            word += chr(int(digits, 16)) if digits else escape[4]
            index += escape.end()
        elif sign == quoted:
            quoted = ""
        elif sign in "\"'" and not quoted:
            quoted, begun = sign, True
        elif sign == " " and not quoted:
            words, word, begun = words + [word] * bool(word or begun), "", False
        elif sign == "%" or (sign == "$" and words):
            assert value[index] == sign, "a specifier or a variable"
            word, index = word + sign, index + 1
        else:
            word += sign
    assert not quoted
    return words + [word] * bool(word or begun)


def test_a_unit_starts_the_command_at_boot_and_after_a_failure(tmp_path: Path) -> None:
    unit = systemd_unit(
        service(tmp_path, environment={"JPREP_BACKENDS": "/b c"}, environment_file="/etc/tokens", user="me")
    )
    assert setting(unit, "ExecStart") == "/usr/bin/jprep train r.toml"
    assert setting(unit, "WorkingDirectory") == str(tmp_path) and setting(unit, "User") == "me"
    assert setting(unit, "Environment") == '"JPREP_BACKENDS=/b c"' and setting(unit, "EnvironmentFile") == "/etc/tokens"
    assert setting(unit, "Restart") == "on-failure" and setting(unit, "WantedBy") == "multi-user.target"
    assert setting(unit, "RestartPreventExitStatus") == "2 3 4" and setting(unit, "SuccessExitStatus") == "130"
    assert "jprep-small.service" in unit


def test_exit_codes_that_do_not_restart_are_those_of_the_errors() -> None:
    from jprep import errors

    codes = {errors.ConfigError.exit_code, errors.MachineError.exit_code, errors.InputError.exit_code}
    assert codes == set(NOT_RESTARTED)


@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=4))
def test_arguments_reach_the_program_unchanged(words: list[str]) -> None:
    unit = systemd_unit(service(Path("/work"), ["/usr/bin/jprep", *words]))
    assert systemd_words(setting(unit, "ExecStart")) == ["/usr/bin/jprep", *words]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_quoted_or_refused(tmp_path: Path, name: str) -> None:
    try:
        unit = systemd_unit(service(tmp_path / name))
    except ConfigError as error:
        assert "rename" in error.fix and not name.isprintable()
        return
    assert setting(unit, "WorkingDirectory").replace("%%", "%") == str(tmp_path / name)
    assert len(unit.splitlines()) == len(systemd_unit(service(tmp_path)).splitlines())


@pytest.mark.parametrize("wrong", [" /a", "/a ", "/a\\", "/a\nExecStart=/bin/evil"])
def test_paths_that_a_unit_cannot_express_are_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="cannot express"):
        systemd_unit(service(tmp_path, folder=wrong))
    with pytest.raises(ConfigError):
        systemd_unit(service(tmp_path, ["/it's/jprep", "train"]))


def test_a_name_becomes_a_unit_s_name() -> None:
    assert unit_name("small-batch") == "jprep-small-batch" and unit_name("a/b %n\n日") == "jprep-a_b__n__"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    folder = tmp_path / '100% it\'s $HOME "x" 東京'
    folder.mkdir()
    program = tmp_path / "a b"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = service(folder, [str(program), "train", *HOSTILE], environment={"A": "%n $B \"c'"})
    path = tmp_path / "jprep-small.service"
    path.write_text(systemd_unit(found), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=PATIENCE)
    assert "jprep-small" not in done.stderr and done.returncode == 0, done.stderr


def run_cron(line: str, **env: str) -> None:
    """Run a line of a crontab as cron does."""
    minutes, command = line.rstrip("\n").split(" * * * * ", 1)
    assert minutes == "*/10" and not re.search(r"(?<!\\)%", command)
    words = ["/bin/sh", "-c", command.replace("\\%", "%")]
    subprocess.run(words, check=True, timeout=PATIENCE, env=os.environ | env)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_cron_repeats_the_command_unless_it_is_finished_or_cannot_succeed(tmp_path: Path, code: int) -> None:
    folder = tmp_path / "100% it's $HOME 東京; #"
    (run := folder / "run").mkdir(parents=True)
    program = tmp_path / "my program"
    program.write_text(f'#!/bin/sh\necho "$1/$A" >> calls\nexit {code}\n')
    program.chmod(0o755)
    found = service(tmp_path, [str(program), "%n 'x' $B"], run=run, folder=folder, environment={"A": "it's 5%"})
    for _ in range(2):
        run_cron(cron_line(found))
    calls = (folder / "calls").read_text().splitlines()
    assert calls == ["%n 'x' $B/it's 5%"] * (1 if code in (0, 2, 3, 4) else 2)


def test_cron_does_not_start_a_second_process(tmp_path: Path) -> None:
    (run := tmp_path / "run").mkdir()
    found = service(tmp_path, ["/usr/bin/touch", "called"], run=run)
    with subprocess.Popen(["flock", run / "service.lock", "sh", "-c", "echo; read _"], stdin=-1, stdout=-1) as holder:
        assert holder.stdout and holder.stdin and holder.stdout.readline()
        with pytest.raises(subprocess.CalledProcessError):
            run_cron(cron_line(found))
        holder.stdin.close()
    assert not (tmp_path / "called").exists()
    run_cron(cron_line(found))
    assert (tmp_path / "called").exists()


@pytest.mark.parametrize("word", ["a\nb", "a\\b"])
def test_a_crontab_cannot_express_control_characters(tmp_path: Path, word: str) -> None:
    with pytest.raises(ConfigError, match="crontab"):
        cron_line(service(tmp_path, ["/usr/bin/jprep", word]))


def test_the_command_of_a_run_is_stored(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no {COMMAND}"):
        read_command(tmp_path)
    command = StartCommand(("train", "r.toml", "--set", "a=b c"), "/work")
    write_command(tmp_path, command)
    assert read_command(tmp_path) == command
    changed = json.loads((tmp_path / COMMAND).read_bytes()) | {"folder": "/elsewhere"}
    (tmp_path / COMMAND).write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match="damaged"):
        read_command(tmp_path)
