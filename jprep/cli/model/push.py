"""`jprep push`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json, note, quiet
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.train.uploads.publish import Publication


@click.command()
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--to", "name", required=True, metavar="ORG/NAME", help="The repository; created if it does not exist.")
@click.option("--private/--public", default=True, show_default=True, help="Visibility of a new repository.")
@click.option("--message", default="", metavar="TEXT", help="The commit's message. Default: it names the output.")
@click.option("--dry-run", is_flag=True, help="Check name, token and files, and list them; send nothing.")
@AS_JSON
def push(path: Path, name: str, private: bool, message: str, dry_run: bool, as_json: bool) -> None:
    """Upload an exported model, a tokenizer or an exported dataset to the Hugging Face Hub, with its card.

    The token is HF_TOKEN, or that of `hf auth login`. Files that the Hub has already are not sent again, so the same
    command resumes an interrupted upload. An existing repository keeps its visibility.

    \b
    Example:
      jprep push work/jawiki/runs/torch/export --to my-org/jawiki-bert
      jprep push work/jawiki/tokenizer --to my-org/jawiki-tokenizer --public
    """
    from jprep.hub import check_access, check_name
    from jprep.train.uploads.publish import find_publication, publish, verify

    check_name(name, "--to")
    found = find_publication(path)
    if dry_run:
        exists = check_access(name, kind=found.kind)
        verify(found)
        _show_plan(found, name, "exists" if exists else f"new, {_visibility(private)}", as_json=as_json)
        return
    for other in found.others:
        note(f"jprep: not uploaded, as this {found.what} does not list it: {one_line(other)}")
    done = publish(path, name, private=private, message=message, progress=not quiet() and not as_json)
    if as_json:
        echo_json({"url": done.url, "commit": done.commit, "changed": done.changed, "files": found.names})
        return
    echo(f"{found.what} {one_line(found.title)}: {counted(len(found.names), 'file')}, {found.size / 1e6:,.1f} MB")
    echo(f"{done.url}  commit {done.commit}" + ("" if done.changed else ", which has these files already"))


def _show_plan(found: Publication, name: str, state: str, *, as_json: bool) -> None:
    sizes = {file: (found.folder / file).stat().st_size for file in found.names}
    if as_json:
        echo_json({"name": name, "kind": found.kind, "repository": state, "files": sizes, "others": found.others})
        return
    echo(f"{found.what} {one_line(found.title)}, to the {found.kind} repository {name} ({state})")
    for file, size in sizes.items():
        echo(f"  {size:>15,}  {one_line(file)}")
    for other in found.others:
        echo(f"  {'not uploaded':>15}  {one_line(other)}")


def _visibility(private: bool) -> str:
    return "private" if private else "public"
