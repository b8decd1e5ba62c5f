"""A local server of the Hugging Face Hub's endpoints: downloads, and uploads by preupload, Git LFS and commit.

    with HubServer() as hub:
        hub.add_user("alice", token="hf_alice", orgs=["acme"])
        hub.put("acme/bert", {"config.json": b"{}"})
        env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_alice", "HF_HUB_DISABLE_XET": "1"}

Everything is kept in memory. Requests are logged in `hub.requests`; `hub.fail` makes some of them fail.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

LFS_PATTERNS = ("*.safetensors", "*.bin", "*.idx", "*.arrow", "*.parquet", "*.tfrecord", "*.model")
"""Names that new repositories store by Git LFS, as the Hub's own `.gitattributes` does."""

LFS_BYTES = 10 << 20
"""Larger files are stored by Git LFS whatever their names."""


@dataclass(frozen=True)
class User:
    """The owner of a token."""

    name: str
    orgs: tuple[str, ...]
    role: str

    def may_write(self, namespace: str) -> bool:
        return self.role == "write" and namespace in (self.name, *self.orgs)

    def may_read(self, namespace: str) -> bool:
        return namespace in (self.name, *self.orgs)


@dataclass(frozen=True)
class StoredFile:
    """A file of a commit."""

    data: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        head = "version https://git-lfs.github.com/spec/v1"
        return f"{head}\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()

    @property
    def blob(self) -> str:
        """The id of the git blob."""
        stored = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.blob


@dataclass(frozen=True)
class Commit:
    """The files after a commit."""

    oid: str
    message: str
    files: dict[str, StoredFile]


@dataclass
class Repo:
    """A repository: the commits of `main`, the newest last."""

    name: str
    private: bool
    gated: bool = False
    commits: list[Commit] = field(default_factory=list)

    @property
    def files(self) -> dict[str, StoredFile]:
        return self.commits[-1].files

    def at(self, revision: str) -> Commit | None:
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit.oid == revision), None)

    def commit(self, message: str, files: dict[str, StoredFile]) -> Commit:
        state = json.dumps([len(self.commits), self.name, message, {path: one.blob for path, one in files.items()}])
        self.commits.append(Commit(hashlib.sha1(state.encode()).hexdigest(), message, files))
        return self.commits[-1]


@dataclass(frozen=True)
class Request:
    """A logged request."""

    method: str
    path: str
    size: int


class _Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


class HubServer:
    """The server, on a free port of this machine, for the duration of a `with` block.

    Args:
        part_bytes: LFS files that are larger are uploaded in parts of this size; 0 uploads all of them in one.

    Attributes:
        url: the value for HF_ENDPOINT.
        requests: the requests so far.
        objects: LFS objects by SHA-256.
    """

    def __init__(self, part_bytes: int = 0) -> None:
        self.requests: list[Request] = []
        self.objects: dict[str, bytes] = {}
        self.part_bytes = part_bytes
        self.lock = threading.RLock()
        self.parts: dict[tuple[str, int], bytes] = {}
        self._users: dict[str, User] = {}
        self._repos: dict[tuple[str, str], Repo] = {}
        self._failures: list[Callable[[str, str], int]] = []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add_user(self, name: str, token: str, orgs: Sequence[str] = (), role: str = "write") -> None:
        """Add a token: of the user `name`, a member of some organizations; `role` is `write` or `read`."""
        self._users[token] = User(name, tuple(orgs), role)

    def put(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        kind: str = "model",
        private: bool = False,
        gated: bool = False,
    ) -> str:
        """Commit files to a repository, which is created if necessary; return the commit's id."""
        repo = self._repos.get((kind, name)) or self.create(kind, name, private=private)
        repo.gated = gated
        stored = {path: StoredFile(data, uses_lfs(path, len(data))) for path, data in files.items()}
        return repo.commit("put", repo.files | stored).oid

    def create(self, kind: str, name: str, *, private: bool) -> Repo:
        repo = self._repos[kind, name] = Repo(name, private)
        attributes = "".join(f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in LFS_PATTERNS)
        repo.commit("initial commit", {".gitattributes": StoredFile(attributes.encode(), lfs=False)})
        return repo

    def repo(self, name: str, kind: str = "model") -> Repo:
        return self._repos[kind, name]

    def has(self, name: str, kind: str = "model") -> bool:
        return (kind, name) in self._repos

    def fail(self, method: str, pattern: str, *, times: int = 1, status: int = 500) -> None:
        """Answer the next requests whose path matches a shell pattern with an error; status 0 drops the connection."""
        left = [times]

        def decide(asked: str, path: str) -> int:
            if left[0] and asked == method and fnmatch.fnmatch(path, pattern):
                left[0] -= 1
                return status or -1
            return 0

        self._failures.append(decide)

    def fail_every(self, number: int, status: int = 503) -> None:
        """Answer every n-th request with an error."""
        count = [0]

        def decide(asked: str, path: str) -> int:
            count[0] += 1
            return status if not count[0] % number else 0

        self._failures.append(decide)

    def failure(self, method: str, path: str) -> int:
        """Return the status that a request fails with: 0 for none, -1 for a dropped connection."""
        with self.lock:
            return next((status for decide in self._failures if (status := decide(method, path))), 0)

    def sent(self, method: str, pattern: str) -> list[Request]:
        """Return the requests of a method whose paths match a shell pattern."""
        return [one for one in self.requests if one.method == method and fnmatch.fnmatch(one.path, pattern)]

    def user(self, authorization: str) -> User | None:
        if not authorization:
            return None
        token = authorization.removeprefix("Bearer ")
        if token not in self._users:
            raise _Refusal(401, "Invalid credentials in Authorization header")
        return self._users[token]

    def visible(self, kind: str, name: str, user: User | None) -> Repo:
        repo = self._repos.get((kind, name))
        if repo is None or (repo.private and not (user and user.may_read(name.split("/")[0]))):
            raise _Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        return repo

    def writable(self, kind: str, name: str, user: User | None) -> Repo:
        repo = self.visible(kind, name, user)
        if not (user and user.may_write(name.split("/")[0])):
            raise _Refusal(403, "you do not have the required permissions")
        return repo


def uses_lfs(path: str, size: int) -> bool:
    """Return whether a file is stored by Git LFS."""
    return size > LFS_BYTES or any(fnmatch.fnmatch(path.split("/")[-1], pattern) for pattern in LFS_PATTERNS)


_NAME = r"(?P<name>[^/]+/[^/]+)"
_API = rf"/api/(?P<kind>model|dataset)s/{_NAME}"
_ROUTES: list[tuple[str, str, str]] = [
    ("GET", r"/api/whoami-v2", "whoami"),
    ("POST", r"/api/repos/create", "create"),
    ("POST", r"/api/validate-yaml", "validate"),
    ("GET", rf"{_API}", "info"),
    ("GET", rf"{_API}/revision/(?P<revision>[^/]+)", "info"),
    ("GET", rf"{_API}/tree/(?P<revision>[^/]+)", "tree"),
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


class _Handler(BaseHTTPRequestHandler):
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
                raise _Refusal(failure, "injected failure")
            function, arguments = _route(method, path)
            with self.hub.lock:
                getattr(self, f"_{function}")(**arguments)
        except _Refusal as refusal:
            self._refuse(refusal)

    def _read(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            yield self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _refuse(self, refusal: _Refusal) -> None:
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
            raise _Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def _whoami(self) -> None:
        user = self._user
        if user is None:
            raise _Refusal(401, "Invalid username or password.")
        orgs = [{"type": "org", "name": name, "roleInOrg": "write"} for name in user.orgs]
        token = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
        self._json({"type": "user", "name": user.name, "orgs": orgs, "auth": token})

    def _create(self) -> None:
        asked, user = json.loads(self._body), self._user
        if user is None:
            raise _Refusal(401, "Invalid username or password.")
        namespace, kind = asked.get("organization") or user.name, asked.get("type") or "model"
        name = f"{namespace}/{asked['name']}"
        if not user.may_write(namespace):
            raise _Refusal(403, f"You don't have the rights to create a {kind} under the namespace {namespace!r}")
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

    def _tree(self, kind: str, name: str, revision: str) -> None:
        commit = self._commit_at(self.hub.visible(kind, name, self._user), revision)
        self._json([_entry(path, file) for path, file in sorted(commit.files.items())])

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
            raise _Refusal(400, "the object differs from its hash")
        self.hub.objects[oid] = data

    def _verify(self, oid: str) -> None:
        if len(self.hub.objects.get(oid, b"")) != json.loads(self._body)["size"]:
            raise _Refusal(404, "no such object")
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
            raise _Refusal(401, "Access to this repository is restricted", "GatedRepo")
        if path not in commit.files:
            raise _Refusal(404, "Entry not found", "EntryNotFound")
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
    raise _Refusal(404, f"no such endpoint: {method} {path}")


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
            raise _Refusal(400, f"the LFS object of {value['path']} was not uploaded")
        files[value["path"]] = StoredFile(objects[value["oid"]], lfs=True)
    elif key == "deletedFile":
        del files[value["path"]]
    else:
        raise _Refusal(400, f"unknown operation {key}")
