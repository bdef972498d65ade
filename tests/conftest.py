"""Hypothesis tries the same examples every time; `make test-all` lets it look for new ones."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("SHUFFLEDP_HYPOTHESIS", "repeatable"))
