"""Hypothesis tries the same examples every time; `make test-all` lets it look for new ones.

Each process runs whole files: what their tests share is computed once.
"""

import os

import pytest
from hypothesis import settings

collect_ignore = ["plugin"]  # a package of its own: test_plugin.py installs it
pytest.register_assert_rewrite("shuffledp.testing")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("SHUFFLEDP_HYPOTHESIS", "repeatable"))


def pytest_addoption(parser):
    parser.addoption(
        "--one-of-each",
        action="store_true",
        help="of tests with several sets of parameters run the first set only (make quick)",
    )


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--one-of-each"):
        return
    first = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    kept = {id(item) for item in first.values()}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadGroupScheduling

    class ByGroupOrFile(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if scope == nodeid else scope

    return ByGroupOrFile(config, log)
