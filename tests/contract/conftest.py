"""Enumerations of dealt tallies: the first example of each protocol always, the others by `make test-all`."""

import re

import pytest

ENUMERATED = ("test_dealt_tally_has_the_law_of_the_messages", "test_halved_words_have_the_law")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name.startswith(ENUMERATED) and re.search(r"-[1-9]\d*\]$", item.name):
            item.add_marker(pytest.mark.slow)
