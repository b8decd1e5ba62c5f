"""The command line: each command parses its options, calls the library and prints."""

import sys

from jprep.train.hosts.requeue import can_requeue
from jprep.train.launcher.time_limit import end_at_time_limit

if sys.argv[1:2] == ["train"] or (sys.argv[1:2] == ["run"] and can_requeue()):
    end_at_time_limit()  # before the commands are imported, which may take seconds on a network file system
