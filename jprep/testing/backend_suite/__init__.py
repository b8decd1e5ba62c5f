"""The conformance suite of backends: it tests their contract on real runs. `docs/backend-suite.md` describes it."""

from jprep.testing.backend_suite.suite import BackendSuite

__all__ = ["BackendSuite"]
