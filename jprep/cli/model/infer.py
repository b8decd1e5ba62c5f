"""`jprep infer`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.output import echo, echo_json, error, note
from jprep.cli.common.shell_command import shell_command
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline, Prediction

_TASK_OF = {"top": "mlm", "tokens": "clm", "temperature": "clm", "top_k": "clm", "top_p": "clm", "seed": "clm"}


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    """No range keeps NaN out."""
    if not math.isfinite(value):
        raise click.BadParameter("give a finite number", context, option)
    return value


@click.command()
@click.argument("model", metavar="RUN|DIR", type=click.Path(path_type=Path))
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--pair", metavar="TEXT", help="The second text, for a model that judges two.")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Tokens for each mask.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="To continue with, at most; 0, the default: 64.")
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, callback=_finite,
    help="Of sampling; 0, the default, takes the likeliest.",
)  # fmt: skip
@click.option(
    "--top-k", type=click.IntRange(0), default=0, help="Sample among so many tokens; 0, the default, among all."
)
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0, callback=_finite,
    help="Sample among the likeliest of this share.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=1, show_default=True, help="Of sampling.")
@click.option("--backend", metavar="NAME", help="Who answers: by default the run's, and torch for a DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per text.")
def infer(
    model: Path, texts: tuple[str, ...], pair: str | None, backend: str | None, as_json: bool, **wish: Any
) -> None:
    """Ask a trained model in raw text: fill its masks, continue it, tell its class or its score.

    What is done is the model's task. TEXTs are arguments; without any, or with - alone, the lines of
    standard input. A mask is <mask> or [MASK].
    A RUN answers from RUN/export, and is exported to there first if it is not; a DIR is what `jprep export` wrote.

    \b
    jprep infer work/jawiki/runs/jawiki "日本の首都は<mask>である。"
    jprep infer work/jawiki/runs/jawiki "吾輩は" --tokens 40 --temperature 0.8 --top-p 0.95 --seed 2
    """
    from jprep.errors import InputError
    from jprep.train.inference.pipeline import GenerationConfig, InferencePipeline

    folder, answering = _exported(model, backend)
    failed = 0
    with InferencePipeline(folder, answering) as asked:
        _refuse_idle(asked.exported.task, asked.exported.pair, pair)
        for text in _lines() if texts in ((), ("-",)) else texts:
            reply = _answer(asked, text, GenerationConfig(**wish), pair)
            failed += bool(reply.error)
            _show(reply, as_json=as_json)
    if failed:
        raise InputError(f"{failed:,} of the texts could not be answered", fix="see what is said of each")


def _exported(model: Path, backend: str | None) -> tuple[Path, str]:
    """The exported model's folder, and who answers."""
    from jprep.errors import ConfigError
    from jprep.train.exporting import export, export_of, newest_export
    from jprep.train.exporting.manifest import MANIFEST
    from jprep.train.run.directory import EXPORT, JOB, read_job

    if (model / MANIFEST).exists():
        return model, backend or "torch"
    if not (model / JOB).exists():
        fix = "`jprep train` makes a run, `jprep export RUN` writes its model"
        raise ConfigError("there is neither a run nor an exported model here", where=str(model), fix=fix)
    answering = backend or read_job(model).backend
    if folder := export_of(model):
        if folder != newest_export(model):
            newer = shell_command("export", model)
            note(f"jprep: answering from {folder}, which is not the newest checkpoint; to export that:  {newer}")
        return folder, answering
    note(f"jprep: exporting the newest checkpoint to {model / EXPORT}")
    return export(model), answering


def _refuse_idle(task: str, wants_pair: bool, pair: str | None) -> None:
    if wants_pair and pair is None:
        raise click.UsageError("this model judges two texts: give the second with --pair")
    if pair is not None and not wants_pair:
        raise click.UsageError(f"--pair is for a model that judges two texts, and this one's task is {task} of one")
    from jprep.cli.common.unused_options import refuse_unused

    context = click.get_current_context()
    for name, of in _TASK_OF.items():
        if of != task and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} is for a model of task {of}, and this one's is {task}")
    if not context.params["temperature"]:
        refuse_unused("without --temperature the likeliest token is taken", "top_k", "top_p", "seed")


def _lines() -> Iterator[str]:
    """Standard input's lines; bytes that are not UTF-8 are surrogates, as in arguments."""
    from jprep.cli.text import read_stdin_blocks
    from jprep.corpus.document import UNMARK

    for block in read_stdin_blocks():
        for line in block.removesuffix(b"\n").split(b"\n"):
            yield line.decode("utf-8", "surrogateescape").translate(UNMARK)


def _answer(asked: InferencePipeline, text: str, wish: GenerationConfig, pair: str | None) -> Prediction:
    from jprep.train.inference.pipeline import Prediction

    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if shown != text:
        return Prediction(shown, error="it is not UTF-8")
    return asked.ask(text, wish, pair)


def _show(reply: Prediction, *, as_json: bool) -> None:
    if as_json:
        echo_json(reply)
        return
    for line in _told(reply):
        echo(line)
    for kind in ("note", "error"):
        if said := getattr(reply, kind):
            (note if kind == "note" else error)(f"jprep: {kind}: {said}: {one_line(_short(reply.text))}")


def _told(reply: Prediction) -> Iterable[str]:
    if reply.error:
        return
    if reply.continuation is not None:
        yield reply.text + reply.continuation
    elif reply.masks:
        yield reply.filled
        for guesses in reply.masks:
            yield "  " + "  ".join(f"{one_line(guess.token)} {guess.probability:.3f}" for guess in guesses)
    elif reply.score is not None:
        yield f"{reply.score:.4f}  {reply.text}"
    else:
        shares = sorted(reply.probabilities.items(), key=lambda item: -item[1])
        yield f"{reply.label}  {reply.text}"
        yield "  " + "  ".join(f"{name} {share:.3f}" for name, share in shares)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
