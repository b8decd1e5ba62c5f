"""A local server of the Hugging Face Hub's endpoints: downloads, and uploads by preupload, Git LFS and commit.

    with HubServer() as hub:
        hub.add_user("alice", token="hf_alice", orgs=["acme"])
        hub.put("acme/bert", {"config.json": b"{}"})
        env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_alice", "HF_HUB_DISABLE_XET": "1"}

Everything is kept in memory. Requests are logged in `hub.requests`; `hub.fail` makes some of them fail.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import ThreadingHTTPServer

from tests.servers.hub_endpoints import Handler
from tests.servers.hub_repositories import LFS_PATTERNS, Refusal, Repo, Request, StoredFile, User, uses_lfs


class HubServer:
    """The server, on a free port of this machine, for the duration of a `with` block.

    Args:
        part_bytes: LFS files that are larger are uploaded in parts of this size; 0 uploads all of them in one.

    Attributes:
        url: the value for HF_ENDPOINT.
        requests: the requests so far.
        objects: LFS objects by SHA-256.
        moved: old names of models, such as `bert-base-uncased`, and the names that they are redirected to.
    """

    def __init__(self, part_bytes: int = 0) -> None:
        self.requests: list[Request] = []
        self.objects: dict[str, bytes] = {}
        self.part_bytes = part_bytes
        self.lock = threading.RLock()
        self.parts: dict[tuple[str, int], bytes] = {}
        self.moved: dict[str, str] = {}
        self._users: dict[str, User] = {}
        self._repos: dict[tuple[str, str], Repo] = {}
        self._failures: list[Callable[[str, str], int]] = []
        handler = type("Handler", (Handler,), {"hub": self})
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
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self._users[token]

    def visible(self, kind: str, name: str, user: User | None) -> Repo:
        repo = self._repos.get((kind, name))
        if repo is None or (repo.private and not (user and user.may_read(name.split("/")[0]))):
            raise Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        return repo

    def writable(self, kind: str, name: str, user: User | None) -> Repo:
        repo = self.visible(kind, name, user)
        if not (user and user.may_write(name.split("/")[0])):
            raise Refusal(403, "you do not have the required permissions")
        return repo
