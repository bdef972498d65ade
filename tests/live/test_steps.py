"""What a role does, in its order, and on which databases: after each step it may be killed."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from live.test_roles import fill, hand_over, open_analyzer, open_shuffler
from shuffledp.core.errors import UnsupportedError
from shuffledp.live.postgres import OLDEST, AwayError, _check_server
from shuffledp.live.store import State


@pytest.mark.usefixtures("every_store")
def test_the_steps_of_a_window_from_its_seal_to_its_result(tmp_path):
    sealed, counted = [], []
    shuffler = open_shuffler(tmp_path / "s", step=sealed.append)
    fill(shuffler)
    sealed.clear()
    shuffler.tick(1110.0)
    analyzer = open_analyzer(tmp_path / "a", step=counted.append)
    assert hand_over(shuffler, analyzer) == "published"
    assert counted == ["stored file", "stored", "opened", "charged", "result written", "published"]
    assert sealed == ["sealed", "renamed", "kept", "written", "deleted", "unlinked"]
    assert shuffler.store.row(0).state is State.DELETED
    counted.clear()
    assert analyzer.advance(0) == "published"
    assert counted == []


@pytest.mark.parametrize(
    ("server", "durable", "error", "said"),
    [
        ({}, True, None, ""),
        ({"version": OLDEST * 10_000}, True, None, ""),
        ({"version": OLDEST * 10_000 - 1}, True, UnsupportedError, f"must be {OLDEST} or later"),
        ({"fsync": "off"}, True, UnsupportedError, "the database has fsync = off: what is"),
        ({"full_page_writes": "off"}, True, UnsupportedError, "has full_page_writes = off"),
        ({"fsync": "off", "full_page_writes": "off"}, True, UnsupportedError, "fsync and full_page_writes = off"),
        ({"fsync": "off", "full_page_writes": "off"}, False, None, ""),
        ({"transaction_read_only": "on"}, False, AwayError, "read-only: is it a standby"),
    ],
)  # fmt: skip
def test_a_database_must_keep_what_it_acknowledges(server, durable, error, said):
    usual = {"fsync": "on", "full_page_writes": "on", "transaction_read_only": "off"}
    version = server.get("version", 160_000)

    def execute(query):
        name = query.removeprefix("SHOW ")
        return SimpleNamespace(fetchone=lambda: ({**usual, **server}[name],))

    db = SimpleNamespace(info=SimpleNamespace(server_version=version), execute=execute)
    with pytest.raises(error, match=said) if error else nullcontext():
        _check_server(db, durable=durable)
