"""Deprecated: `python -m jprep.train.rewind` is now `python -m jprep.train.run.rewind`."""

from __future__ import annotations

import sys

from jprep.train.run.log import on_stderr
from jprep.train.run.rewind import main

if __name__ == "__main__":
    on_stderr("jprep: `python -m jprep.train.rewind` was renamed to `python -m jprep.train.run.rewind`")
    sys.exit(main())
