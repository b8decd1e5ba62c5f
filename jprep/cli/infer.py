"""`jprep infer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jprep.train.asking import Reply


@click.command()
@click.argument("model", metavar="RUN|DIR", type=click.Path(path_type=Path))
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--pair", metavar="TEXT", help="The second text, for a model that judges two.")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Tokens for each mask.")
@click.option("--tokens", type=click.IntRange(0), default=0, help="To continue with, at most; 0, the default: 64.")
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, help="Of sampling; 0, the default, takes the likeliest."
)
@click.option(
    "--top-k", type=click.IntRange(0), default=0, help="Sample among so many tokens; 0, the default, among all."
)
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Sample among the likeliest of this share."
)
@click.option("--seed", type=click.IntRange(0, (1 << 63) - 1), default=1, show_default=True, help="Of sampling.")
@click.option("--backend", metavar="NAME", help="Who answers: by default the run's, and torch for a DIR.")
@click.option("--json", "as_json", is_flag=True, help="For machines: one object a text.")
def infer(
    model: Path, texts: tuple[str, ...], pair: str | None, backend: str | None, as_json: bool, **wish: Any
) -> None:
    """Ask a trained model in raw text: fill its masks, continue it, tell its class or its score.

    What is done is the model's task. TEXTs are arguments, or lines of standard input. A mask is <mask> or [MASK].
    A RUN is exported first, to RUN/export, if its newest checkpoint was not; a DIR is what `jprep export` wrote.

    \b
    jprep infer work/jawiki/runs/jawiki "日本の首都は<mask>である。"
    jprep infer work/jawiki/runs/jawiki "吾輩は" --tokens 40 --temperature 0.8 --top-p 0.95 --seed 2
    """
    from jprep.errors import InputError
    from jprep.train.asking import Model, Wish

    _refuse_undecoded(texts if pair is None else (*texts, pair))
    folder, answering = _exported(model, backend)
    failed = 0
    with Model(folder, answering) as asked:
        _refuse_idle(asked.exported.task, asked.exported.pair, pair)
        for text in texts or _lines():
            reply = asked.ask(text, Wish(**wish), pair)
            failed += bool(reply.error)
            _show(reply, as_json=as_json)
    if failed:
        raise InputError(f"{failed:,} of the texts could not be answered", fix="see what is said of each")


def _exported(model: Path, backend: str | None) -> tuple[Path, str]:
    """The exported model's folder, and who answers."""
    from jprep.errors import ConfigError
    from jprep.train.exporting import export, export_of, newest_export
    from jprep.train.exporting.manifest import MANIFEST
    from jprep.train.rundir import EXPORT, JOB, read_job

    if (model / MANIFEST).exists():
        return model, backend or "torch"
    if not (model / JOB).exists():
        fix = "`jprep train` makes a run, `jprep export RUN` writes its model"
        raise ConfigError("there is neither a run nor an exported model here", where=str(model), fix=fix)
    answering = backend or read_job(model).backend
    if folder := export_of(model):
        if folder != newest_export(model):
            said = f"answering from {folder}, which is not the newest checkpoint: `jprep export {model}` brings that"
            click.echo(f"jprep: {said}", err=True)
        return folder, answering
    click.echo(f"jprep: exporting the newest checkpoint to {model / EXPORT}", err=True)
    return export(model), answering


def _refuse_undecoded(arguments: Iterable[str]) -> None:
    """Arguments that are not UTF-8 come with surrogates, which no tokenizer takes and no answer can be written with."""
    for text in arguments:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"this text is not UTF-8: {_short(text)!a}") from error


def _refuse_idle(task: str, wants_pair: bool, pair: str | None) -> None:
    if wants_pair and pair is None:
        raise click.UsageError("this model judges two texts: give the second with --pair")
    if pair is not None and not wants_pair:
        raise click.UsageError(f"--pair is for a model that judges two texts, and this one's task is {task} of one")


def _lines() -> Iterator[str]:
    from jprep.cli.text import stdin_lines

    for block in stdin_lines():
        yield from block.removesuffix("\n").split("\n")


def _show(reply: Reply, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(reply).decode())
        return
    for line in _told(reply):
        click.echo(line)
    for kind in ("note", "error"):
        if said := getattr(reply, kind):
            click.echo(f"jprep: {kind}: {said}: {_short(reply.text)}", err=True)


def _told(reply: Reply) -> Iterable[str]:
    if reply.error:
        return
    if reply.continuation is not None:
        yield reply.text + reply.continuation
    elif reply.masks:
        yield reply.filled
        for guesses in reply.masks:
            yield "  " + "  ".join(f"{_one_line(guess.token)} {guess.probability:.3f}" for guess in guesses)
    elif reply.score is not None:
        yield f"{reply.score:.4f}  {reply.text}"
    else:
        shares = sorted(reply.probabilities.items(), key=lambda item: -item[1])
        yield f"{reply.label}  {reply.text}"
        yield "  " + "  ".join(f"{name} {share:.3f}" for name, share in shares)


def _one_line(token: str) -> str:
    return token.replace("\n", "\\n")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
