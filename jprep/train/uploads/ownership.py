"""Let one machine at a time write to a mirror: an object names its owner, who renews it while it trains."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import msgspec

from jprep.errors import MachineError
from jprep.io.atomic import write_atomic
from jprep.io.remote.objects import delete_object, join_url, read_bytes, write_bytes
from jprep.train.run.log import Say
from jprep.typed_json import decode_json

OWNER = "OWNER.json"

RENEW_SECONDS = 10.0
"""Seconds between two renewals."""

_MISSED = 2.5  # renewals that an owner may miss before it counts as dead
_SETTLE_SECONDS = 1.0  # after which two machines that claim at once see who was the last


class Owner(msgspec.Struct, frozen=True):
    """`OWNER.json`.

    Attributes:
        token: drawn by the owner.
        host: the name of its machine, for messages.
        renewals: counts up while the owner lives.
        seconds: the time between two renewals.
    """

    token: str
    host: str
    renewals: int = 0
    seconds: float = RENEW_SECONDS


class Ownership:
    """The right to write to a mirror, renewed in a thread until it is released or lost.

    Args:
        url: the mirror.
        token: a local file that remembers the token, by which a later process of this run recognizes its own claim.
        say: called with a message for the user.

    Raises:
        ConfigError: there is no such bucket, or nothing can be written to this kind of URL.
        MachineError: another machine owns the mirror; or no credentials or rights.
    """

    def __init__(self, url: str, token: Path, say: Say) -> None:
        self._url, self._file, self._say = join_url(url, OWNER), token, say
        self._owner = Owner(os.urandom(16).hex(), socket.gethostname(), seconds=RENEW_SECONDS)
        self.lost = False
        self._ended = threading.Event()
        self._claim()
        self._thread = threading.Thread(target=self._renew_until_ended, name="jprep-mirror-owner", daemon=True)
        self._thread.start()

    def remember(self) -> None:
        """Write the token to the local file."""
        write_atomic(self._file, self._owner.token.encode())

    def check(self) -> None:
        """Check that this process still owns the mirror.

        Raises:
            MachineError: another machine has taken it over.
        """
        found = self._read()
        self.lost = self.lost or bool(found and found.token != self._owner.token)
        if self.lost:
            raise self._refusal(found or self._owner)

    def release(self) -> None:
        """Stop renewing, and delete the object if it is still this process's own."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(Exception):  # whatever it is: the next owner waits for a moment
            found = self._read()
            if found and found.token == self._owner.token:
                delete_object(self._url)

    def _claim(self) -> None:
        if found := self._read():
            self._await_death(found)
        self._write()
        time.sleep(_SETTLE_SECONDS)
        now = self._read()
        if now and now.token != self._owner.token:
            raise self._refusal(now)

    def _await_death(self, found: Owner) -> None:
        """Wait until it is certain that a former owner is dead, unless it was an earlier process of this run.

        Raises:
            MachineError: it is alive.
        """
        if self._file.is_file() and self._file.read_text() == found.token:
            return
        seconds = _MISSED * min(60.0, max(0.1, found.seconds))
        self._say(
            f"another machine ({found.host}) has trained this run; waiting {seconds:.0f} s to see if it still does"
        )
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(1.0, seconds / 10))
            now = self._read()
            if now is None:
                return
            if now != found:
                raise self._refusal(now)

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(RENEW_SECONDS) and not self.lost:
            with contextlib.suppress(Exception):  # whatever a store's library raises: the next renewal may succeed
                self.check()
                self._owner = msgspec.structs.replace(self._owner, renewals=self._owner.renewals + 1)
                self._write()

    def _read(self) -> Owner | None:
        try:
            return decode_json(read_bytes(self._url) or b"", Owner)
        except ValueError:  # none, or a damaged one
            return None

    def _write(self) -> None:
        write_bytes(msgspec.json.encode(self._owner), self._url)

    def _refusal(self, other: Owner) -> MachineError:
        fix = "stop the other one; or give this run another train.checkpoint.mirror"
        return MachineError(f"another machine ({other.host}) trains the run of this mirror", where=self._url, fix=fix)
