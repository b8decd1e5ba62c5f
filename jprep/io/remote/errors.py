"""Tell the errors of object stores apart, and translate them to errors that name the bucket and the fix.

Each file system of fsspec raises exceptions of its own library. They are recognized by their modules and attributes, so
that none of these libraries has to be imported.
"""

from __future__ import annotations

import errno
from typing import Literal

from jprep.errors import ConfigError, JprepError, MachineError

Access = Literal["read", "write"]
"""What an operation does with an object."""

Problem = Literal["package", "credentials", "refused", "bucket", "missing", "invalid", "transient", ""]
"""Why an operation failed; "" is not an error of a store."""

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which another attempt may succeed."""

_LIBRARIES = ("aiobotocore", "aiohttp", "asyncio", "botocore", "concurrent", "fsspec", "gcsfs", "google", "httpcore",
              "httpcore2", "httpx", "httpx2", "requests", "s3fs", "socket", "ssl", "urllib3")  # fmt: skip
_NO_CREDENTIALS = ("CredentialRetrievalError", "DefaultCredentialsError", "NoCredentialsError", "ProfileNotFound",
                   "PartialCredentialsError", "RefreshError", "SSOError", "TokenRetrievalError")  # fmt: skip
_INVALID = ("ParamValidationError", "InvalidEndpointURLError", "NoRegionError", "NonRetryableError")
_THROTTLED = ("slowdown", "reduce your request rate", "too many requests", "service unavailable", "(503)", "(429)")
_LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EMFILE)
_LOGIN = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    "hf": "accept its conditions on the Hub if it has any, and set HF_TOKEN, or run `hf auth login`",
}
_LOGIN |= {"s3a": _LOGIN["s3"], "gcs": _LOGIN["gs"]}


def classify_error(error: BaseException) -> Problem:
    """Return why an operation on an object failed."""
    status = getattr(error, "code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, ImportError):
        return "package"
    if isinstance(error, FileNotFoundError) or status in (404, "404"):
        return "bucket" if is_missing_bucket(error) else "missing"
    if isinstance(error, PermissionError) or status in (401, 403, "401", "403"):
        return "refused"
    if type(error).__name__ in _NO_CREDENTIALS:
        return "credentials"
    if type(error).__name__ in _INVALID:
        return "invalid"
    return _classify_other(error, status)


def _classify_other(error: BaseException, status: object) -> Problem:
    if isinstance(error, OSError):
        if error.errno == errno.EINVAL:
            return "invalid"
        return "" if error.errno in _LOCAL else "transient"
    if isinstance(error, ValueError):
        return "invalid"
    if isinstance(status, int) and 400 <= status < 500 and status not in TRANSIENT_STATUSES:
        return "invalid"
    from_library = type(error).__module__.partition(".")[0] in _LIBRARIES
    return "transient" if isinstance(error, Exception) and (from_library or isinstance(error, TimeoutError)) else ""


def is_throttled(error: BaseException) -> bool:
    """Return whether a store refused a request because there are too many."""
    status = getattr(error, "code", None) or getattr(getattr(error, "response", None), "status_code", None)
    message = str(error).lower()
    return classify_error(error) == "transient" and (
        status in (429, 503, "429", "503") or any(mark in message for mark in _THROTTLED)
    )


def translate_remote_error(error: BaseException, url: str, access: Access) -> JprepError | None:
    """Return the error to raise for a failed operation on an object; None if no store raised it.

    Args:
        error: the error.
        url: the URL that was accessed.
        access: what was done with it.
    """
    problem, scheme, bucket = classify_error(error), url.partition("://")[0], bucket_of(url)
    login = _LOGIN.get(scheme, f"set up the credentials of {scheme}://")
    message = " ".join(str(error).split()) or type(error).__name__
    if problem == "package":
        fix = "pip install 'jprep[remote]', or the package that the message names"
        return MachineError(f"this kind of URL needs another package: {message}", where=url, fix=fix)
    if problem == "credentials":
        return MachineError(f"there are no valid credentials for {scheme}://: {message}", where=url, fix=login)
    if problem == "refused":
        what = f"no permission to {access} in {bucket}: {message}"
        return MachineError(what, where=url, fix=f"grant this account the right, or use another account: {login}")
    if problem == "bucket" or (problem == "missing" and access == "write"):
        return ConfigError(f"there is no bucket {bucket}", where=url, fix="create it, or correct the URL")
    if problem == "missing":
        return ConfigError("there is no such file", where=url, fix="check the URL")
    if problem == "invalid":
        return ConfigError(f"this is not a valid path: {message}", where=url, fix="check the URL")
    if problem == "transient":
        fix = "check the network and the store, then run the same command again to resume"
        return MachineError(f"cannot {access} {bucket}: {message}", where=url, fix=fix)
    return None


def is_missing_bucket(error: BaseException) -> bool:
    """Return whether an error says that the bucket does not exist; some stores only say that the object does not."""
    return "specified bucket" in str(error) or "NoSuchBucket" in str(error)


def bucket_of(url: str) -> str:
    """Return the URL of the bucket or host that a URL lies in; on the Hugging Face Hub, that of the dataset."""
    scheme, _, rest = url.partition("://")
    parts = 3 if scheme == "hf" else 1
    return f"{scheme}://{'/'.join(rest.lstrip('/').split('/')[:parts])}"
