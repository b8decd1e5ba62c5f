"""A Grid Engine of one host on this machine, without systemd: Debian's packages, with a cell and ports of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.servers.process import free_port, wait_until

QUEUE = "main"
_PROGRAMS = Path("/usr/lib/gridengine")  # of Debian; those in /usr/bin are scripts that start these
_SHARE = Path("/usr/share/gridengine")
_NEEDED = ("sge_qmaster", "sge_execd", "sge_shepherd", "spoolinit", "spooldefaults", "qsub", "qconf")
_HOST = "localhost"  # this machine's name is an alias of it, so that both ends of a connection have one name
_REPORTED = re.compile(rf"^{QUEUE}@\S+ +\w+ +\S+ +[\d.]+ ", re.MULTILINE)
_LIMITS = [f"{kind}_{name}" for kind in "sh" for name in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")]


def need_grid_engine() -> None:
    """Skip the test if Grid Engine is not installed, or if its daemons cannot be started."""
    if missing := [name for name in _NEEDED if not (_PROGRAMS / name).exists()]:
        pytest.skip(f"{missing[0]} is not installed: .ci/install_schedulers installs Grid Engine on Debian")
    if os.geteuid():
        pytest.skip("only root can start Grid Engine's daemons")


class GridEngineCluster:
    """A running cluster of one host with the queue `main`.

    Args:
        folder: an empty folder for its files.
        slots: number of elements that run at the same time.
    """

    def __init__(self, folder: Path, slots: int = 2) -> None:
        self.folder, self._slots = folder, slots
        self._ports = {"SGE_QMASTER_PORT": str(free_port()), "SGE_EXECD_PORT": str(free_port())}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def env(self) -> dict[str, str]:
        """The variables with which commands use this cluster; the daemons stay children of this process with SGE_ND."""
        path = os.pathsep.join([str(_PROGRAMS), environment()["PATH"]])
        return {"SGE_ROOT": str(self.folder), "SGE_CELL": "default", "SGE_ND": "1", "PATH": path, **self._ports}

    def start(self) -> None:
        """Start the daemons; return when the queue takes jobs."""
        self._write_cell()
        self._launch("sge_qmaster")
        wait_until(lambda: "max_aj_tasks" in self.command("qconf", "-sconf"), "the master answers")
        self._add_queue()
        self.start_host()

    def start_host(self) -> None:
        """Start the daemon that runs jobs; return when it has reported. A closed queue is opened again."""
        self._launch("sge_execd")
        wait_until(lambda: bool(_REPORTED.search(self.command("qstat", "-f"))), "the host reports")
        self.command("qmod", "-cq", QUEUE)

    def kill_host(self) -> None:
        """Kill the daemon and the processes of its jobs by SIGKILL, as a machine that loses power does."""
        self._daemons["sge_execd"].kill()
        self._daemons["sge_execd"].wait()
        for process in (killed := self.processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # A daemon that starts before they are gone takes them for jobs that run on.
        wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in killed), "the jobs are gone")

    def processes(self) -> list[int]:
        """Return the processes of this cluster's jobs, with the daemons that watch them."""
        wanted = f"SGE_ROOT={self.folder}".encode()
        found = [path for path in Path("/proc").glob("[0-9]*/environ") if wanted in _variables(path)]
        return [int(path.parent.name) for path in found if _is_of_a_job(path)]

    def running(self) -> bool:
        """Return whether a job's script has begun. Grid Engine closes a queue where a job died before that."""
        logs = [_variables(Path(f"/proc/{process}/environ")) for process in self.processes()]
        return any(each.startswith(b"JPREP_JOB_LOG=") for variables in logs for each in variables)

    def command(self, *words: str) -> str:
        """Run one of Grid Engine's commands; return its output, "" if it fails."""
        done = subprocess.run(words, env=environment(**self.env), capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def stop(self) -> None:
        """Kill the jobs and the daemons."""
        if "sge_execd" in self._daemons:
            self.kill_host()
        for process in self._daemons.values():
            process.kill()
            process.wait()

    def _write_cell(self) -> None:
        """Write the files of the cell and its database, as Debian's `init_cluster` does for the one of the system."""
        common, database = self.folder / "default/common", self.folder / "database"
        for path in (common, database, self.folder / "master", self.folder / "host"):
            path.mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (self.folder / name).symlink_to(Path("/var/lib/gridengine") / name)
        names = {"admin_user": "none", "spooling_params": database, "qmaster_spool_dir": self.folder / "master"}
        (common / "bootstrap").write_text(_changed((_SHARE / "default-bootstrap").read_text(), names))
        (common / "act_qmaster").write_text(f"{_HOST}\n")
        (common / "host_aliases").write_text(f"{_HOST} {socket.gethostname()}\n")
        site = {"execd_spool_dir": self.folder / "host", "min_uid": 0, "min_gid": 0, "load_report_time": "00:00:01"}
        conf = self._write("conf", _changed((_SHARE / "default-configuration").read_text(), site))
        self._run(_PROGRAMS / "spoolinit", "berkeleydb", "libspoolb", database, "init")
        defaults = _PROGRAMS / "spooldefaults"
        self._run(defaults, "configuration", conf)
        self._run(defaults, "complexes", _SHARE / "util/resources/centry")
        self._run(defaults, "usersets", _SHARE / "util/resources/usersets")
        self._run(defaults, "managers", pwd.getpwuid(os.geteuid()).pw_name)

    def _add_queue(self) -> None:
        """Let this host submit, add the parallel environment `smp` and the queue, and start jobs without delay."""
        soon = {"schedule_interval": "0:0:1", "flush_submit_sec": 1, "flush_finish_sec": 1}
        self._run("qconf", "-Msconf", self._write("soon", _changed(self.command("qconf", "-ssconf"), soon)))
        self._run("qconf", "-as", _HOST)
        self._run("qconf", "-Ap", self._write("parallel", _lines(_PARALLEL)))
        self._run("qconf", "-Aq", self._write("queue", _lines(_QUEUE | {"slots": self._slots})))

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.conf"
        path.write_text(text)
        return path

    def _run(self, *words: object) -> None:
        done = subprocess.run([*map(str, words)], env=environment(**self.env), capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    def _launch(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [_PROGRAMS / name],
                env=environment(**self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextlib.contextmanager
def grid_engine_cluster(folder: Path, slots: int = 2) -> Iterator[GridEngineCluster]:
    """Run a cluster for the time of the block."""
    need_grid_engine()
    cluster = GridEngineCluster(folder, slots)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


_PARALLEL: dict[str, object] = {
    "pe_name": "smp",
    "slots": 100,
    "user_lists": "NONE",
    "xuser_lists": "NONE",
    "start_proc_args": "NONE",
    "stop_proc_args": "NONE",
    "allocation_rule": "$pe_slots",
    "control_slaves": "FALSE",
    "job_is_first_task": "TRUE",
    "urgency_slots": "min",
    "accounting_summary": "FALSE",
    "qsort_args": "NONE",
}

_QUEUE: dict[str, object] = {
    "qname": QUEUE,
    "hostlist": _HOST,
    "seq_no": 0,
    "nsuspend": 1,
    "suspend_interval": "00:05:00",
    "priority": 0,
    "min_cpu_interval": "00:05:00",
    "processors": "UNDEFINED",
    "qtype": "BATCH",
    "pe_list": "smp",
    "rerun": "FALSE",
    "tmpdir": "/tmp",
    "shell": "/bin/sh",
    "shell_start_mode": "posix_compliant",
    "notify": "00:00:60",
    "initial_state": "default",
    "load_thresholds": "NONE",
    "suspend_thresholds": "NONE",
    "ckpt_list": "NONE",
    "prolog": "NONE",
    "epilog": "NONE",
    "starter_method": "NONE",
    "suspend_method": "NONE",
    "resume_method": "NONE",
    "terminate_method": "NONE",
    "owner_list": "NONE",
    "user_lists": "NONE",
    "xuser_lists": "NONE",
    "subordinate_list": "NONE",
    "complex_values": "NONE",
    "projects": "NONE",
    "xprojects": "NONE",
    "calendar": "NONE",
    **dict.fromkeys(_LIMITS, "INFINITY"),
}


def _lines(fields: Mapping[str, object]) -> str:
    return "".join(f"{name} {value}\n" for name, value in fields.items())


def _changed(text: str, fields: Mapping[str, object]) -> str:
    """Return a configuration with other values."""
    for name, value in fields.items():
        text, count = re.subn(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.MULTILINE)
        assert count == 1, f"{name} is not configured"
    return text


def _is_of_a_job(path: Path) -> bool:
    """Whether a process is a job's or the daemon that watches it; the commands of a test have the same variables."""
    try:
        watches = path.with_name("comm").read_text().strip() == "sge_shepherd"
    except OSError:  # it has ended
        return False
    return watches or any(each.startswith(b"JOB_ID=") for each in _variables(path))


def _variables(path: Path) -> set[bytes]:
    try:
        return set(path.read_bytes().split(b"\0"))
    except OSError:  # the process has ended, or is another user's
        return set()
