"""The commit of a repository on the Hub that a URL `hf://…` reads."""

from __future__ import annotations

from jprep.hub.client import library
from jprep.io.remote.errors import translate_remote_error

SCHEME = "hf://"


def commit_of_url(url: str, known: dict[tuple[str, str, str], str]) -> str:
    """Return the commit that a URL reads now; "" for a URL of another kind.

    Args:
        url: `hf://datasets/ORG/NAME@REVISION/PATH`; without a revision, the branch `main` is read.
        known: commits that were asked for, by kind, name and revision of the repository; the URL's is added.

    Raises:
        ConfigError: there is no such repository or revision.
        MachineError: the Hub cannot be reached, or huggingface_hub is not installed.
    """
    if not url.startswith(SCHEME):
        return ""
    hub = library()
    try:
        place = hub.HfFileSystem().resolve_path(url)
        key = (place.repo_type, place.repo_id, place.revision)
        if key not in known:
            known[key] = (
                hub.HfApi().repo_info(place.repo_id, repo_type=place.repo_type, revision=place.revision).sha or ""
            )
    except Exception as error:  # of the client library, or of the one that it uses for HTTP
        if translated := translate_remote_error(error, url, "read"):
            raise translated from error
        raise
    return known[key]
