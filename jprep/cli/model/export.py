"""`jprep export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo, echo_json, next_steps
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import shell_command

_EXAMPLES = {"clm": "日本の首都は", "mlm": "日本の首都は<mask>である。"}


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=OUTPUT_PATH, help="Output directory. Default: RUN/export, or RUN/generator.")
@click.option("--which", default="last", show_default=True, metavar="last|best|STEP", help="The checkpoint to export.")
@click.option("--dtype", type=click.Choice(["fp32", "bf16", "fp16"]), default="fp32", show_default=True)
@click.option("--generator", is_flag=True, help="For the task rtd: export the generator, not the discriminator.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def export(run: Path, output: Path | None, which: str, dtype: str, generator: bool, as_json: bool) -> None:
    """Export a checkpoint of a run as a directory that AutoModel and AutoTokenizer of transformers load.

    `best` is the checkpoint with the lowest validation loss. The run may still be training.

    \b
    jprep export work/jawiki/runs/torch
    jprep export work/jawiki/runs/torch --which best -o jawiki-bert
    """
    from typing import cast

    from jprep.train.exporting import export as write
    from jprep.train.exporting.manifest import Dtype, read_export

    folder = write(run, output, which=which, dtype=cast(Dtype, dtype), generator=generator)
    exported = read_export(folder)
    if as_json:
        import msgspec

        echo_json({"folder": str(folder), **msgspec.to_builtins(exported)})
        return
    echo(f"{exported.name}  {folder}")
    echo(f"{exported.task}, {exported.parameters:,} parameters in {exported.dtype}, step {exported.step:,}")
    next_steps(example_infer_command(run, folder))


def example_infer_command(run: Path, folder: Path) -> str:
    """Return an example command that runs the exported model of a run on a text."""
    from jprep.train.exporting.manifest import read_export
    from jprep.train.run.directory import read_job

    exported, backend = read_export(folder), read_job(run).backend
    if exported.task == "rtd":  # its generator fills masks
        return shell_command("infer", run, _EXAMPLES["mlm"])
    pair = ["--pair", "雨が降った。"] if exported.pair else []
    other = [] if backend == "torch" else ["--backend", backend]  # torch is the default for a directory
    return shell_command("infer", folder, _EXAMPLES.get(exported.task, "雨が降る。"), *pair, *other)
