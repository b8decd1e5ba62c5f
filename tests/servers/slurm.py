"""A Slurm of two nodes on this machine, without systemd, cgroups and a database."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.servers.process import free_port, wait_until

NODES = ("n0", "n1")
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])  # of root only, on some systems
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
_CONFIG = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout={timeout}
KillWait=5
MaxArraySize=1001
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def need_slurm() -> None:
    """Skip the test if Slurm is not installed."""
    if missing := [name for name in _PROGRAMS if not shutil.which(name, path=_PATH)]:
        pytest.skip(f"{missing[0]} is not installed: .ci/install_schedulers installs Slurm on Debian")


class SlurmCluster:
    """A running cluster.

    Args:
        folder: an empty folder for its files; its path must be short, as it holds sockets.
        cpus: processors that each node offers.
        timeout: seconds after which a node that does not answer is lost.
    """

    def __init__(self, folder: Path, cpus: int = 2, timeout: int = 30) -> None:
        self.folder, self._config = folder, folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", *NODES):
            (folder / name).mkdir(mode=0o755, parents=True)
        host = socket.gethostname()
        lines = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs={cpus} RealMemory=4000"
            for node in NODES
        ]
        fields = {"host": host, "port": free_port(), "user": getpass.getuser(), "folder": folder, "timeout": timeout}
        self._config.write_text(_CONFIG.format(**fields, nodes="\n".join(lines)))
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)

    @property
    def env(self) -> dict[str, str]:
        """The variables with which commands use this cluster."""
        return {"SLURM_CONF": str(self._config)}

    def start(self) -> None:
        """Start all daemons; return when both nodes are idle."""
        files = {name: self.folder / f"munge.{name}" for name in ("sock", "key", "pid", "log", "seed")}
        names = {"sock": "socket", "key": "key-file", "pid": "pid-file", "log": "log-file", "seed": "seed-file"}
        options = [f"--{names[name]}={path}" for name, path in files.items()]
        self._launch("munged", "munged", "--foreground", "--force", "--num-threads=2", *options)
        wait_until(lambda: files["sock"].exists(), "munged makes its socket")
        self._launch("slurmctld", "slurmctld", "-D", "-c", "-f", str(self._config))
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: self.command("sinfo", "-h", "-o", "%t").split() == ["idle"], "both nodes are idle")

    def start_node(self, node: str) -> None:
        """Start the daemon of a node."""
        self._launch(node, "slurmd", "-D", "-N", node, "-f", str(self._config))

    def kill_node(self, node: str, *, whole: bool = True) -> None:
        """Kill a node's daemon by SIGKILL.

        Args:
            node: the node.
            whole: whether to kill the processes of its jobs too, as a machine that loses power does. Otherwise they go
                on while the scheduler starts their jobs elsewhere.
        """
        self._daemons[node].kill()
        self._daemons[node].wait()
        if whole:
            processes = self.processes(node)
            for process in [*_step_daemons(processes), *processes]:  # the former would report that the latter died
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def report_down(self, node: str) -> None:
        """Tell Slurm that a node has died, so that its jobs start again at once; its daemon brings it back."""
        self.command("scontrol", "update", f"nodename={node}", "state=DOWN", "reason=killed")

    def processes(self, node: str) -> list[int]:
        """Return the processes of a node's jobs: of this cluster only."""
        wanted = {f"SLURM_CONF={self._config}".encode(), f"SLURMD_NODENAME={node}".encode()}
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if wanted <= _variables(path)]

    def command(self, *words: str) -> str:
        """Run one of Slurm's commands; return its output, "" if it fails."""
        done = subprocess.run(words, env=environment(**self.env), capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def stop(self) -> None:
        """Kill the jobs and the daemons."""
        for node in NODES:
            self.kill_node(node)
        for process in self._daemons.values():
            process.kill()
            process.wait()

    def _launch(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [shutil.which(words[0], path=_PATH) or words[0], *words[1:]],
                env=environment(**self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextlib.contextmanager
def slurm_cluster(folder: Path, cpus: int = 2, timeout: int = 30) -> Iterator[SlurmCluster]:
    """Run a cluster for the time of the block."""
    need_slurm()
    cluster = SlurmCluster(folder, cpus, timeout)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _step_daemons(processes: list[int]) -> set[int]:
    """Return the processes of slurmstepd that started some of these."""
    found = set()
    for process in processes:
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            if Path(f"/proc/{parent}/comm").read_text().startswith("slurmstepd"):
                found.add(parent)
    return found


def _variables(path: Path) -> set[bytes]:
    try:
        return set(path.read_bytes().split(b"\0"))
    except OSError:  # the process has ended, or is another user's
        return set()
