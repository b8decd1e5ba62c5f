"""The suite that every backend passes: what it owes, shown on real runs. `docs/backend-suite.md` is its page."""

from jprep.testing.backend_suite.suite import BackendSuite

__all__ = ["BackendSuite"]
