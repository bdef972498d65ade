"""Every store has the same suite: modules that use the fixture `every_store` run on SQLite and on PostgreSQL."""

import pytest

import live_support as live


def pytest_generate_tests(metafunc):
    """What is about SQLite's own files says so in the set ONLY_SQLITE of its module."""
    if "every_store" in metafunc.fixturenames:
        alone = metafunc.function.__name__ in getattr(metafunc.module, "ONLY_SQLITE", ())
        kinds = live.STORES[:1] if alone else live.STORES
        metafunc.parametrize("every_store", kinds, indirect=True)


@pytest.fixture
def every_store(request, monkeypatch):
    if request.param == "postgres":
        from postgres import get_server

        get_server()
    monkeypatch.setattr(live, "STORE", request.param)
    yield request.param
    live.close_stores()
