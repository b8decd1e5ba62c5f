"""Requests that other sites could cause are refused, and every response has the headers that protect it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

CROSS = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:1", "localhost", "127.0.0.1"])
def test_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8765", "evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "[::1]:8765", "0.0.0.0"],
)
@pytest.mark.parametrize("path", ["/", "/documents/0/0", "/style.css", "/nothing"])
def test_other_hosts_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 403 and "hostile" not in answer.text


def test_other_sites_may_link_but_not_read(client: TestClient) -> None:
    assert client.get("/", headers=CROSS).status_code == 403
    assert client.get("/", headers=CROSS | {"sec-fetch-site": "same-site"}).status_code == 403
    framed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert client.get("/", headers=framed).status_code == 403
    assert client.get("/", headers=framed | {"sec-fetch-dest": "document"}).status_code == 200
    assert client.get("/", headers=CROSS | {"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/documents/0/0", "/nothing", "/style.css", "/?max.characters=x"])
def test_headers(client: TestClient, path: str) -> None:
    headers = client.get(path, headers={"origin": "https://evil.example"}).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "script-src" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_sent(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


def test_internal_errors_show_no_traceback(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("jprep.view.hit_list.read_hits", broken)
    page = client.get("/")
    assert page.status_code == 500 and "secret" not in page.text and "Traceback" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
