"""An S3 server (moto) on this machine."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator

from tests.servers.process import free_port, need_servers, served

BUCKET = "jprep-tests"


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Yield the address of a server with the bucket `BUCKET`."""
    need_servers()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with served(["-m", "moto.server", "-H", "127.0.0.1", "-p", port], port):
        put(f"{address}/{BUCKET}")
        yield address


def client_environment(address: str) -> dict[str, str]:
    """Return the variables with which clients use a server instead of AWS."""
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_DEFAULT_REGION": "us-east-1"}
    return keys | {"AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true"}


def put(url: str, data: bytes = b"") -> None:
    """Write an object, or create a bucket, without a client's library."""
    headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method="PUT")) as answer:
        assert answer.status == 200
