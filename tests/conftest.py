"""Hypothesis tries the same examples every time; `make test-all` lets it look for new ones."""

import os

import pytest
from hypothesis import settings

collect_ignore = ["plugin"]  # a package of its own: test_plugin.py installs it
pytest.register_assert_rewrite("shuffledp.testing")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("SHUFFLEDP_HYPOTHESIS", "repeatable"))
