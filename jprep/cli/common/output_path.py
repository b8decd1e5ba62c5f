"""The type of options that name an output path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class OutputPath(click.Path):
    """A local path to write to. URLs are refused, because `pathlib` would turn one into a local directory."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: it is empty.
            ConfigError: it is a URL.
        """
        from jprep.engine.output_paths import refuse_url

        if not str(value):
            self.fail("the path is empty", param, ctx)
        refuse_url(str(value))
        return super().convert(value, param, ctx)


OUTPUT_PATH = OutputPath()
