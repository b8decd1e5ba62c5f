"""Check the URL that a run is mirrored to."""

from __future__ import annotations

from jprep.errors import ConfigError, JprepError
from jprep.io.remote.objects import check_writable, has_password, refuse_read_only

KEY = "train.checkpoint.mirror"


def check_mirror_url(url: str, where: str) -> None:
    """Check that a mirror is a URL that can be written to; the store is not accessed.

    Args:
        url: the mirror; "" for none.
        where: the place of the section, for errors.

    Raises:
        ConfigError: it is not, or it has a password.
    """
    if has_password(url):
        fix = "remove it: credentials are read from the environment"
        raise ConfigError(f"{KEY} has a password, which job.json would show", where=where, fix=fix)
    try:
        if url:
            refuse_read_only(url)
    except ConfigError as error:
        raise ConfigError(f"{KEY}: {error.what}", where=where, fix='e.g. mirror = "s3://BUCKET/RUN"') from error


def check_mirror(url: str) -> None:
    """Check that a mirror can be written to, by writing and deleting a small object.

    Raises:
        ConfigError: there is no such bucket, or nothing can be written to this kind of URL.
        MachineError: no credentials or rights, or the store cannot be reached.
    """
    try:
        check_writable(url)
    except JprepError as error:
        raise error.replace(what=f"{KEY}: {error.what}", where=url) from error


def fold_mirror(url: str, fold: str) -> str:
    """Return the mirror of one fold of a cross-validation; "" if there is none."""
    return f"{url.rstrip('/')}/{fold}" if url else ""
