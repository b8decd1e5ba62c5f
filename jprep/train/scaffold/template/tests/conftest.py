"""Settings of the tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("jprep.testing.backend_suite")
