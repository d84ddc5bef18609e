"""A stand-in of the Hugging Face hub on 127.0.0.1: as much of it as huggingface_hub asks for to download files."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """Files by name for each revision, and the token that it asks for."""

    revisions: dict[str, dict[str, bytes]]
    token: str | None = None

    def commit(self, revision: str) -> str:
        return hashlib.sha1(repr(sorted(self.revisions[revision].items())).encode()).hexdigest()

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Commit and files of a branch's name or of a commit."""
        for name, files in self.revisions.items():
            if revision in (name, self.commit(name)):
                return self.commit(name), files
        return None


@dataclass
class Hub:
    """A running stand-in.

    Attributes:
        endpoint: its address.
        repositories: by "owner/name".
        requests: method, path and token of every request.
        ranges: the byte ranges that were asked for.
        break_off: name of a file whose bytes stop in the middle.
        claimed_sizes: sizes that it says files have, by name, other than they are.
        pauses: seconds that it waits before each MiB of a file, by name.
        is_down: whether it hangs up on everyone.
    """

    endpoint: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    break_off: str | None = None
    claimed_sizes: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    is_down: bool = False

    def downloads(self) -> list[str]:
        """Names of the files that were asked for."""
        return [path.rpartition("/")[2] for method, path, _ in self.requests if method == "GET" and "/resolve/" in path]

    def start(self) -> ThreadingHTTPServer:
        handler = type("Handler", (_Handler,), {"hub": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("authorization")
        self.hub.requests.append((self.command, path, token))
        if self.hub.is_down:
            self.close_connection = True
            return
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/(revision|tree)/([^/]+))?", path)
        if found:
            repo_id, what, revision = found[1], found[2], found[3] or "main"
        else:
            found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            repo_id, what, revision = found[1], "file", found[2]
        repository = self.hub.repositories.get(repo_id)
        if repository is None or (repository.token and token != f"Bearer {repository.token}"):
            self._error(401, "RepoNotFound")
        elif (version := repository.files(revision)) is None:
            self._error(404, "RevisionNotFound")
        elif what == "file":
            self._file(*version, found[3])
        elif what == "tree":
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in version[1].items()
            ]
            self._send(json.dumps(rows).encode(), {"Content-Type": "application/json"})
        else:
            commit, files = version
            info = {"id": repo_id, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            self._send(json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _file(self, commit: str, files: dict[str, bytes], name: str) -> None:
        if name not in files:
            self._error(404, "EntryNotFound")
            return
        data = files[name]
        # As the hub does: files of weights are named by their SHA-256.
        etag = (hashlib.sha256 if name.endswith(".safetensors") else hashlib.sha1)(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        if name in self.hub.claimed_sizes:
            headers["X-Linked-Size"] = str(self.hub.claimed_sizes[name])
        start, end = 0, len(data) // 2 if name == self.hub.break_off else len(data)
        if asked := self.headers.get("range"):
            self.hub.ranges.append(asked)
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(data[start:], headers, max(end - start, 0), self.hub.pauses.get(name, 0))

    def _error(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, data: bytes, headers: dict[str, str], cut: int | None = None, pause: float = 0) -> None:
        self.send_response(206 if "Content-Range" in headers else 200)
        for name, value in (headers | {"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            data = data[:cut]
            for start in range(0, len(data), 2**20):
                time.sleep(pause)
                self.wfile.write(data[start : start + 2**20])
