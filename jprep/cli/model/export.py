"""`jprep export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json, next_steps, note
from jprep.cli.common.remote_output import OUTPUT_PATH_OR_URL, Url, local_output
from jprep.cli.common.shell_command import shell_command

if TYPE_CHECKING:
    from jprep.train.exporting.manifest import ModelExportManifest

_EXAMPLES = {"clm": "日本の首都は", "mlm": "日本の首都は<mask>である。",
             "sft": "日本の首都はどこですか。"}  # fmt: skip


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=OUTPUT_PATH_OR_URL, help="Output directory or URL. Default: RUN/export, or RUN/generator."
)
@click.option("--which", default="last", show_default=True, metavar="last|best|STEP", help="The checkpoint to export.")
@click.option("--dtype", type=click.Choice(["fp32", "bf16", "fp16"]), default="fp32", show_default=True)
@click.option("--generator", is_flag=True, help="For the task rtd: export the generator, not the discriminator.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["transformers", "fairseq", "deepspeed-universal"]),
    default="transformers",
    show_default=True,
    help="fairseq: also converts the exported RUN/export. deepspeed-universal: weights and averages, for DeepSpeed. "
    "Default output: RUN/FORMAT.",
)
@AS_JSON
def export(
    run: Path, output: Path | Url | None, which: str, dtype: str, generator: bool, form: str, as_json: bool
) -> int:
    """Export a checkpoint of a run as a directory that AutoModel and AutoTokenizer of transformers load.

    `best` is the checkpoint with the lowest validation loss, or the best figure that train.checkpoint.best names. The
    run may still be training. With --format fairseq the output is what fairseq itself loads: model.pt and dict.txt;
    it needs the backend fairseq-xla. With --format deepspeed-universal it is a universal checkpoint, with which a
    training in DeepSpeed continues a run of any backend; it needs the backend deepspeed.

    \b
    Example:
      jprep export work/jawiki/runs/torch
      jprep export work/jawiki/runs/torch --which best -o jawiki-bert
      jprep export work/jawiki/runs/fairseq-xla --format fairseq -o for-fairseq
      jprep export work/jawiki/runs/torch --format deepspeed-universal -o for-deepspeed
    """
    if form == "deepspeed-universal":
        if generator or dtype != "fp32":
            raise click.UsageError(f"{'--generator' if generator else '--dtype'} is not for --format {form}")
        return _export_to_universal(run, output, which, as_json=as_json)
    if form == "fairseq":
        if generator:
            raise click.UsageError("--generator is not for --format fairseq")
        return _export_to_fairseq(run, output, which, dtype, as_json=as_json)
    _export(run, output, which, dtype, generator=generator, as_json=as_json)
    return 0


def _export_to_fairseq(run: Path, output: Path | Url | None, which: str, dtype: str, *, as_json: bool) -> int:
    """Export a checkpoint to RUN/export, and convert that. Return the exit code."""
    from jprep.train.exporting.conversion import to_fairseq
    from jprep.train.run.directory import EXPORT

    if isinstance(output, Url):
        raise click.UsageError("--format fairseq writes a local directory: -o DIR")
    folder = output or run / "fairseq"
    _export(run, None, which, dtype, generator=False, as_json=as_json)
    code = to_fairseq(run / EXPORT, folder)
    if not code and not as_json:
        echo(str(folder))
    return code


def _export_to_universal(run: Path, output: Path | Url | None, which: str, *, as_json: bool) -> int:
    """Convert a checkpoint for DeepSpeed. Return the exit code."""
    from jprep.cli.common.progress import show_status
    from jprep.train.exporting.conversion import to_universal

    if isinstance(output, Url):
        raise click.UsageError("--format deepspeed-universal writes a local directory: -o DIR")
    folder = output or run / "deepspeed-universal"
    with show_status("exporting the checkpoint"):
        code = to_universal(run, folder, which)
    if not code:
        echo_json({"folder": str(folder)}) if as_json else echo(str(folder))
    return code


def _export(run: Path, output: Path | Url | None, which: str, dtype: str, *, generator: bool, as_json: bool) -> None:
    """Export a checkpoint, and show what was written."""
    from typing import cast

    from jprep.cli.common.progress import show_status
    from jprep.train.exporting import export as write
    from jprep.train.exporting.manifest import Dtype, read_export
    from jprep.train.exporting.plugin_model import loading_note
    from jprep.train.run.directory import EXPORT, GENERATOR, read_job

    default = None if output else run / (GENERATOR if generator else EXPORT)
    with local_output(output, "model export", default) as folder:
        with show_status("exporting the model"):
            write(run, folder, which=which, dtype=cast(Dtype, dtype), generator=generator)
        exported = read_export(folder)
    shown: Path | str = output if isinstance(output, Url) else folder
    if as_json:
        import msgspec

        echo_json({"folder": str(shown), **msgspec.to_builtins(exported)})
        return
    echo(f"{exported.name}  {shown}")
    if about := loading_note(read_job(run).model):
        note(f"jprep: {about}")
    echo(f"{exported.task}, {exported.parameters:,} parameters in {exported.dtype}, step {exported.step:,}")
    next_steps(*example_infer_commands(run, shown, exported))


def example_infer_commands(run: Path, folder: Path | str, exported: ModelExportManifest) -> list[str]:
    """Return an example command that runs the exported model of a run on a text; none for a user's own head."""
    from jprep.train.exporting.custom_head import has_custom_head
    from jprep.train.run.directory import read_job

    job = read_job(run)
    if has_custom_head(job.model):
        return []
    if exported.task == "rtd":  # its generator fills masks
        return [shell_command("infer", run, _EXAMPLES["mlm"])]
    pair = ["--pair", "雨が降った。"] if exported.pair else []
    other = [] if job.backend == "torch" else ["--backend", job.backend]  # torch is the default for a directory
    return [shell_command("infer", folder, _EXAMPLES.get(exported.task, "雨が降る。"), *pair, *other)]
