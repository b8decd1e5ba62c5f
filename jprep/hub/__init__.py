"""The Hugging Face Hub: download models and tokenizers, and upload exports. Needs the extra `hub`."""

from __future__ import annotations

from jprep.hub.download import commit_of, download, name_of
from jprep.hub.names import Kind, check_name, looks_like_name
from jprep.hub.upload import Uploaded, check_access, upload

__all__ = [
    "Kind",
    "Uploaded",
    "check_access",
    "check_name",
    "commit_of",
    "download",
    "looks_like_name",
    "name_of",
    "upload",
]
