"""Deprecated: `python -m jprep_fairseq_xla.by_hand` is now `python -m jprep_fairseq_xla.native_cli`."""

from __future__ import annotations

import sys

from jprep.train.run.log import on_stderr
from jprep_fairseq_xla.native_cli import main

if __name__ == "__main__":
    on_stderr("jprep: `python -m jprep_fairseq_xla.by_hand` was renamed to `python -m jprep_fairseq_xla.native_cli`")
    sys.exit(main(sys.argv[1:]))
