"""fairseq's own programs, patched: `python -m jprep_fairseq_xla.native_cli train DATA-BIN --task masked_lm …`.

They train on the output of `jprep dataset export --format fairseq`. fairseq's console scripts do not start on 3.11.
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
    """Run one of fairseq's programs, and return its exit code."""
    program, *given = arguments or [""]
    if program not in PROGRAMS:
        on_stderr(f"jprep: expected one of fairseq's programs: {', '.join(PROGRAMS)}")
        return 2
    try:
        import_fairseq("xla" if "--tpu" in given else "cpu")
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    reset_root_logger()
    # Its checkpoints are pickles of its own classes, which PyTorch from 2.6 on refuses to load by default.
    os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    sys.argv = [f"fairseq-{program}", *given]
    importlib.import_module(f"fairseq_cli.{program}").cli_main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
