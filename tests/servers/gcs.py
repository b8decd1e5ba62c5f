"""A Google Cloud Storage server (gcp-storage-emulator) on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.servers.process import free_port, need_servers, served

BUCKET = "jprep-tests"


@contextlib.contextmanager
def gcs_server() -> Iterator[str]:
    """Yield the address of a server with the bucket `BUCKET`."""
    need_servers()
    port = free_port()
    command = ["-m", "gcp_storage_emulator", "start", "--host", "127.0.0.1", "--port", port]
    with served([*command, "--in-memory", "--default-bucket", BUCKET], port):
        yield f"http://127.0.0.1:{port}"


def client_environment(address: str) -> dict[str, str]:
    """Return the variables with which clients use a server instead of Google's."""
    return {"STORAGE_EMULATOR_HOST": address, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
