"""Several shufflers on one PostgreSQL database; what is the same as in SQLite is in test_roles.py and its neighbours."""

import threading
import time

import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import (
    COLLECTION,
    POOL,
    fill,
    hand_over,
    open_analyzer,
    open_shuffler,
    refused,
    upload,
)
from postgres import get_server
from shuffledp.live import postgres
from shuffledp.live.postgres import PostgresStore
from shuffledp.live.serve import Home
from shuffledp.live.serve.shuffler import AwayStore, _open
from shuffledp.live.shuffler import open_reports
from shuffledp.live.store import AwayError, DamageError, SqliteStore, State
from shuffledp.live.wire.report import Opened, split_upload

WINDOW = 0
NOW = 1001.0


@pytest.fixture(autouse=True)
def on_postgres(monkeypatch):
    get_server()
    monkeypatch.setattr(live, "STORE", "postgres")
    yield
    live.close_stores()


def make_store(folder, collection=COLLECTION):
    return live.make_store(folder, collection)


def two_shufflers(tmp_path):
    """Two hosts: one database, a folder each."""
    one, two = open_shuffler(tmp_path / "s"), open_shuffler(tmp_path / "other")
    two.store.close()
    two.store = make_store(tmp_path / "s")
    return one, two


def opened(number, token=b""):
    return Opened(number.to_bytes(16, "big"), WINDOW, token, bytes(COLLECTION.inner_size * 2))


def list_tables(store):
    query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
    return {row[0] for row in store._db.execute(query)}


def test_uploads_in_opposite_order_do_not_wait_in_a_circle(tmp_path):
    """Each upload has the reports of the other, the other way round; unordered inserts deadlock within a few."""
    stores = [make_store(tmp_path), make_store(tmp_path)]
    failed = []

    def work(store, step):
        try:
            for turn in range(30):
                group = [opened(turn * 100 + place) for place in range(100)][::step]
                assert store.admit(group, NOW) == [None] * 100
        except BaseException as error:  # shown below
            failed.append(error)

    threads = [
        threading.Thread(target=work, args=each) for each in zip(stores, (1, -1), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert stores[0].count(0) == 3000


def test_a_seal_waits_for_uploads_on_their_way_and_counts_them(tmp_path):
    one, two = make_store(tmp_path), make_store(tmp_path)
    one.admit([opened(number) for number in range(25)], NOW)
    held = one._db.transaction()
    held.__enter__()
    one._hold_windows({0})
    one._insert([opened(99)], [0])
    sealed = []
    thread = threading.Thread(target=lambda: sealed.append(two.seal(0)))
    thread.start()
    time.sleep(0.2)
    assert sealed == []
    held.__exit__(None, None, None)
    thread.join(20)
    assert (sealed[0].state, sealed[0].reports) == (State.SEALED, 26)
    assert one.admit([opened(100)], NOW) == ["too_late"]
    assert one.admit([opened(99)], NOW) == [None]  # it was acknowledged


def test_closing_waits_for_uploads_and_is_seen_by_everybody(tmp_path):
    one, two = make_store(tmp_path), make_store(tmp_path)
    held = one._db.transaction()
    held.__enter__()
    one._db.execute("SELECT 1 FROM collection FOR KEY SHARE")  # as an upload does
    thread = threading.Thread(target=two.close_after, args=(0,))
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive()
    held.__exit__(None, None, None)
    thread.join(20)
    assert one.closed() == 0
    late = opened(5)._replace(window=1)
    assert one.admit([late], 1150.0) == ["closed"]


def test_an_upload_does_hold_the_collection_and_the_window(tmp_path):
    """What the two tests above rely on."""
    store, other = make_store(tmp_path), make_store(tmp_path)
    store.admit([opened(1)], NOW)
    keep = store._keep
    seen = []

    def look(group, judged):
        other._db.execute("SET lock_timeout = '100ms'")
        for query in ("SELECT 1 FROM collection FOR UPDATE", "SELECT 1 FROM windows FOR UPDATE"):
            with pytest.raises(Exception, match="lock timeout"):
                other._db.execute(query)
            seen.append(query)
        keep(group, judged)

    store._keep = look
    assert store.admit([opened(2)], NOW) == [None]
    assert len(seen) == 2


def test_one_process_seals_and_any_hands_out(tmp_path):
    one, two = two_shufflers(tmp_path)
    fill(one, 15)
    for inners in POOL[15:25]:
        assert two.receive(upload(inners), NOW).failed == ()
    one.tick(1110.0)
    assert one.store.row(0).state is State.WRITTEN
    assert list_tables(one.store) >= {"batch_0"}
    assert "reports_0" not in list_tables(one.store)
    manifest, signature = two.manifest(0, 1200.0)
    analyzer = open_analyzer(tmp_path / "a")
    analyzer.take(manifest.raw, signature, lambda _: two.batch(0).read_bytes())
    assert analyzer.advance(0) == "published"
    assert analyzer.results()[0]["reports"] == 25
    two.take_receipt(0, analyzer.receipt(0), 1200.0)
    assert not two.batch_path(0).exists()
    one.tick(1201.0)  # the other host notices
    assert not one.batch_path(0).exists()
    assert {table for table in list_tables(one.store) if table[-1].isdigit()} == set()


def test_a_batch_of_an_earlier_try_on_this_host_is_not_handed_out(tmp_path):
    one, two = two_shufflers(tmp_path)
    fill(one)
    two.batch_path(0).write_bytes(b"another draw")
    one.tick(1110.0)
    assert two.batch(0).read_bytes() == one.batch_path(0).read_bytes()


def test_a_draft_that_a_crash_left_goes_with_its_window(tmp_path):
    one, two = two_shufflers(tmp_path)
    fill(one)
    draft = tmp_path / "other" / "batch-0.bin.draft"
    draft.write_bytes(b"half of a batch")
    one.tick(1110.0)
    analyzer = open_analyzer(tmp_path / "a")
    assert hand_over(one, analyzer) == "published"
    two.tick(1201.0)
    assert not draft.exists()


def test_a_window_that_another_process_seals_is_left_to_it(tmp_path):
    one, two = two_shufflers(tmp_path)
    fill(one)
    with one.store.claim(0) as mine:
        assert mine
        two.tick(1110.0)
        assert two.store.row(0).state is State.OPEN
    two.tick(1110.0)
    assert two.store.row(0).state is State.WRITTEN


def test_a_claim_ends_with_its_connection(tmp_path):
    one, two = make_store(tmp_path), make_store(tmp_path)
    with one.claim(0) as mine:
        assert mine
        with two.claim(0) as other:
            assert not other
        one.close()
        time.sleep(0.1)
        with two.claim(0) as other:
            assert other


def test_a_connection_that_is_lost_is_made_again(tmp_path):
    store, other = make_store(tmp_path), make_store(tmp_path)
    store.admit([opened(1)], NOW)
    other._db.execute("SELECT pg_terminate_backend(%s)", (store._db.info.backend_pid,))
    with pytest.raises(AwayError, match="the database does not work now"):
        store.count(0)
    assert store.count(0) == 1


def test_a_server_that_is_away_or_read_only_says_so_and_the_shuffler_goes_on(tmp_path):
    with pytest.raises(AwayError, match="does not work now"):
        PostgresStore("host=/nowhere dbname=x", COLLECTION)
    store = make_store(tmp_path)
    store._db.execute("SET default_transaction_read_only = on")
    with pytest.raises(AwayError, match="read-only"):
        store.admit([opened(1)], NOW)
    where = get_server().make_schema(tmp_path) + " connect_timeout=3"
    with pytest.raises(AwayError, match="read-only: is it a standby"):
        PostgresStore(
            where.replace("options='", "options='-c default_transaction_read_only=on "), COLLECTION
        )
    home = make_home(tmp_path, "host=/nowhere dbname=x")
    lines = []

    class Journal:
        def note(self, event, **facts):
            lines.append((event, facts["kind"]))

    shuffler = _open(home, Journal())
    assert isinstance(shuffler.store, AwayStore)
    assert lines == [("failing", "store")]


def test_a_host_that_stops_in_mid_upload_does_not_keep_others_from_sealing(tmp_path, monkeypatch):
    """It holds the window and says nothing more: the server ends its transaction."""
    assert postgres._SESSION["idle_in_transaction_session_timeout"] == "60s"
    monkeypatch.setitem(postgres._SESSION, "idle_in_transaction_session_timeout", "300ms")
    one, two = make_store(tmp_path), make_store(tmp_path)
    one.admit([opened(number) for number in range(25)], NOW)
    one._db.execute("BEGIN")
    one._hold_windows({0})
    one._insert([opened(99)], [0])
    assert two.seal(0).reports == 25
    with pytest.raises(AwayError, match="idle-in-transaction timeout"):
        one.row(0)
    assert one.row(0).state is State.SEALED


def test_how_long_to_wait_can_be_said_in_the_connection_string(tmp_path):
    where = get_server().make_schema(tmp_path)
    store = PostgresStore(where, COLLECTION, durable=False)
    assert store._db.info.get_parameters()["tcp_user_timeout"] == "30000"
    other = PostgresStore(where + " tcp_user_timeout=5000", COLLECTION, durable=False)
    assert other._db.info.get_parameters()["tcp_user_timeout"] == "5000"
    store.close()
    other.close()


def test_a_database_whose_disk_is_full_takes_nothing_and_goes_on_later(tmp_path):
    store = make_store(tmp_path)
    store.admit([opened(1)], NOW)
    store._db.execute(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$"
    )
    for table in ("reports_0", "beats"):
        store._db.execute(
            f"CREATE TRIGGER fill BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION fill()"
        )
    for call in (lambda: store.admit([opened(2), opened(3)], NOW), lambda: store.beat(NOW)):
        with pytest.raises(AwayError, match="does not work now: No space left on device"):
            call()
    assert store.count(0) == 1
    store._db.execute("DROP FUNCTION fill CASCADE")
    assert store.admit([opened(2), opened(3)], NOW) == [None, None]
    assert store.count(0) == 3


def test_a_database_that_has_no_connection_left_says_so(tmp_path):
    where = get_server().make_schema(tmp_path)
    get_server().execute("DROP ROLE IF EXISTS late", "CREATE ROLE late LOGIN CONNECTION LIMIT 0")
    with pytest.raises(AwayError, match='too many connections for role "late"'):
        PostgresStore(where.replace("user=shuffledp", "user=late"), COLLECTION, durable=False)


def test_tables_that_are_gone_are_told(tmp_path):
    """Somebody emptied the database, or another one answers at its address."""
    store = make_store(tmp_path)
    store.admit([opened(1)], NOW)
    store._db.execute("DROP TABLE collection CASCADE")
    with pytest.raises(AwayError, match='relation "collection" does not exist'):
        store.admit([opened(2)], NOW)


def test_servers_that_cannot_be_trusted_are_refused(tmp_path, monkeypatch):
    where = get_server().make_schema(tmp_path)
    with pytest.raises(sdp.UnsupportedError, match="fsync and full_page_writes = off"):
        PostgresStore(where, COLLECTION)
    monkeypatch.setattr(postgres, "OLDEST", 99)
    with pytest.raises(sdp.UnsupportedError, match=r"is PostgreSQL \d+, and must be 99 or later"):
        PostgresStore(where, COLLECTION, durable=False)


def test_databases_of_others_and_of_later_versions_are_refused(tmp_path):
    store = make_store(tmp_path)
    with pytest.raises(sdp.MismatchError, match="belongs to another collection"):
        make_store(tmp_path, live.make_collection(title="Another"))
    store._db.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(sdp.DataError, match="version 99 of its schema"):
        make_store(tmp_path)
    assert store._ask("SELECT version FROM schema_version") == 99


def test_two_processes_may_begin_at_once(tmp_path):
    get_server().make_schema(tmp_path)
    found, failed = [], []

    def begin():
        try:
            found.append(make_store(tmp_path))
            found[-1].admit([opened(1)], NOW)
        except BaseException as error:  # shown below
            failed.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found[0].count(0) == 1


def test_reports_that_have_changed_are_damage(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.store._db.execute(
        "UPDATE reports_0 SET inners = set_byte(inners, 0, get_byte(inners, 0) # 1)"
    )
    with pytest.raises(DamageError, match=r"25 of 25 reports of window 0 have changed"):
        shuffler.tick(1110.0)
    assert shuffler.store.row(0).state is State.OPEN


def test_copies_with_different_tokens_are_judged_one_after_the_other_as_in_sqlite(tmp_path):
    collection = live.make_collection(tokens=True)
    (tmp_path / "s").mkdir()
    tokens, hashes = sdp.live.make_tokens(3)
    cases = [
        [opened(1, b"?" * 32), opened(1, tokens[0])],
        [opened(1, b"?" * 32), opened(2, tokens[0]), opened(3, tokens[1]), opened(4, tokens[1])],
        [opened(5, tokens[2]), opened(6, tokens[2]), opened(5, b"!" * 32)],
    ]
    stores = [
        make_store(tmp_path / "p", collection),
        SqliteStore(tmp_path / "s" / "store.sqlite", collection, durable=False),
    ]
    answers = []
    for store in stores:
        store.issue_tokens(hashes)
        answers.append([store.admit(group, NOW) for group in cases])
        answers[-1] += [store.count(0), store.count_tokens([*hashes, bytes(32)])]
    assert answers[0] == answers[1]
    assert answers[0][:2] == [["unknown_token", None], [None, "token_spent", None, "token_spent"]]


def make_home(tmp_path, where, collection=COLLECTION):
    secrets = sdp.live.ShufflerSecrets(
        outer=live.outer_secrets(collection), sign=live.secret("shuffler")
    )
    home = Home(tmp_path / "survey")
    home.create(collection, secrets, None)
    (home.shuffler / "store.toml").write_text(f'postgresql = "{where}"\n')
    (home.shuffler / "store.toml").chmod(0o600)
    return home


def test_the_folder_names_the_database(tmp_path):
    home = make_home(tmp_path, "host=/nowhere dbname=x")
    assert home.database == "host=/nowhere dbname=x"
    assert Home(home.path, "b").socket == home.shuffler / "b" / "admin.sock"
    place = home.shuffler / "store.toml"
    for text in ('postgresql = "x"\nmore = 1\n', "postgresql = 5\n", "postgresql = \n", ""):
        place.write_text(text)
        with pytest.raises(sdp.DataError, match=r"store\.toml"):
            assert home.database
    place.chmod(0o644)
    with pytest.raises(sdp.DataError, match="may be read by others"):
        assert home.database
    place.unlink()
    with pytest.raises(sdp.DataError, match="several shufflers need a PostgreSQL database"):
        Home(home.path, "b").open_store()
    for name in ("../x", "B", "a" * 21):
        with pytest.raises(sdp.DataError, match="lower-case letters and digits"):
            Home(home.path, name)


def test_a_report_is_opened_and_kept_as_it_is(tmp_path):
    """Bytes go into the database and come back the same, in the order of their ids."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler, 5)
    body = split_upload(COLLECTION, upload(POOL[0]))
    (known,) = open_reports(COLLECTION, body, live.outer_secrets(COLLECTION))
    assert known.inners in set(shuffler.store.load(0))
    assert refused(shuffler.manifest, 0, 1050.0) == "not_ready"
    assert list(shuffler.store.load(1)) == []


def test_batches_of_version_2_are_brought_up_to_date(tmp_path):
    """One is written, and goes on as it is; one was kept and not written, and is made again."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    batch = shuffler.batch(0).read_bytes()
    for inners in POOL:
        assert shuffler.receive(upload(inners, 1), 1150.0).failed == ()
    shuffler.store.seal(1)
    for statement in (
        "ALTER TABLE batch_0 DROP COLUMN draft",  # and with it the key
        "ALTER TABLE batch_0 ADD PRIMARY KEY (place)",
        "CREATE TABLE batch_1 (place integer PRIMARY KEY, content bytea NOT NULL)",
        "INSERT INTO batch_1 VALUES (0, 'half of it')",
        "UPDATE schema_version SET version = 2",
    ):
        shuffler.store._db.execute(statement)
    shuffler.store.close()
    again = open_shuffler(tmp_path / "s")
    again.batch_path(0).unlink()
    assert again.batch(0).read_bytes() == batch
    again.tick(1300.0)
    assert again.store.row(1).state is State.WRITTEN
    assert len(again.batch(1).read_bytes()) == len(POOL) * 2 * COLLECTION.inner_size
