"""Connect to a Ray cluster, or start one on this machine."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from jprep.errors import MachineError

_log = logging.getLogger(__name__)

_OBJECT_STORE = 256 << 20  # bytes for a local cluster: what goes through it are task runners and shards of pipes
_CONNECTING = 10.0  # seconds
_LOCAL = "local"  # Ray's word for a new cluster on this machine
_PRINTER = "print_to_stdstream"  # function of Ray that prints messages of nodes to standard output


class Connection:
    """A connection to a Ray cluster. One that the process has already is used, and not closed.

    Args:
        ray: the module.
        address: address of the cluster, or "" for the one that `RAY_ADDRESS` names, else a new one on this machine.
        cpus: cores of a new cluster.

    Raises:
        MachineError: the cluster cannot be reached or started.
    """

    def __init__(self, ray: Any, address: str, cpus: float) -> None:
        self._ray, self._opened = ray, not ray.is_initialized()
        self._printer: Any = None
        self._forwarder = _Forwarder()
        self._handlers: list[logging.Handler] = []
        if self._opened:
            self._divert_messages()
            self._open(address or os.environ.get("RAY_ADDRESS") or _LOCAL, math.ceil(cpus))

    def close(self) -> None:
        """Leave the cluster, and end it if this connection started it."""
        if self._opened:
            with _kept_signal_handlers():
                self._ray.shutdown()
            self._restore_messages()

    def _restore_messages(self) -> None:
        if self._printer:
            setattr(self._ray._private.worker, _PRINTER, self._printer)
        logging.getLogger("ray").handlers = self._handlers

    def _open(self, address: str, cpus: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        new = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            _refuse_unreachable(address)
            with _kept_signal_handlers():
                self._ray.init(
                    address=address,
                    log_to_driver=False,
                    configure_logging=False,
                    **(new if address == _LOCAL else {}),
                )
        except Exception as error:
            self._restore_messages()
            # Ray raises errors of all kinds: of connections, versions, values.
            what = f"no connection to Ray: {' '.join(str(error).split())}"
            fix = "start a cluster with `ray start --head`, or name its address in the option `address`"
            raise MachineError(what, where=f"address {address!r}", fix=fix) from error

    def _divert_messages(self) -> None:
        """Log what Ray logs, and what nodes report: it prints that to standard output in spite of `log_to_driver`."""
        logger = logging.getLogger("ray")
        self._handlers, logger.handlers = logger.handlers, [self._forwarder]
        worker = getattr(getattr(self._ray, "_private", None), "worker", None)
        if worker and (printer := getattr(worker, _PRINTER, None)):
            self._printer = printer
            setattr(worker, _PRINTER, _log_message)


def _refuse_unreachable(address: str) -> None:
    """Raise OSError if nothing listens at an address `HOST:PORT`: Ray would try for five minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECTING).close()


class _Forwarder(logging.Handler):
    """Logs the messages of Ray's own loggers, whose own handlers print them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a message."""
        _log.info("Ray: %s", record.getMessage())


def _log_message(data: dict[str, Any], *_: object, **__: object) -> None:
    for line in data.get("lines", []):
        _log.info("Ray: %s", str(line).partition("\n")[0])


@contextlib.contextmanager
def _kept_signal_handlers() -> Iterator[None]:
    """Restore handlers that Ray replaces: the command's own make SIGTERM a request to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
