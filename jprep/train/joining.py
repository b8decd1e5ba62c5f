"""Deprecated: `python -m jprep.train.joining` is now `python -m jprep.train.launcher.multihost`."""

from __future__ import annotations

import sys

from jprep.train.launcher.multihost import main
from jprep.train.run.log import on_stderr

if __name__ == "__main__":
    on_stderr("jprep: `python -m jprep.train.joining` was renamed to `python -m jprep.train.launcher.multihost`")
    sys.exit(main())
