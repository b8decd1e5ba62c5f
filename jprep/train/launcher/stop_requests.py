"""Count the signals that stop a run."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from jprep.train.launcher.signals import TIME_LIMIT, stop_signals


class StopRequests:
    """Counts stop signals during a block.

    Attributes:
        count: how many there were.
        time_limit: whether the first one was a scheduler's, because the time limit is near.
    """

    def __init__(self) -> None:
        self.count = 0
        self.time_limit = False

    def __enter__(self) -> StopRequests:
        def note(number: int, frame: FrameType | None) -> None:
            self.count += 1
            if self.count == 1:
                self.time_limit = number == TIME_LIMIT

        main = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.signal(number, note) for number in stop_signals()} if main else {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
