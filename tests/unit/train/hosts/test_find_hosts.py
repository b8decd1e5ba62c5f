"""Which hosts a run has: files, jobs of schedulers, and variables of outer launchers."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import ConfigError
from jprep.train.backend import Host, Nodes
from jprep.train.hosts.find import find_hosts
from jprep.train.hosts.host_set import HostSet
from jprep.train.hosts.outer_launcher import outer_local_rank
from jprep.train.hosts.processes import processes_per_host
from jprep.train.hosts.slurm import expand_hostlist

SLURM = {"SLURM_JOB_NODELIST": "gpu[01-02]", "SLURM_JOB_ID": "12", "SLURM_GPUS_ON_NODE": "4"}


def found(hosts: str, environ: dict[str, str]) -> HostSet:
    result = find_hosts(hosts, environ)
    assert result
    return result


@pytest.mark.parametrize(
    ("text", "names", "slots"),
    [
        ("a slots=8\nb slots=8\n", ("a", "b"), 8),  # DeepSpeed, Open MPI
        ("a:4\nb:4", ("a", "b"), 4),  # MPICH
        ("# two\na\n\nb  # the second\n", ("a", "b"), 0),
        ("a slots=2 max_slots=4\nb slots=4", ("a", "b"), 2),
    ],
)
def test_a_hostfile_has_names_and_slots(text: str, names: tuple[str, ...], slots: int, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    hosts = found(str(path), {})
    assert (hosts.starter, hosts.names, hosts.slots, hosts.strict) == ("ssh", names, slots, True)


@pytest.mark.parametrize(
    ("text", "words"), [("", "no host"), ("a b c", "not a host"), ("a slots=0", "not a host"), ("a\na", "duplicate")]
)
def test_a_malformed_hostfile_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        find_hosts(str(path), {})
    with pytest.raises(ConfigError, match="cannot be read"):
        find_hosts(str(tmp_path / "missing"), {})


def test_node_files_of_schedulers_are_read(tmp_path: Path) -> None:
    pbs, engine = tmp_path / "pbs", tmp_path / "engine"
    pbs.write_text("r1\nr1\nr2\nr2\n")
    engine.write_text("n1 4 gpu.q@n1 UNDEFINED\nn2 4 gpu.q@n2 <NULL>\n")
    hosts = found("pbs", {"PBS_NODEFILE": str(pbs), "PBS_JOBID": "7.server"})
    assert (hosts.names, hosts.slots, hosts.source) == (("r1", "r2"), 2, "the PBS job 7.server")
    hosts = found("grid-engine", {"PE_HOSTFILE": str(engine), "JOB_ID": "9"})
    assert (hosts.names, hosts.slots, hosts.source) == (("n1", "n2"), 4, "the Grid Engine job 9")
    for name in ("pbs", "grid-engine"):
        with pytest.raises(ConfigError, match="is not set"):
            find_hosts(name, {})


def test_an_allocation_of_slurm_is_read() -> None:
    hosts = found("slurm", SLURM)
    assert (hosts.starter, hosts.names, hosts.gpus) == ("srun", ("gpu01", "gpu02"), 4)
    assert found("slurm", SLURM | {"SLURM_GPUS_ON_NODE": "", "SLURM_GPUS_PER_NODE": "a100:8"}).gpus == 8
    with pytest.raises(ConfigError, match="no Slurm allocation") as caught:
        find_hosts("slurm", {})
    assert "--executor slurm" in caught.value.fix


def test_in_a_step_of_srun_every_task_takes_part() -> None:
    step = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    hosts = found("slurm", SLURM | step)
    assert (hosts.starter, hosts.number, hosts.sharing) == ("join", 1, 1)


@pytest.mark.parametrize(
    ("environ", "number", "count", "sharing"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}, 3, 4, 2),
        ({"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-0.job"}, 1, 2, 1),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 0, 2, 2),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2, 1),
    ],
)
def test_variables_of_launchers_are_used(environ: dict[str, str], number: int, count: int, sharing: int) -> None:
    for hosts in ("", "env"):
        one = found(hosts, environ)
        assert (one.starter, one.number, len(one.names), one.sharing) == ("join", number, count, sharing)
        assert one.address == environ.get("MASTER_ADDR", "")
    assert find_hosts("none", environ) is None
    assert outer_local_rank(environ) == int(environ.get("LOCAL_RANK", "0"))


def test_a_single_process_is_no_launcher_s() -> None:
    single = {"RANK": "0", "WORLD_SIZE": "1"}
    assert find_hosts("", single) is None and find_hosts("", {}) is None
    with pytest.raises(ConfigError, match="no launcher"):
        find_hosts("env", single)
    with pytest.raises(ConfigError, match="process 5 of 2"):
        find_hosts("", {"RANK": "5", "WORLD_SIZE": "2"})


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("gpu1", ["gpu1"]), ("a,b", ["a", "b"]), ("gpu[01-03,7],big", ["gpu01", "gpu02", "gpu03", "gpu7", "big"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]), ("gpu[9-11]-ib", ["gpu9-ib", "gpu10-ib", "gpu11-ib"]),
    ],
)  # fmt: skip
def test_slurm_host_lists_are_expanded(names: str, hosts: list[str]) -> None:
    assert expand_hostlist(names) == hosts


@pytest.mark.parametrize("names", ["", "gpu[1-", "gpu[3-1]", "gpu[a]", "gpu]1["])
def test_malformed_host_lists_are_refused(names: str) -> None:
    with pytest.raises(ConfigError, match="hosts"):
        expand_hostlist(names)


@pytest.mark.parametrize(
    ("nodes", "requested", "on_gpus", "count"),
    [
        (None, 0, True, 2), (None, 0, False, 1), (Nodes(2, gpus=8), 0, True, 8), (Nodes(2, slots=3), 0, False, 3),
        (Nodes(2, slots=1), 0, True, 2), (Nodes(2, 4, 4, strict=True), 0, True, 4), (Nodes(2, slots=1), 3, True, 3),
        (Nodes(2, slots=1), 5, False, 5),
    ],
)  # fmt: skip
def test_processes_on_each_host(nodes: Nodes | None, requested: int, on_gpus: bool, count: int) -> None:
    host = Host("python", 4, 1 << 30, ("GPU", "GPU"), 1 << 30, nodes)
    assert processes_per_host(requested, host, "train.backend.x", on_gpus=on_gpus) == count


def test_more_processes_than_slots_of_a_hostfile_are_refused() -> None:
    host = Host("python", 4, 1 << 30, nodes=Nodes(2, 2, 2, strict=True))
    with pytest.raises(ConfigError, match="2 slots"):
        processes_per_host(3, host, "train.backend.x", on_gpus=False)
