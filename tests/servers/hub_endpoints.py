"""The endpoints of the local Hub server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tests.servers.hub_repositories import Commit, Refusal, Repo, Request, StoredFile, User, uses_lfs

if TYPE_CHECKING:
    from tests.servers.hub import HubServer

_NAME = r"(?P<name>[^/]+(?:/[^/]+)??)"
_API = rf"/api/(?P<kind>model|dataset)s/{_NAME}"
_ROUTES: list[tuple[str, str, str]] = [
    ("GET", r"/api/whoami-v2", "whoami"),
    ("POST", r"/api/repos/create", "create"),
    ("POST", r"/api/validate-yaml", "validate"),
    ("GET", rf"{_API}", "info"),
    ("GET", rf"{_API}/revision/(?P<revision>[^/]+)", "info"),
    ("GET", rf"{_API}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.+))?", "tree"),
    ("GET", rf"{_API}/auth-check", "may_read"),
    ("GET", rf"{_API}/auth-check/write", "may_write"),
    ("POST", rf"{_API}/preupload/(?P<revision>[^/]+)", "preupload"),
    ("POST", rf"{_API}/commit/(?P<revision>[^/]+)", "commit"),
    ("POST", rf"/(?P<prefix>datasets/)?{_NAME}\.git/info/lfs/objects/batch", "batch"),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", "put_object"),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})/(?P<part>\d+)", "put_part"),
    ("POST", r"/lfs/(?P<oid>[0-9a-f]{64})/complete", "complete"),
    ("POST", r"/lfs/(?P<oid>[0-9a-f]{64})/verify", "verify"),
    ("GET", rf"/(?P<prefix>datasets/)?{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
]


class Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    _body = b""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_HEAD(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: `HubServer.requests` has the requests."""

    def _answer(self, method: str) -> None:
        path = unquote(urlsplit(self.path).path)
        self._body = b"".join(self._read())
        self.hub.requests.append(Request(self.command, path, len(self._body)))
        try:
            if failure := self.hub.failure(self.command, path):
                if failure < 0:
                    self.close_connection = True
                    self.connection.close()
                    return
                raise Refusal(failure, "injected failure")
            if place := self._moved(path):
                self._send(b"", 307, Location=place)
                return
            function, arguments = _route(method, path)
            with self.hub.lock:
                getattr(self, f"_{function}")(**arguments)
        except Refusal as refusal:
            self._refuse(refusal)

    def _moved(self, path: str) -> str:
        """The new place of a path of a repository that was renamed, or ""."""
        for old, new in self.hub.moved.items():
            if path.startswith((f"/api/models/{old}/", f"/{old}/resolve/")) or path == f"/api/models/{old}":
                query = urlsplit(self.path).query
                return path.replace(f"/{old}", f"/{new}", 1) + (f"?{query}" if query else "")
        return ""

    def _read(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            yield self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _refuse(self, refusal: Refusal) -> None:
        extra = {"X-Error-Code": refusal.code} if refusal.code else {}
        self._send(
            json.dumps({"error": refusal.message}).encode(), refusal.status, X_Error_Message=refusal.message, **extra
        )

    def _send(self, data: bytes, status: int = 200, /, **headers: str) -> None:
        self.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(data))} | given).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _json(self, value: Any) -> None:
        self._send(json.dumps(value).encode())

    @property
    def _user(self) -> User | None:
        return self.hub.user(self.headers.get("Authorization", ""))

    def _commit_at(self, repo: Repo, revision: str) -> Commit:
        found = repo.at(revision)
        if found is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def _whoami(self) -> None:
        user = self._user
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        orgs = [{"type": "org", "name": name, "roleInOrg": "write"} for name in user.orgs]
        token = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
        self._json({"type": "user", "name": user.name, "orgs": orgs, "auth": token})

    def _create(self) -> None:
        asked, user = json.loads(self._body), self._user
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        namespace, kind = asked.get("organization") or user.name, asked.get("type") or "model"
        name = f"{namespace}/{asked['name']}"
        if not user.may_write(namespace):
            raise Refusal(403, f"You don't have the rights to create a {kind} under the namespace {namespace!r}")
        url = f"{self.hub.url}/{'datasets/' if kind == 'dataset' else ''}{name}"
        if self.hub.has(name, kind):
            self._send(json.dumps({"error": "You already created this repo", "url": url}).encode(), 409)
            return
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.hub.create(kind, name, private=private)
        self._json({"url": url, "name": name})

    def _validate(self) -> None:
        text = json.loads(self._body)["content"]
        if not text.startswith("---\n"):
            self._json({"errors": [], "warnings": [{"message": "empty or missing yaml metadata in repo card"}]})
            return
        self._json({"errors": [], "warnings": []})

    def _info(self, kind: str, name: str, revision: str = "main") -> None:
        repo = self.hub.visible(kind, name, self._user)
        commit = self._commit_at(repo, revision)
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        about = {"id": name, "sha": commit.oid, "private": repo.private, "siblings": siblings, "tags": []}
        self._json(about | {"gated": "auto" if repo.gated else False, "disabled": False, "downloads": 0, "likes": 0})

    def _tree(self, kind: str, name: str, revision: str, folder: str | None) -> None:
        commit = self._commit_at(self.hub.visible(kind, name, self._user), revision)
        below = f"{folder}/" if folder else ""
        files = {path: file for path, file in sorted(commit.files.items()) if path.startswith(below)}
        if not files:
            raise Refusal(404, f"{folder} does not exist on {revision}", "EntryNotFound")
        inner: list[str] = []
        if "recursive=true" not in urlsplit(self.path).query.lower():
            inner = sorted({below + path[len(below) :].split("/")[0] for path in files if "/" in path[len(below) :]})
            files = {path: file for path, file in files.items() if "/" not in path[len(below) :]}
        folders = [{"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in inner]
        self._json([*folders, *(_entry(path, file) for path, file in files.items())])

    def _may_read(self, kind: str, name: str) -> None:
        self.hub.visible(kind, name, self._user)
        self._json({})

    def _may_write(self, kind: str, name: str) -> None:
        self.hub.writable(kind, name, self._user)
        self._json({})

    def _preupload(self, kind: str, name: str, revision: str) -> None:
        files = self._commit_at(self.hub.writable(kind, name, self._user), revision).files
        asked = json.loads(self._body)["files"]
        modes = {True: "lfs", False: "regular"}
        found = [
            {
                "path": one["path"],
                "uploadMode": modes[uses_lfs(one["path"], one["size"])],
                "shouldIgnore": False,
                "oid": files[one["path"]].etag if one["path"] in files else None,
            }
            for one in asked
        ]
        self._json({"files": found})

    def _batch(self, prefix: str | None, name: str) -> None:
        self.hub.writable("dataset" if prefix else "model", name, self._user)
        self._json({"transfer": "basic", "objects": [self._actions(one) for one in json.loads(self._body)["objects"]]})

    def _actions(self, wanted: dict[str, Any]) -> dict[str, Any]:
        oid, size, parts = wanted["oid"], wanted["size"], self.hub.part_bytes
        if oid in self.hub.objects:
            return {"oid": oid, "size": size}
        base = f"{self.hub.url}/lfs/{oid}"
        upload: dict[str, Any] = {"href": base}
        if parts and size > parts:
            urls = {str(number): f"{base}/{number}" for number in range(1, -(-size // parts) + 1)}
            upload = {"href": f"{base}/complete", "header": {"chunk_size": str(parts), **urls}}
        return {"oid": oid, "size": size, "actions": {"upload": upload, "verify": {"href": f"{base}/verify"}}}

    def _put_object(self, oid: str) -> None:
        self._store(oid, self._body)
        self._send(b"")

    def _put_part(self, oid: str, part: str) -> None:
        self.hub.parts[oid, int(part)] = self._body
        self._send(b"", ETag=f'"{hashlib.md5(self._body).hexdigest()}"')

    def _complete(self, oid: str) -> None:
        numbers = sorted(one["partNumber"] for one in json.loads(self._body)["parts"])
        self._store(oid, b"".join(self.hub.parts.pop((oid, number)) for number in numbers))
        self._json({"success": True})

    def _store(self, oid: str, data: bytes) -> None:
        if hashlib.sha256(data).hexdigest() != oid:
            raise Refusal(400, "the object differs from its hash")
        self.hub.objects[oid] = data

    def _verify(self, oid: str) -> None:
        if len(self.hub.objects.get(oid, b"")) != json.loads(self._body)["size"]:
            raise Refusal(404, "no such object")
        self._json({})

    def _commit(self, kind: str, name: str, revision: str) -> None:
        repo = self.hub.writable(kind, name, self._user)
        head, *operations = [json.loads(line) for line in self._body.splitlines()]
        files = dict(self._commit_at(repo, revision).files)
        for operation in operations:
            _apply(files, operation["key"], operation["value"], self.hub.objects)
        made = repo.commit(head["value"]["summary"], files)
        self._json({"commitUrl": f"{self.hub.url}/{name}/commit/{made.oid}", "commitOid": made.oid, "success": True})

    def _resolve(self, prefix: str | None, name: str, revision: str, path: str) -> None:
        repo = self.hub.visible("dataset" if prefix else "model", name, self._user)
        commit = self._commit_at(repo, revision)
        if repo.gated and self._user is None:
            raise Refusal(401, "Access to this repository is restricted", "GatedRepo")
        if path not in commit.files:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        file, status, extra = commit.files[path], 200, {}
        data = file.data
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(asked[1]), int(asked[2] or len(data) - 1)
            extra = {"Content_Range": f"bytes {start}-{end}/{len(data)}"}
            data, status = data[start : end + 1], 206
        named = {"ETag": f'"{file.etag}"', "X_Repo_Commit": commit.oid, "Accept_Ranges": "bytes"}
        self._send(data, status, Content_Type="application/octet-stream", **named, **extra)


def _route(method: str, path: str) -> tuple[str, dict[str, Any]]:
    for wanted, pattern, function in _ROUTES:
        if wanted == method and (found := re.fullmatch(pattern, path)):
            return function, found.groupdict()
    raise Refusal(404, f"no such endpoint: {method} {path}")


def _entry(path: str, file: StoredFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(file.data), "oid": file.blob}
    if file.lfs:
        entry["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}
    return entry


def _apply(files: dict[str, StoredFile], key: str, value: dict[str, Any], objects: Mapping[str, bytes]) -> None:
    """Apply an operation of a commit to files."""
    if key == "file":
        files[value["path"]] = StoredFile(base64.b64decode(value["content"]), lfs=False)
    elif key == "lfsFile":
        if value["oid"] not in objects:
            raise Refusal(400, f"the LFS object of {value['path']} was not uploaded")
        files[value["path"]] = StoredFile(objects[value["oid"]], lfs=True)
    elif key == "deletedFile":
        del files[value["path"]]
    else:
        raise Refusal(400, f"unknown operation {key}")
