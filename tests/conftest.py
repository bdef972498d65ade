"""Hypothesis tries the same examples every time; `make test-all` lets it look for new ones.

Each process runs whole files: what their tests share is computed once. What takes longest starts first, so that no
process is left alone with it in the end.
"""

import os
from collections import Counter
from functools import wraps

import duckdb
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
        help="of tests with several sets of parameters run the first set only, and none that starts a browser, servers "
        "or Spark (make quick)",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("--one-of-each"):
        keep_one_of_each(config, items)
    if hasattr(config, "workerinput"):
        start_with_the_longest(items)


def keep_one_of_each(config, items):
    first = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    kept = {id(item) for item in first.values() if find_scope(item) not in STARTED}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def start_with_the_longest(items):
    sizes = Counter(map(find_scope, items))
    ranks = {scope: rank for rank, scope in enumerate(LONGEST)}
    order = {
        scope: place
        for place, scope in enumerate(
            sorted(sizes, key=lambda scope: (ranks.get(scope, len(ranks)), -sizes[scope]))
        )
    }
    items.sort(key=lambda item: order[find_scope(item)])


@pytest.fixture(scope="session", autouse=True)
def few_databases():
    """Keep a database for each set of settings: to open one for every query takes minutes of all tests."""
    kept = {}
    open_database = duckdb.connect

    @wraps(open_database)
    def connect(*where, **more):
        if where != (":memory:",) or more.keys() != {"config"}:
            return open_database(*where, **more)
        settings = {**more["config"], "enable_external_file_cache": "false"}
        key = os.getpid(), *sorted(settings.items())
        if key not in kept:
            kept[key] = open_database(":memory:", config=settings)
        return kept[key].cursor()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(duckdb, "connect", connect)
        yield


STARTED = ("browser", "servers", "spark")
"""Groups of tests that start what takes its time."""

LONGEST = (
    *STARTED,
    "tests/docs/test_examples.py",
    "tests/docs/test_claims.py",
    "tests/contract/test_contract.py",
    "tests/contract/test_production_width.py",
    "tests/contract/test_dealing.py",
    "tests/contract/test_plan_and_run.py",
    "tests/live/wire/test_readers.py",
    "tests/live/wire/test_vectors.py",
    "tests/live/serve/test_played.py",
    "tests/cli/test_amplify.py",
    "tests/cli/test_run.py",
    "tests/cli/test_inference_commands.py",
    "tests/cli/test_bad_input.py",
)
"""Groups and files that take ten seconds or more, the longest first; of the others the number of tests tells."""


def find_scope(item):
    """What one process runs: a group, or else a file."""
    group = item.get_closest_marker("xdist_group")
    return group.args[0] if group else item.nodeid.partition("::")[0]


class Collection(list):
    """Ids of tests that are looked up all the time."""

    def __init__(self, ids):
        super().__init__(ids)
        self.places = {nodeid: place for place, nodeid in enumerate(ids)}

    def index(self, nodeid):
        return self.places[nodeid]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadGroupScheduling

    class ByGroupOrFile(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if scope == nodeid else scope

        def add_node_collection(self, node, collection):
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = Collection(collection)

    config.option.loadscopereorder = False  # the workers have put them in order
    return ByGroupOrFile(config, log)
