"""fairseq's own programs, mended: `python -m jprep_fairseq_xla.native_cli train DATA-BIN --task masked_lm …`.

For those who run fairseq by hand, on what `jprep dataset export --as fairseq` has written: its console scripts do not
start on Python 3.11.
"""

from __future__ import annotations

import importlib
import os
import sys

from jprep.errors import JprepError
from jprep.train.run.log import on_stderr
from jprep_fairseq_xla.worker.patches import import_fairseq, reset_root_logger

PROGRAMS = ("train", "preprocess", "validate", "eval_lm", "generate", "interactive")


def main(arguments: list[str]) -> int:
    """Run one of fairseq's programs; its exit code."""
    program, *given = arguments or [""]
    if program not in PROGRAMS:
        on_stderr(f"jprep: name one of fairseq's programs: {', '.join(PROGRAMS)}")
        return 2
    try:
        import_fairseq("xla" if "--tpu" in given else "cpu")
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    reset_root_logger()
    # Its checkpoints are pickles of its own classes, which PyTorch from 2.6 on does not load unless it is told to.
    os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    sys.argv = [f"fairseq-{program}", *given]
    importlib.import_module(f"fairseq_cli.{program}").cli_main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
