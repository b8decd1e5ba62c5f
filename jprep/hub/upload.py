"""Upload a folder to a repository of the Hugging Face Hub, in one commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jprep.errors import ConfigError, MachineError
from jprep.hub.client import (
    PAUSES,
    api,
    endpoint,
    hide_progress,
    hub_errors,
    is_offline,
    library,
    require_token,
    retry_unavailable,
)
from jprep.hub.names import Kind, check_name


class Uploaded(NamedTuple):
    """A finished upload.

    Attributes:
        url: the page of the repository.
        commit: the commit that has the files; the present one if nothing has changed.
        changed: whether anything has changed.
    """

    url: str
    commit: str
    changed: bool


def check_access(
    name: str, *, kind: Kind = "model", token: str | None = None, private: bool = True, create: bool = False
) -> bool:
    """Check that a repository can be uploaded to, before any other work.

    Args:
        name: `org/name`.
        kind: the kind of the repository.
        token: a token; by default HF_TOKEN, or that of `hf auth login`.
        private: whether a new repository is private.
        create: create the repository if it does not exist, which is the only proof of the right to do so.

    Returns:
        Whether the repository existed.

    Raises:
        ConfigError: the name is malformed, or the token is missing, invalid or without the right to write there.
        MachineError: the library is not installed, or the Hub cannot be reached.
    """
    check_name(name, "the repository's name")
    if is_offline():
        raise MachineError("HF_HUB_OFFLINE forbids to upload", where=name, fix="unset HF_HUB_OFFLINE")
    client = api(require_token(token, name))
    with hub_errors(name, "upload"):
        namespaces = _namespaces(client.whoami(), name)
        if exists := client.repo_exists(name, repo_type=kind):
            _check_right_to_write(client, name, kind)
        elif create:
            client.create_repo(name, repo_type=kind, private=private, exist_ok=True)
        elif name.split("/")[0] not in namespaces:
            raise _no_right(name, f"it is of {namespaces[0]}")
    return bool(exists)


def upload(
    folder: Path,
    name: str,
    *,
    kind: Kind = "model",
    token: str | None = None,
    private: bool = True,
    message: str = "Upload with jprep",
    files: Sequence[str] | None = None,
    obsolete: Collection[str] = (),
    progress: bool = True,
    pauses: Sequence[float] = PAUSES,
) -> Uploaded:
    """Upload files to a repository, in one commit. The repository is created if it does not exist.

    Files that the Hub has already are not sent again: neither those of the present commit, nor large ones that an
    interrupted upload has sent. Other files of the repository stay as they are.

    Args:
        folder: the folder.
        name: `org/name`.
        kind: the kind of the repository.
        token: a token; by default HF_TOKEN, or that of `hf auth login`.
        private: whether a new repository is private; an existing one stays as it is.
        message: the commit's message.
        files: names of the files to upload, relative to the folder; by default all.
        obsolete: names of files to delete from the repository, if it has them.
        progress: show progress bars on a terminal.
        pauses: seconds between attempts after transient errors.

    Raises:
        ConfigError: a wrong name, or a token that is missing, invalid or without the right to write there.
        MachineError: the library is not installed, the Hub cannot be reached, or a file cannot be read.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    chosen = names if files is None else sorted(files)
    if not progress:
        library()
        hide_progress()

    def attempt() -> Uploaded:
        check_access(name, kind=kind, token=token, private=private, create=True)
        return _commit(folder, name, kind, require_token(token, name), message, chosen, obsolete)

    return retry_unavailable(attempt, pauses)


def _commit(
    folder: Path, name: str, kind: Kind, token: str, message: str, files: Sequence[str], obsolete: Collection[str]
) -> Uploaded:
    found, client = library(), api(token)
    with hub_errors(name, "upload"):
        before = client.repo_info(name, repo_type=kind)
        present = {one.rfilename for one in before.siblings or ()}
        deleted = sorted(present & set(obsolete) - set(files))
        operations = [
            *(found.CommitOperationDelete(path) for path in deleted),
            *(found.CommitOperationAdd(path, folder / path) for path in files),
        ]
        after = client.create_commit(name, operations, commit_message=message, repo_type=kind)
    page = f"{endpoint()}/{'datasets/' if kind == 'dataset' else ''}{name}"
    return Uploaded(page, str(after.oid), after.oid != before.sha)


def _namespaces(account: dict[str, Any], name: str) -> list[str]:
    """Return the user and the organizations of a token, which must not be for reading only."""
    if account.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise _no_right(name, "it is for reading only")
    return [account["name"], *(org["name"] for org in account.get("orgs", ()))]


def _check_right_to_write(client: Any, name: str, kind: Kind) -> None:
    try:
        client.auth_check(name, repo_type=kind, write=True)
    except TypeError:  # versions before 1.0 check the right to read only; the Hub refuses the upload itself then
        client.auth_check(name, repo_type=kind)


def _no_right(name: str, why: str) -> ConfigError:
    fix = "use a token with the right to write there, of a user who may; or another name"
    return ConfigError(f"this token has no permission to upload: {why}", where=f"{endpoint()}/{name}", fix=fix)
