"""`python -m jprep.samples DIR` writes the sample dump, the sample crawl and their recipe into DIR."""

from __future__ import annotations

import sys
from pathlib import Path

from jprep import samples

if len(sys.argv) != 2:
    sys.exit(__doc__)
sys.stdout.write(f"{samples.write_sample(Path(sys.argv[1]))}\n")
