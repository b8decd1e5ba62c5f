"""`jprep infer`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal

import click

from jprep.cli.common.output import echo, echo_json, error, note
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.cli.common.shell_command import command_for_other, shell_command
from jprep.cli.completion.candidates import BACKEND_NAME
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline, Prediction
    from jprep.train.job.config import Task

Layout = Literal["continued", "answer", "text and answer"]
"""How a continuation is printed: after its text; alone; below its text, indented."""

_TASK_OF = {"top": "mlm", "tokens": "clm", "temperature": "clm", "top_k": "clm", "top_p": "clm", "seed": "clm"}
_TASK_OF |= {"num_return_sequences": "clm", "system": "sft"}


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    """Refuse NaN and infinity, which ranges accept."""
    if not math.isfinite(value):
        raise click.BadParameter("give a finite number", context, option)
    return value


@click.command()
@click.argument("model", metavar="RUN|DIR", type=FINISHED_OUTPUT)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--pair", metavar="TEXT", help="The second text, for a model of text pairs.")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Candidates for each mask.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="Maximum number of new tokens. Default: 64.")
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, callback=_finite,
    help="Sampling temperature. Default: 0, which takes the most likely token.",
)  # fmt: skip
@click.option(
    "--top-k", type=click.IntRange(0), default=0, help="Sample from the K most likely tokens. Default: from all."
)
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0, callback=_finite,
    help="Sample from the most likely tokens that have this share of the probability.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=1, show_default=True, help="Sampling seed.")
@click.option(
    "--num-return-sequences", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="Number of continuations, each sampled on its own.",
)  # fmt: skip
@click.option("--system", metavar="TEXT", default="", help="System message, for a model that answers messages.")
@click.option("--backend", metavar="NAME", type=BACKEND_NAME, help="Default: the run's backend; torch for a DIR.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON, one object per text.")
def infer(
    model: Path, texts: tuple[str, ...], pair: str | None, backend: str | None, as_json: bool, **settings: Any
) -> None:
    """Run a trained model on raw text: fill masks, continue, answer, classify or score, depending on its task.

    Without TEXTs, or with `-`, the lines of standard input are used. A mask is <mask> or [MASK].
    The model of a RUN is read from RUN/export, and exported to there first if necessary; a DIR is an exported model.
    Of a RUN of the task rtd the generator is used, in RUN/generator.

    \b
    Example:
      jprep infer work/jawiki/runs/torch "日本の首都は<mask>である。"
      jprep infer work/jawiki/runs/torch "吾輩は" --tokens 40 --temperature 0.8 --top-p 0.95 --seed 2
    """
    from jprep.errors import InputError
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline

    folder, chosen = _exported(model, backend)
    failed = 0
    with InferencePipeline(folder, chosen) as pipeline:
        _check_options(pipeline.exported.task, pipeline.exported.pair, pair)
        several = len(texts) != 1 or texts == ("-",)
        answer: Layout = "text and answer" if several else "answer"
        layout = answer if pipeline.exported.task == "sft" else "continued"
        for text in _lines() if texts in ((), ("-",)) else texts:
            prediction = _predict(pipeline, text, GenerationConfig(**settings), pair)
            failed += bool(prediction.error)
            _show(prediction, as_json=as_json, layout=layout)
    if failed:
        raise InputError(f"no prediction for {failed:,} of the texts", fix="see the error of each")


def _exported(model: Path, backend: str | None) -> tuple[Path, str]:
    """Return the directory of the exported model, and the backend."""
    from jprep.train.exporting import export, export_of
    from jprep.train.exporting.checkpoint_selection import default_checkpoint, named_checkpoint
    from jprep.train.exporting.manifest import MANIFEST
    from jprep.train.run.directory import EXPORT, GENERATOR, JOB, no_run_error, read_job

    if (model / MANIFEST).exists():
        return model, backend or "torch"
    if not (model / JOB).exists():
        fix = "`jprep train` makes a run, `jprep export RUN` exports its model"
        raise no_run_error(model, "expected a run or an exported model", fix, command_for_other(model))
    job = read_job(model)
    chosen, generator = backend or job.backend, job.train.task == "rtd"
    which = default_checkpoint(model, job)
    named = "the best checkpoint" if which == "best" else "the newest checkpoint"
    if folder := export_of(model, generator=generator):
        if folder != export_of(model, named_checkpoint(model, job, which).step, generator=generator):
            options = [*(["--which", "best"] if which == "best" else []), *(["--generator"] if generator else [])]
            command = shell_command("export", model, *options)
            note(f"jprep: using {folder}, which is not {named}; to export that:  {command}")
        return folder, chosen
    note(f"jprep: exporting {named} to {model / (GENERATOR if generator else EXPORT)}")
    return export(model, which=which, generator=generator), chosen


def _check_options(task: Task, wants_pair: bool, pair: str | None) -> None:
    if wants_pair and pair is None:
        raise click.UsageError("this is a model of text pairs: give the second text with --pair")
    if pair is not None and not wants_pair:
        raise click.UsageError(f"--pair is for a model of text pairs, and this is a model for {task} of single texts")
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.train.job.config import objective_of

    context = click.get_current_context()
    for name, of in _TASK_OF.items():
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and of not in (task, objective_of(task)):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} is for the task {of}, and the task of this model is {task}")
    if not context.params["temperature"]:
        refuse_unused(
            "without --temperature the most likely token is taken", "top_k", "top_p", "seed", "num_return_sequences"
        )


def _lines() -> Iterator[str]:
    """Yield the lines of standard input; bytes that are not UTF-8 become surrogates, as in arguments."""
    from jprep.cli.text import read_stdin_blocks
    from jprep.corpus.document import UNMARK

    for block in read_stdin_blocks():
        for line in block.removesuffix(b"\n").split(b"\n"):
            yield line.decode("utf-8", "surrogateescape").translate(UNMARK)


def _predict(pipeline: InferencePipeline, text: str, settings: GenerationConfig, pair: str | None) -> Prediction:
    from jprep.train.inference.pipeline import Prediction

    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if shown != text:
        return Prediction(shown, error="it is not UTF-8")
    return pipeline.predict(text, settings, pair)


def _show(prediction: Prediction, *, as_json: bool, layout: Layout) -> None:
    if as_json:
        echo_json(prediction)
        return
    for line in _lines_of(prediction, layout=layout):
        echo(line)
    for kind in ("note", "error"):
        if message := getattr(prediction, kind):
            show = note if kind == "note" else error
            show(f"jprep: {kind}: {message}: {one_line(_short(prediction.text))}")


def _lines_of(prediction: Prediction, *, layout: Layout) -> Iterable[str]:
    if prediction.error:
        return
    if prediction.continuation is not None:
        yield from _continued(prediction, layout)
    elif prediction.masks:
        yield prediction.filled
        for candidates in prediction.masks:
            yield "  " + "  ".join(f"{one_line(each.token)} {each.probability:.3f}" for each in candidates)
    elif prediction.score is not None:
        yield f"{prediction.score:.4f}  {prediction.text}"
    else:
        shares = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
        yield f"{prediction.label}  {prediction.text}"
        yield "  " + "  ".join(f"{name} {share:.3f}" for name, share in shares)


def _continued(prediction: Prediction, layout: Layout) -> Iterator[str]:
    """Yield the continuations of a text; those of several messages are indented below theirs."""
    if layout == "text and answer":
        yield prediction.text
    for text in prediction.continuations or [prediction.continuation or ""]:
        yield {"continued": prediction.text + text, "answer": text, "text and answer": indent(text, "  ")}[layout]


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
