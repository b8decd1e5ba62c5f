"""`jprep train`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import AS_JSON, BACKEND, OVERRIDES, RECIPE, RESTART, WORK_FOLDER
from jprep.cli.common.output import echo, echo_fields, echo_json, next_steps, note
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.cli.common.shell_command import shell_command, shell_quote
from jprep.display_width import display_width, pad
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.pipeline.recipe import Recipe
    from jprep.train.job.config import TrainConfig
    from jprep.train.launcher.launch import PreparedRun, RunInputs
    from jprep.train.launcher.start_command import StartCommand
    from jprep.train.planning.cost import Price
    from jprep.train.run.log import Say
    from jprep.train.run.profile import ProfileSteps

_LEAST_TIMEOUT = 10.0  # minutes to wait for the first of several processes
_ONCE = ("--resume", "--profile")  # options of one start that are not repeated
_ONCE_FLAGS = ("--restart",)


def _resume_step(context: click.Context, option: click.Parameter, value: str) -> int | None:
    """Return the step to resume from, 0 for the beginning; None for the newest checkpoint."""
    if value == "auto":
        return None
    if value != "never" and not value.isdecimal():
        raise click.BadParameter("give auto, never, or the step of a checkpoint", context, option)
    return 0 if value == "never" else int(value)


def _profile(context: click.Context, option: click.Parameter, value: str | None) -> ProfileSteps | None:
    from jprep.train.run.profile import parse_profile

    return parse_profile(value) if value else None


def _price(context: click.Context, option: click.Parameter, value: str | None) -> Price | None:
    from jprep.train.planning.cost import parse_price

    return parse_price(value) if value else None


@click.command()
@RECIPE
@BACKEND
@click.option(
    "--tokenizer", type=FINISHED_OUTPUT, help="The tokenizer. Default: the recipe's own, else that of model.init."
)
@click.option("--dataset", type=FINISHED_OUTPUT, help="The dataset. Default: the recipe's own.")
@OVERRIDES
@click.option(
    "--resume", "resume_step", default="auto", show_default=True, metavar="auto|STEP|never", callback=_resume_step,
    help="Resume an existing run from its last valid checkpoint, from another step, or from the beginning.",
)  # fmt: skip
@RESTART
@click.option("-o", "--output", type=OUTPUT_PATH, help="Run directory. Default: WORK/RECIPE/runs/NAME.")
@click.option("--name", help="Name of the run. Default: the backend's.")
@WORK_FOLDER
@click.option("--dry-run", is_flag=True, help="Print the plan and estimates, do nothing. Exit code 3: out of memory.")
@click.option(
    "--price", metavar="PRICE/hour", callback=_price,
    help="Price of all machines together, for --dry-run: 32.77/hour, '$786/day', '5000 JPY/hour'.",
)  # fmt: skip
@click.option(
    "--profile", metavar="steps=FIRST:LAST", callback=_profile,
    help="Trace these steps for TensorBoard or Perfetto, and print where their time goes.",
)  # fmt: skip
@click.option(
    "--executor", metavar="NAME", help="Submit the training as a job instead: slurm. Its resources: [train.submit]."
)
@click.option("--all-folds", is_flag=True, help="Train once for each fold of labelled data and print the means.")
@AS_JSON
def train(
    recipe: Path,
    backend: str | None,
    tokenizer: Path | None,
    dataset: Path | None,
    overrides: tuple[str, ...],
    resume_step: int | None,
    restart: bool,
    output: Path | None,
    name: str | None,
    work: Path,
    dry_run: bool,
    price: Price | None,
    profile: ProfileSteps | None,
    executor: str | None,
    all_folds: bool,
    as_json: bool,
) -> int:
    """Train the model of a recipe's section [train] on its dataset, on labelled data or on conversations.

    Interrupt at any time and rerun to resume from the last checkpoint; the weights are identical. The first Ctrl-C
    saves a checkpoint and exits; the second exits at once.

    \b
    Example:
      jprep train data_recipes/jawiki.toml --dry-run --price 3.67/hour
      jprep train data_recipes/jawiki.toml --set train.batch=64 --name small-batch
    """
    limit_blas_threads()
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.cli.model.same_job import note_same_job
    from jprep.cli.model.training_plan import show_plan
    from jprep.pipeline.recipe import load_recipe
    from jprep.train.backend_loading import default_backend_name
    from jprep.train.launcher.cross_validation import plan_first_fold
    from jprep.train.launcher.launch import RunInputs, delete_earlier_run, outer_host_set, prepare_run
    from jprep.train.launcher.time_limit import ignore_time_limit
    from jprep.train.run.directory import check_existing_run

    _check_options(name, output, resume_step, profile, all_folds=all_folds, dry_run=dry_run)
    _check_restart(resume_step, executor, restart=restart)
    loaded = load_recipe(recipe, overrides)
    if loaded.train and loaded.train.data:
        kind = "conversations" if loaded.train.task == "sft" else "labelled data"
        refuse_unused(f"the recipe trains on {kind}", "dataset")
    chosen = backend or default_backend_name(loaded.train)
    run = output or work / loaded.name / "runs" / (name or chosen)
    run_name = name or (run.resolve().name if output else loaded.name)
    if loaded.train:
        tokenizer, dataset = _inputs(recipe, loaded, work, tokenizer, dataset)
    tokenizer = tokenizer or work / loaded.name / "tokenizer"
    restart = restart and _may_restart()
    if executor:
        from jprep.cli.model.training_submission import submit

        return submit(executor, loaded.train, chosen, loaded.name, run, dry_run=dry_run, as_json=as_json)
    if not dry_run and (outer := outer_host_set(loaded.train, chosen)):
        if all_folds:
            raise click.UsageError(f"--all-folds trains several runs, and {outer.source} are for one")
        if outer.number:
            return _join(loaded.train, run, outer.number)
    mix = loaded.dataset.mix if loaded.dataset else None
    inputs = RunInputs(run_name, chosen, run, tokenizer, dataset, mix)
    if dry_run:
        plan = plan_first_fold(loaded.train or {}, inputs) if all_folds else prepare_run(loaded.train, inputs, dry=True)
        code = show_plan(plan, price, as_json=as_json)
        check_existing_run(plan.run, plan.job)
        return code
    if all_folds:
        return _train_folds(loaded.train, inputs, restart=restart, as_json=as_json)
    prepared = prepare_run(loaded.train, inputs)
    if restart:
        delete_earlier_run(prepared, profile)
    elif not (output or name):
        note_same_job(prepared.run, prepared.job)
    code = run_training(prepared, resume_step, profile)
    ignore_time_limit()
    if as_json or not code:
        show(prepared, code, as_json=as_json)
    return code


def _train_folds(train: TrainConfig | None, inputs: RunInputs, *, restart: bool, as_json: bool) -> int:
    """Train once for each fold, and print the means; return the exit code."""
    from jprep.train.launcher.cross_validation import train_folds
    from jprep.train.launcher.time_limit import ignore_time_limit

    code = train_folds(train or {}, inputs, train_one=run_training, restart=restart)
    if not code:
        ignore_time_limit()
        show_folds(inputs.run, as_json=as_json)
        if not as_json:
            _next_of_folds(inputs.run)
    return code


def _next_of_folds(run: Path) -> None:
    """Print the commands that compare the folds and export one of them."""
    from jprep.train.launcher.cross_validation import fold_directories
    from jprep.train.results.summary import summarize_run

    [first] = fold_directories(run, 1)
    best = ["--which", "best"] if summarize_run(first).best_kept else []
    next_steps(shell_command("report", run), shell_command("export", first, *best))


def _join(train: TrainConfig | None, run: Path, number: int) -> int:
    """Take part in the run that the first process of an outer launcher supervises."""
    from jprep.train.launcher.multihost import join_run

    minutes = max(_LEAST_TIMEOUT, train.silent_minutes if train else 0.0)
    return join_run(run, number, 60 * minutes)


def _check_options(
    name: str | None,
    output: Path | None,
    resume_step: int | None,
    profile: ProfileSteps | None,
    *,
    all_folds: bool,
    dry_run: bool,
) -> None:
    """Refuse options that contradict each other, before the recipe is read."""
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.io.safe_names import check_name

    if name is not None:
        check_name(name, what="a run", where="--name", fix="it names a folder: e.g. --name small-batch")
    if output and name:
        raise click.UsageError("give either -o or --name")
    if all_folds and resume_step is not None:
        raise click.UsageError("--resume is for one run, and --all-folds trains several")
    if all_folds and profile:
        raise click.UsageError("--profile is for one run, and --all-folds trains several")
    if dry_run:
        refuse_unused("--dry-run trains nothing", "resume_step", "profile", "restart")
    else:
        refuse_unused("it is for --dry-run", "price")


def _check_restart(resume_step: int | None, executor: str | None, *, restart: bool) -> None:
    if restart and resume_step is not None:
        raise click.UsageError("give either --restart or --resume")
    if restart and executor:
        raise click.UsageError("--restart is not for --executor: delete the run directory, or give another --name")


def _may_restart() -> bool:
    """Return whether the command may delete earlier work: in a requeued job that would be its own."""
    from jprep.train.hosts.requeue import was_requeued

    if not was_requeued():
        return True
    note("jprep: this job was requeued: --restart has no effect")
    return False


def _inputs(
    recipe: Path, loaded: Recipe, work: Path, tokenizer: Path | None, dataset: Path | None
) -> tuple[Path, Path | None]:
    """Return the tokenizer, and the dataset unless the recipe trains on labelled data."""
    from jprep.pipeline.init_tokenizer import init_tokenizer_note, tokenizer_of_init
    from jprep.pipeline.output_paths import find_finished

    if not tokenizer and (tokenizer := tokenizer_of_init(loaded, work)):
        note(f"jprep: {init_tokenizer_note(tokenizer)}")
    tokenizer = find_finished("tokenizer", loaded, recipe, work, tokenizer)
    labelled = loaded.train and loaded.train.data
    return tokenizer, None if labelled else find_finished("dataset", loaded, recipe, work, dataset)


def run_training(prepared: PreparedRun, resume_step: int | None = None, profile: ProfileSteps | None = None) -> int:
    """Train with a progress bar; return the exit code. After an interruption print the command that resumes."""
    from jprep.cli.common.shell_command import current_command
    from jprep.cli.model.training_progress import show_training_progress
    from jprep.train.hosts.requeue import requeue_job
    from jprep.train.launcher.launch import train as start
    from jprep.train.launcher.signals import STOPPED, TO_BE_CONTINUED
    from jprep.train.launcher.time_limit import end_at_time_limit, ignore_time_limit
    from jprep.train.run.log import on_stderr

    command = _start_command()
    end_at_time_limit()  # the supervisor takes over later
    try:
        with show_training_progress(prepared.run, prepared.job) as show_note:
            say = _with_fold(prepared, show_note)
            code = start(prepared, resume_step=resume_step, say=say, profile=profile, command=command)
    except KeyboardInterrupt:  # before the supervisor listens
        code = STOPPED
    if code:  # nothing follows; after a finished training, another fold or an export may
        ignore_time_limit()
    requeued = requeue_job() if code == TO_BE_CONTINUED else ""
    if code in (STOPPED, TO_BE_CONTINUED):
        on_stderr(requeued or f"to resume:  {current_command(without=_ONCE, flags=_ONCE_FLAGS)}")
    return code


def _with_fold(prepared: PreparedRun, say: Say) -> Say:
    """Return what prints a message, with the name of the run if it is one of several folds."""
    from jprep.train.run.directory import is_fold

    return (lambda text: say(f"{prepared.job.name}: {text}")) if is_fold(prepared.run) else say


def _start_command() -> StartCommand | None:
    """Return the command line of this process, for `jprep service`; None in a folder whose name is not UTF-8."""
    from jprep.cli.common.shell_command import current_words
    from jprep.train.launcher.start_command import StartCommand

    folder = str(Path.cwd())
    try:
        folder.encode()
    except UnicodeEncodeError:
        return None
    return StartCommand(tuple(current_words(without=_ONCE, flags=_ONCE_FLAGS)), folder)


def show_folds(run: Path, *, as_json: bool) -> None:
    """Print mean and standard deviation of the folds' figures."""
    from jprep.train.launcher.cross_validation import read_folds

    found = read_folds(run)
    if as_json:
        echo_json(found)
        return
    echo(f"{found.name}  {run}")
    if found.steps:
        echo(f"  figures of the last validation: step {_describe_steps(found.steps)}")
    names = [one_line(name) for name in found.figures]
    width = max([16, *map(display_width, names)])
    echo(f"  {'':<{width}}  {'mean':>8}  {'± sd':>8}  of {len(found.jobs)} folds")
    for name, figure in zip(names, found.figures.values(), strict=True):
        each = "  ".join(_number(value) for value in figure.each)
        echo(f"  {pad(name, width)}  {_number(figure.mean):>8}  {_number(figure.deviation):>8}  {each}")


def _describe_steps(steps: list[int]) -> str:
    """Return the step of each fold; one number if it is the same for all."""
    folds: dict[int, list[str]] = {}
    for fold, step in enumerate(steps):
        folds.setdefault(step, []).append(str(fold))
    shown = {f"{step:,}" if step else "none": names for step, names in folds.items()}
    if len(shown) == 1:
        return next(iter(shown))
    return ", ".join(f"{step} (fold{'s' * (len(names) > 1)} {', '.join(names)})" for step, names in shown.items())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def show(prepared: PreparedRun, code: int, *, as_json: bool) -> None:
    """Print the figures of a run, and the commands that usually follow."""
    from jprep.cli.model.evaluate import suggested_evaluation
    from jprep.train.job.best import is_best_kept
    from jprep.train.run.status import read_status
    from jprep.train.trackers.tensorboard import viewed_folder

    run, job, status = prepared.run, prepared.job, read_status(prepared.run)
    if as_json:
        about = {"run": str(run), "name": job.name, "backend": job.backend, "code": code, "steps": job.steps}
        rate = {"step": status.step, "saved": status.saved, "steps_per_second": status.rate}
        figures = {"loss": status.loss, "validation": status.validation}
        echo_json(about | rate | figures)
        return
    echo(f"{job.name}  {run}")
    show_figures(prepared)
    logs = viewed_folder(run, job) if shutil.which("tensorboard") else None
    best = ["--which", "best"] if is_best_kept(job.train, status.step, job.steps) else []
    viewer = [f"tensorboard --logdir {shell_quote(logs)}"] if logs else []
    next_steps(*suggested_evaluation(run, prepared.backend, *best), shell_command("export", run, *best), *viewer)


def show_figures(prepared: PreparedRun) -> None:
    """Print steps, throughput, loss and validation figures of a run."""
    from jprep.cli.model.training_progress import format_throughput
    from jprep.train.run.status import read_status

    status = read_status(prepared.run)
    shown = {"steps": f"{status.step:,}"}
    if status.rate:
        shown["throughput"] = format_throughput(status.rate, prepared.job)
    figures = {"loss": status.loss} | {f"validation {name}": one for name, one in status.validation.items()}
    shown |= {name: f"{figure:.4f}" for name, figure in figures.items() if figure is not None}
    echo_fields(shown)
