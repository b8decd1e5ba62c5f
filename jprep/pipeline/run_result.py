"""What a run of a recipe made."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jprep.html.notebook import Cell, display, heading, note, table
from jprep.pipeline.output_paths import OutputPaths
from jprep.pipeline.steps import Step


class RunResult(NamedTuple):
    """The outputs of a run.

    Attributes:
        steps: the steps of the recipe.
        paths: the directories of corpus, tokenizer and dataset.
        runs: the run directories; several where the recipe trains several folds.
        exports: the exported models.
        exit_code: 0; or that of a training that ended early, and the same call resumes it.
    """

    steps: list[Step]
    paths: OutputPaths
    runs: list[Path]
    exports: list[Path]
    exit_code: int

    def _repr_html_(self) -> str:
        """Return what Jupyter displays: the steps, where their outputs are, and what loads them."""
        ended = (
            "" if not self.exit_code else f" The training ended with exit code {self.exit_code}; call again to resume."
        )
        names = ", ".join(self.steps)
        return display(
            heading("Recipe", self.paths.runs.parent.name, self.paths.runs.parent),
            table(self._rows(), ("output", "directory", "load it with")),
            note(f"steps: {names}.{ended}"),
        )

    def _rows(self) -> list[tuple[Cell, Cell, Cell]]:
        loaders = {"corpus": "jprep.Corpus(…)", "tokenizer": "jprep.load_tokenizer(…)", "dataset": ""}
        made: list[tuple[Cell, Cell, Cell]] = [
            (name, str(getattr(self.paths, name)), loader) for name, loader in loaders.items() if name in self.steps
        ]
        made += [("run", str(folder), "jprep.load_run(…)") for folder in self.runs]
        return made + [("export", str(folder), _loader_of(folder)) for folder in self.exports]


def _loader_of(folder: Path) -> str:
    """Return what loads an exported model: transformers, unless its family is that of a plugin."""
    from jprep.train.exporting.plugin_model import is_plugin_export

    return "jprep infer …" if is_plugin_export(folder) else "transformers.AutoModel.from_pretrained(…)"
