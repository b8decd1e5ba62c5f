"""What a corpus is made from: the fields of its fingerprint."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from jprep.corpus.config import CorpusRecipe
from jprep.corpus.input_files import InputFile, find_inputs
from jprep.corpus.stages.read_plan import ReadPlan, needs_dedup
from jprep.corpus.stages.segment import describe_segmenter
from jprep.corpus.store import FORMAT
from jprep.engine.fingerprint import plain


def made_from(recipe: CorpusRecipe, plan: ReadPlan) -> dict[str, Any]:
    """Return everything that a corpus depends on, as plain data."""
    found: dict[str, Any] = {"documents": plain(plan.fields)}
    if needs_dedup(recipe.corpus):
        found["words"] = plain({"segmenter": describe_segmenter(recipe.corpus.segmenter)})
    return found


def expected_made_from(recipe: CorpusRecipe, cache: Path) -> dict[str, Any]:
    """Return the `made_from` of the manifest that a build would write, without building.

    Args:
        recipe: the recipe of the corpus.
        cache: file that caches the hashes of the inputs.

    Raises:
        ConfigError: an input or a step does not exist.
    """
    inputs = [find_inputs(source, cache) for source in recipe.corpus.sources]
    tests = [find_inputs(each, cache) for each in recipe.corpus.decontaminate]
    with closing(ReadPlan(recipe.corpus, inputs, recipe.name, tests)) as plan:
        return made_from(recipe, plan)


def options_made_from(recipe: CorpusRecipe) -> dict[str, Any]:
    """Return the `made_from` that a build would write, without its inputs: none need exist.

    Raises:
        ConfigError: a step does not exist.
        MachineError: a step is not installed.
    """
    inputs: list[list[InputFile]] = [[] for _ in recipe.corpus.sources]
    tests: list[list[InputFile]] = [[] for _ in recipe.corpus.decontaminate]
    with closing(ReadPlan(recipe.corpus, inputs, recipe.name, tests)) as plan:
        return without_inputs(made_from(recipe, plan))


def without_inputs(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the `made_from` of a corpus, or of unfinished work, without what depends on its input files."""
    documents = dict(fields["documents"])
    documents["sources"] = [_without(each, "files") for each in documents["sources"]]
    if tests := documents.get("decontaminate"):
        # A reader is described for each file.
        sets = [_without(each, "files", "reader") for each in tests["test_sets"]]
        documents["decontaminate"] = tests | {"test_sets": sets}
    return fields | {"documents": documents}


def in_format(fields: dict[str, Any], form: int) -> dict[str, Any]:
    """Return the `made_from` that a finished corpus of another format has for the same rows."""
    if form == FORMAT:
        return fields
    documents = {key: value for key, value in fields["documents"].items() if key != "about"}
    return fields | {"documents": documents | {"format": form}}


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}
