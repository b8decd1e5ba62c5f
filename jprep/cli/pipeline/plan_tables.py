"""The tables that `jprep plan` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jprep.cli.common.output import echo, print_columns
from jprep.pipeline.estimate.comparison import StepComparison
from jprep.pipeline.estimate.result import TRAIN, RecipeEstimate, StepEstimate
from jprep.plurals import counted

Row = tuple[str, ...]

_UNITS = ((86_400 * 2, 86_400, "days"), (3_600, 3_600, "h"), (60, 60, "min"), (0, 1, "s"))


def show_estimate(estimate: RecipeEstimate) -> None:
    """Print an estimate."""
    echo(f"{estimate.name}: {counted(estimate.workers, 'worker')}, executor {estimate.executor}")
    _show_inputs(estimate)
    _show_steps(estimate)
    if estimate.scaling:
        _show_scaling(estimate)
    machine = estimate.machine
    disk = f"{_size(machine.write)}/s written, {_size(machine.read)}/s read, {machine.files:,.0f} files/s committed"
    echo(f"\nmeasured in {estimate.calibration:.0f} s; disk: {disk}")
    for text in estimate.assumptions:
        echo(f"  assumed: {text}")
    for text in estimate.warnings:
        echo(f"  warning: {text}")


def _show_inputs(estimate: RecipeEstimate) -> None:
    rows: list[Row] = [("input", "files", "bytes", "to download", "sample")]
    for each in estimate.inputs:
        size = _size(each.size) + (f" + {each.unknown} unknown" if each.unknown else "")
        sample = f"1/{each.factor:,.0f}" if each.factor > 1 else "all"
        rows.append((each.name, f"{each.files:,}", size, _size(each.to_download), sample))
    print_columns(rows, right=True)


def _show_steps(estimate: RecipeEstimate) -> None:
    rows: list[Row] = [("step", "time", "from … to", "CPU time", "most disk", "kept", "files", "memory", "limited by")]
    rows += [row for step in estimate.steps for row in _step_rows(step)]
    cpu = sum(step.cpu for step in estimate.steps)
    peak = _size(estimate.peak_disk)
    kept = _size(sum(step.result for step in estimate.steps))
    files = f"{sum(step.files for step in estimate.steps):,}"
    memory = _size(max((step.total_memory for step in estimate.steps), default=0))
    memory += " without train" if any(step.step == TRAIN and not step.total_memory for step in estimate.steps) else ""
    low, high = (sum(getattr(step, name) for step in estimate.steps) for name in ("low", "high"))
    rows.append(("total", _time(estimate.wall), _range(low, high), _time(cpu), peak, kept, files, memory, ""))
    echo()
    print_columns(rows, right=True)
    if estimate.training:
        echo(f"training: {estimate.training}")
    if jobs := sum(step.jobs for step in estimate.steps):
        echo(f"jobs of the scheduler: {jobs:,}")


def _step_rows(step: StepEstimate) -> list[Row]:
    wall = "unknown" if step.limit == "unknown" else _time(step.wall)
    found: list[Row] = [
        (
            step.step,
            wall,
            "" if step.limit == "unknown" else _range(step.low, step.high),
            _time(step.cpu) if step.cpu else "",
            _size(step.disk),
            _size(step.result),
            f"{step.files:,}" if step.files else "",
            _size(step.total_memory) if step.total_memory else "",
            step.limit,
        )
    ]
    for stage in step.stages:
        name, cpu = f"  {stage.name} ({stage.tasks:,})", _time(stage.cpu)
        memory = f"{_size(stage.memory)} each"
        found.append((name, _time(stage.wall), "", cpu, _size(stage.disk), "", "", memory, stage.limit))
    return found


def _show_scaling(estimate: RecipeEstimate) -> None:
    echo("\nsimulated with this disk's rates, unless options name others; without training:")
    rows: list[Row] = [("workers", "time", "speed-up", "processors used", "limited most by")]
    for each in estimate.scaling:
        limit = f"{each.limit} ({each.share:.0%} of the time)"
        rows.append((f"{each.workers:,}", _time(each.wall), f"{each.speedup:,.1f}", f"{each.processors:.0%}", limit))
    print_columns(rows, right=True)


def show_comparison(estimate: RecipeEstimate, compared: Sequence[StepComparison]) -> None:
    """Print what was planned and what it took."""
    planned = f"planned for {counted(estimate.workers, 'worker')}, executor {estimate.executor}"
    echo(f"{estimate.name}: {planned} → what it took")
    rows: list[Row] = [("step", "CPU time", "", "time", "", "most disk", "", "kept", "", "memory", "")]
    for each in compared:
        stage = "/" in each.name
        name = f"  {each.name.partition('/')[2]}" if stage else each.name
        kept = ("", "") if stage else _pair(_size, each.result)
        cpu, wall, disk = _pair(_time, each.cpu), _pair(_time, each.wall), _pair(_size, each.disk)
        rows.append((name, *cpu, *wall, *disk, *kept, *_pair(_size, each.memory)))
    print_columns(rows, right=True)


def _pair(show: Callable[[float], str], values: tuple[float, float]) -> tuple[str, str]:
    """Return planned and actual value, and how much more the actual one is."""
    planned, actual = values
    change = f"{actual / planned - 1:+.0%}" if planned else ""
    return f"{show(planned)} → {show(actual)}", change


def _time(seconds: float) -> str:
    unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{seconds / unit[1]:,.{1 if seconds / unit[1] < 10 else 0}f} {unit[2]}"


def _range(low: float, high: float) -> str:
    return f"{_time(low)} … {_time(high)}"


def _size(size: float) -> str:
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= factor:
            return f"{size / factor:,.{1 if size < 100 * factor else 0}f} {unit}"
    return f"{size / 1e3:,.0f} kB"
