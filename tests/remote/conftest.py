"""The servers, with the environment of a client."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.servers import gcs, s3
from tests.servers.proxy import Faults, faulty_proxy


class Store(NamedTuple):
    """A store that answers with an error or breaks the connection for 5 % of the requests.

    Attributes:
        url: its bucket.
        env: the variables of a client's environment.
        faults: the requests, and those that failed.
        address: the server's address without the proxy.
    """

    url: str
    env: dict[str, str]
    faults: Faults
    address: str

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process be a client."""
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def s3_store() -> Iterator[Store]:
    if not importlib.util.find_spec("s3fs"):
        pytest.skip("s3fs is not installed")
    with s3.s3_server() as address, faulty_proxy(address) as (proxy, faults):
        yield Store(f"s3://{s3.BUCKET}", s3.client_environment(proxy), faults, address)


@pytest.fixture(scope="session")
def gcs_store() -> Iterator[Store]:
    if not importlib.util.find_spec("gcsfs"):
        pytest.skip("gcsfs is not installed")
    with gcs.gcs_server() as address, faulty_proxy(address) as (proxy, faults):
        yield Store(f"gs://{gcs.BUCKET}", gcs.client_environment(proxy), faults, address)


@pytest.fixture(params=["s3_store", "gcs_store"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each store in turn."""
    found: Store = request.getfixturevalue(request.param)
    return found
