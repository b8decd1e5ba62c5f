"""Names of repositories on the Hugging Face Hub."""

from __future__ import annotations

import re
from typing import Literal

from jprep.errors import ConfigError

Kind = Literal["model", "dataset"]
"""The kind of a repository. Tokenizers are in repositories of the kind `model`."""

LONGEST = 96
"""Maximum number of characters of a repository's name."""

_PART = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_PART}(?:/{_PART})?", re.ASCII)


def looks_like_name(text: str) -> bool:
    """Return whether a text can be the name of a repository: `org/name`, or `name` as of some old models."""
    return (
        len(text) <= LONGEST
        and bool(_NAME.fullmatch(text))
        and not any(part in text for part in ("--", ".."))
        and not text.endswith(".git")
    )


def check_name(name: str, where: str) -> None:
    """Check the name of a repository to upload to.

    Args:
        name: the name.
        where: the option or the key that gives it, for the error.

    Raises:
        ConfigError: it is not of the form `org/name`.
    """
    if "/" not in name or not looks_like_name(name):
        fix = (
            'give your user name or an organization, and a name: e.g. "my-org/my-model"; letters, digits, - _ . only, '
            f"no -- and no .., at most {LONGEST} characters"
        )
        raise ConfigError(f"{name!r} cannot be the name of a repository on the Hub", where=where, fix=fix)
