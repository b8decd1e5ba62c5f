"""Retry operations on objects after transient errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from jprep.errors import JprepError
from jprep.io.remote.errors import Access, bucket_of, classify_error, is_throttled, translate_remote_error
from jprep.io.retry import PAUSES, call_with_retries

T = TypeVar("T")

THROTTLED_PAUSES = (30.0, 60.0)
"""Further seconds between attempts, if a store asks for fewer requests."""

_REPORTED = 1.0  # seconds of a pause that the user is told of
_log = logging.getLogger(__name__)


def retry_remote(call: Callable[[], T], url: str, access: Access) -> T:
    """Call a function that accesses an object, and retry after transient errors; longer if the store is too busy.

    Args:
        call: the function; it is called at most `len(PAUSES) + 1` times, and as often again after each of
            `THROTTLED_PAUSES`.
        url: what it accesses, for the error.
        access: what it does with it.

    Returns:
        the result of `call`.

    Raises:
        ConfigError: there is no such bucket or object, or the URL is not valid.
        MachineError: no credentials or rights, a missing package, or the last attempt failed too.
    """
    try:
        return call_with_retries(lambda: _try(call, url), THROTTLED_PAUSES, is_throttled, _reporting(url))
    except JprepError:
        raise
    except Exception as error:
        if known := translate_remote_error(error, url, access):
            raise known from error
        raise


def _try(call: Callable[[], T], url: str) -> T:
    return call_with_retries(call, PAUSES, lambda error: classify_error(error) == "transient", _reporting(url))


def _reporting(url: str) -> Callable[[Exception, float], None]:
    """Return a function that tells the user of a pause that is not short."""

    def report(error: Exception, pause: float) -> None:
        if pause >= _REPORTED:
            message = " ".join(str(error).split()) or type(error).__name__
            why = "asks for fewer requests" if is_throttled(error) else "does not answer"
            _log.warning("%s %s (%s): trying again in %.0f s", bucket_of(url), why, message, pause)

    return report
