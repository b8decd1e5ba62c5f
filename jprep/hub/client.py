"""The client library of the Hugging Face Hub: imported late, with its errors translated to those of jprep."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from jprep.errors import ConfigError, JprepError, MachineError
from jprep.io.remote.errors import TRANSIENT_STATUSES
from jprep.io.retry import call_with_retries
from jprep.libraries import import_library

_TOKEN_FIX = "set HF_TOKEN to a token from the Hub's settings, or run `hf auth login`"
_NETWORK_FIX = "check the network, HF_ENDPOINT and proxies; then run the same command again"

PAUSES = (1.0, 4.0, 15.0, 60.0)
"""Seconds between attempts after transient errors."""

T = TypeVar("T")


class UnavailableError(MachineError):
    """The Hub cannot be reached, or answers with a transient error: another attempt may succeed."""


def retry_unavailable(call: Callable[[], T], pauses: Sequence[float] = PAUSES) -> T:
    """Call a function, and again after each pause while the Hub is unavailable; return its result.

    Raises:
        UnavailableError: the last attempt failed too.
    """
    return call_with_retries(call, pauses, lambda error: isinstance(error, UnavailableError))


def library() -> Any:
    """Import `huggingface_hub`, and return it.

    A server given by HF_ENDPOINT is used without Xet, which is a separate service of huggingface.co; set
    HF_HUB_DISABLE_XET=0 if it has one.

    Raises:
        MachineError: it is not installed.
    """
    if os.environ.get("HF_ENDPOINT"):
        os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    found = import_library("huggingface_hub", "the Hugging Face Hub needs huggingface_hub", "'jprep[hub]'")
    found.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        hide_progress()
    return found


def hide_progress() -> None:
    """Show no progress bars of the client library from now on."""
    importlib.import_module("huggingface_hub.utils").disable_progress_bars()


def endpoint() -> str:
    """Return the address of the Hub: HF_ENDPOINT, or huggingface.co."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def cache_folder() -> Path | None:
    """Return the folder of downloads: HF_HUB_CACHE, or `hub` in HF_HOME; None for the default of the client library."""
    if given := os.environ.get("HF_HUB_CACHE"):
        return Path(given)
    return Path(home) / "hub" if (home := os.environ.get("HF_HOME")) else None


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def find_token(token: str | None = None) -> str | None:
    """Return the given token, HF_TOKEN, or that of `hf auth login`; None without any.

    Raises:
        ConfigError: it has a character that no token has, which clients would show in their errors.
    """
    found: str | None = token or os.environ.get("HF_TOKEN", "").strip() or library().get_token()
    if found and not (found.isascii() and found.isprintable()):
        raise ConfigError("the token of the Hub has characters that no token has", where=endpoint(), fix=_TOKEN_FIX)
    return found


def require_token(token: str | None, name: str) -> str:
    """Return a token.

    Raises:
        ConfigError: there is none.
    """
    if found := find_token(token):
        return found
    raise ConfigError("uploading needs a token of the Hub, and there is none", where=name, fix=_TOKEN_FIX)


def api(token: str | None) -> Any:
    """Return the client of the Hub's API for a token."""
    from importlib.metadata import version

    own = {"library_name": "jprep", "library_version": version("jprep")}
    return library().HfApi(endpoint=endpoint(), token=token or False, **own)


@contextlib.contextmanager
def hub_errors(name: str, doing: str) -> Iterator[None]:
    """Translate errors of the client library in a block.

    Args:
        name: the repository, for errors.
        doing: what fails, e.g. `download`.

    Raises:
        ConfigError: there is no such repository or revision, or the token is missing, invalid or without rights.
        UnavailableError: the Hub cannot be reached, or answers with a transient error.
        MachineError: the disk is full or not writable.
    """
    errors = importlib.import_module("huggingface_hub.errors")
    where = f"{endpoint()}/{name}"
    try:
        yield
    except JprepError:
        raise
    except errors.GatedRepoError as error:
        fix = f"accept its conditions on {where} with the account of your token; {_TOKEN_FIX}"
        raise ConfigError("this repository is gated", where=where, fix=fix) from error
    except errors.RevisionNotFoundError as error:
        raise ConfigError("the repository has no such revision", where=where, fix="check the revision") from error
    except errors.RepositoryNotFoundError as error:
        fix = f"check the name; a private repository also needs a token with access to it: {_TOKEN_FIX}"
        raise ConfigError("there is no such repository on the Hub", where=where, fix=fix) from error
    except errors.HfHubHTTPError as error:
        raise _of_status(error, where, doing) from error
    except errors.LocalEntryNotFoundError as error:
        raise _not_found_here(error, where) from error
    except errors.OfflineModeIsEnabled as error:
        raise MachineError(f"HF_HUB_OFFLINE forbids to {doing}", where=where, fix="unset HF_HUB_OFFLINE") from error
    except (errors.HFValidationError, errors.EntryNotFoundError) as error:
        raise ConfigError(f"the Hub refuses to {doing}: {_reason(error)}", where=where, fix="check the name") from error
    except Exception as error:
        if not _is_network_error(error):
            raise
        raise UnavailableError(f"the Hub cannot be reached: {_reason(error)}", where=where, fix=_NETWORK_FIX) from error


def _of_status(error: Any, where: str, doing: str) -> JprepError:
    """Return the error for a response with an error status."""
    status = error.response.status_code
    message = " ".join((error.server_message or error.response.reason_phrase).split())
    if status == 401:
        return ConfigError(f"the Hub does not accept this token ({message})", where=where, fix=_TOKEN_FIX)
    if status == 403:
        fix = "use a token with the right to write there, of a user who may; or another name"
        return ConfigError(f"this token has no permission to {doing} ({message})", where=where, fix=fix)
    kind = UnavailableError if status in TRANSIENT_STATUSES else MachineError
    return kind(f"the Hub cannot {doing}: HTTP {status} {message}", where=where, fix=_NETWORK_FIX)


def _not_found_here(error: Exception, where: str) -> JprepError:
    if is_offline():
        fix = "unset HF_HUB_OFFLINE, or give a local folder"
        return MachineError("HF_HUB_OFFLINE is set, and not all of its files are in the cache", where=where, fix=fix)
    cause = error.__cause__ or error
    return UnavailableError(f"the Hub cannot be reached: {_reason(cause)}", where=where, fix=_NETWORK_FIX)


def _is_network_error(error: BaseException) -> bool:
    """Return whether an error or one of its causes is one of the HTTP library, of whatever name."""
    modules = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
    while error:
        if type(error).__module__.split(".")[0] in modules or isinstance(error, ConnectionError | TimeoutError):
            return True
        error = error.__cause__  # type: ignore[assignment]
    return False


def _reason(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
