"""Objects at URLs that fsspec opens, such as `s3://` and `gs://`: read, write and compare them, with retries.

Each object is written as a whole, and appears under its name when it is complete. Transient errors are retried; missing
buckets, refused rights and missing credentials are not.
"""

from jprep.io.remote.folders import download_folder, upload_folder
from jprep.io.remote.objects import (
    check_writable,
    delete_object,
    download_file,
    has_password,
    is_url,
    join_url,
    list_objects,
    object_version,
    open_filesystem,
    open_object,
    read_bytes,
    upload_file,
    write_bytes,
)
from jprep.io.remote.retry import retry_remote

__all__ = [
    "check_writable",
    "delete_object",
    "download_file",
    "download_folder",
    "has_password",
    "is_url",
    "join_url",
    "list_objects",
    "object_version",
    "open_filesystem",
    "open_object",
    "read_bytes",
    "retry_remote",
    "upload_file",
    "upload_folder",
    "write_bytes",
]
