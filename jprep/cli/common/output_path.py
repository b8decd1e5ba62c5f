"""The type of options that name a place to write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class OutputPath(click.Path):
    """A local path to write to; a URL is refused, before `pathlib` makes a local folder of it."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            click.BadParameter: it is empty.
            ConfigError: it is a URL.
        """
        from jprep.engine.output_directory import refuse_url

        if not str(value):
            self.fail("the path is empty", param, ctx)
        refuse_url(str(value))
        return super().convert(value, param, ctx)


OUTPUT_PATH = OutputPath()
