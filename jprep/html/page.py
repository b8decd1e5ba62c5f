"""Jinja2 environments whose templates extend the shared page layout."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jprep.html.text import shortened, visible
from jprep.libraries import import_library
from jprep.plurals import counted

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(package: str, *, extra: str = "report") -> Environment:
    """Return an environment for the templates of a package, and for `base.html` and `macros.html`.

    Every printed string is escaped, and its control characters are shown; `Markup` is printed as it is. An undefined
    name is an error. Filters: `thousands` (1,234), `counted(noun)` (1,234 documents), `percent` (12.3 %),
    `shortened(limit)`.

    Args:
        package: name of a package with a folder `templates`.
        extra: the extra of jprep that installs Jinja2, for the error.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    jinja2 = import_library("jinja2", "pages need Jinja2", f"'jprep[{extra}]'")
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("jprep.html")])
    made: Environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"thousands": thousands, "counted": counted, "percent": percent, "shortened": shortened}
    made.globals["style"] = _style()
    return made


def thousands(number: float) -> str:
    """Return a number with separators, and with three significant digits if it is a small fraction."""
    return f"{number:,}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.3g}"


def percent(share: float) -> str:
    """Return a fraction as a percentage; a small one keeps two significant digits."""
    return f"{100 * share:.1f} %" if share == 0 or abs(share) >= 0.001 else f"{100 * share:.2g} %"


def _finalize(value: object) -> object:
    return visible(value) if type(value) is str else value


def _style() -> Any:
    from markupsafe import Markup

    return Markup(files("jprep.html").joinpath("templates/style.css").read_text(encoding="utf-8"))
