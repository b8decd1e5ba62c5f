"""Fixtures of the local Hub server for tests of any package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.hub import HubServer

TOKEN = "hf_alice"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A Hub with the user alice of the organization acme, whose token is in HF_TOKEN."""
    with HubServer() as server:
        server.add_user("alice", TOKEN, orgs=["acme"])
        for name, value in hub_environment(server, tmp_path / "hf").items():
            monkeypatch.setenv(name, value)
        use_now(monkeypatch)
        yield server


def hub_environment(server: HubServer, home: Path, token: str = TOKEN) -> dict[str, str]:
    """The variables with which a process uses the server."""
    return {"HF_ENDPOINT": server.url, "HF_TOKEN": token, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}


def use_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client library that is imported already follow this test's variables."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent/token")
