"""`jprep quality judge`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON, RESTART
from jprep.cli.common.output import echo, echo_json, note, table
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT

if TYPE_CHECKING:
    from jprep.corpus.quality.judging.run import JudgeConfig, JudgeResult

_KEY = "JPREP_JUDGE_KEY"
_COUNT = click.IntRange(1)
_SECONDS = click.FloatRange(0, 1e6)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FINISHED_OUTPUT)
@click.option("--endpoint", required=True, metavar="URL", help="Base URL, e.g. http://localhost:8000/v1.")
@click.option("--model", required=True, help="Name of the model, as the endpoint knows it.")
@click.option("--prompt", required=True, type=click.Path(path_type=Path), help="Text file with {text} in it.")
@click.option("-o", "--output", required=True, type=OUTPUT_PATH, help="Output directory.")
@click.option("--field", default="text", show_default=True, help="Field with the text, in JSONL and Parquet files.")
@click.option("--sample", type=_COUNT, default=1000, show_default=True, help="Documents to label, drawn by hash.")
@click.option("--max-requests", type=click.IntRange(0), help="Maximum number of documents to send, over all runs.")
@click.option("--max-tokens", type=click.IntRange(0), help="Stop after this many tokens, over all runs.")
@click.option("--concurrency", type=click.IntRange(1, 1000), default=4, show_default=True, help="Requests at once.")
@click.option("--timeout", type=_SECONDS, default=120.0, show_default=True, help="Seconds for a request.")
@click.option("--retry-for", type=_SECONDS, default=300.0, show_default=True, help="Seconds to retry for a document.")
@click.option("--pattern", default=r"-?\d+(?:\.\d+)?", show_default=True, help="The score: the last match in a reply.")
@click.option("--range", "limits", type=(float, float), default=(0, 5), show_default=True, help="Valid scores.")
@click.option(
    "--max-characters", type=_COUNT, default=8000, show_default=True, help="Characters of a document to send."
)
@click.option("--reply-tokens", type=_COUNT, default=512, show_default=True, help="Longest reply, in tokens.")
@RESTART
@AS_JSON
def judge(
    paths: tuple[Path, ...],
    endpoint: str,
    field: str,
    output: Path,
    sample: int,
    max_requests: int | None,
    max_tokens: int | None,
    concurrency: int,
    timeout: float,
    retry_for: float,
    restart: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Let a language model score a sample of documents, through any OpenAI-compatible endpoint.

    PATH is a corpus, or a text, JSONL or Parquet file. Interrupt at any time and rerun to resume: no document is asked
    about twice. A larger sample or budget continues a finished directory. An API key is read from the environment
    variable JPREP_JUDGE_KEY.

    \b
    Example:
      jprep quality judge work/web/corpus --endpoint http://localhost:8000/v1 --model qwen --prompt p.txt -o work/labels
    """
    from collections import Counter

    from jprep.cli.common.interrupt import graceful_interrupt
    from jprep.corpus.quality.inputs import check_inputs, read_documents
    from jprep.corpus.quality.judging.endpoint import EndpointOptions
    from jprep.corpus.quality.judging.run import Budget
    from jprep.corpus.quality.judging.run import judge as run

    check_inputs(paths)
    rejects = Counter[str]()
    budget = Budget(sample, max_requests, max_tokens, concurrency)
    server = EndpointOptions(endpoint, os.environ.get(_KEY, "").strip(), timeout, retry_for)
    with graceful_interrupt() as stopping:
        found = run(
            lambda: (doc for path in paths for doc in read_documents(path, field, rejects)),
            _config(options),
            budget,
            server,
            output,
            rejects=rejects,
            restart=restart,
            stopping=stopping,
        )
    _show(found, output, as_json=as_json)


def _config(options: dict[str, object]) -> JudgeConfig:
    from jprep.config import parse_config
    from jprep.corpus.quality.judging.run import JudgeConfig
    from jprep.errors import ConfigError

    path = Path(str(options["prompt"]))
    try:
        prompt = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the prompt cannot be read: {error}", where=str(path), fix="give a UTF-8 file") from error
    limits = options.pop("limits")
    assert isinstance(limits, tuple)
    known = {"prompt": prompt, "lowest": limits[0], "highest": limits[1]}
    return parse_config(options | known, JudgeConfig, where="`jprep quality judge`")


def _show(found: JudgeResult, output: Path, *, as_json: bool) -> None:
    figures = found.card.counts | {"asked_now": found.asked, "missing": found.missing, "retries": found.retries}
    if as_json:
        about = {"folder": str(output), "fingerprint": found.card.fingerprint, "rejects": found.card.rejects}
        echo_json(about | figures)
        return
    echo(str(output))
    table("labels", figures)
    table("rejected by the readers", found.card.rejects)
    if found.missing:
        note(f"\nthe budget is spent: {found.missing:,} documents of the sample have no label")
