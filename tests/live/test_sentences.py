"""What live collections say when something is not as it must be: whole sentences, at the edge of each rule."""

import dataclasses
import re
import sqlite3

import pytest

import live_support as live
import shuffledp as sdp
from live.test_consent import SAID, make
from live.test_roles import COLLECTION, fill, hand_over, open_analyzer, open_shuffler
from shuffledp.core.errors import DataError, ParameterError, ShuffledpError, UnsupportedError
from shuffledp.live.design import Settings
from shuffledp.live.device import Device, Sending, Spent, read_reply
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.serve.folders import Home, Place
from shuffledp.live.store import (
    SqliteStore,
    check_private,
    hold,
    make_private,
    read_private,
    write_private,
)
from shuffledp.live.wire.document import Windows


def says(call, *arguments, error=ShuffledpError, **more):
    """The sentence of an error."""
    with pytest.raises(error) as told:
        call(*arguments, **more)
    return str(told.value)


def ask(question, epsilon=1.0, **collection):
    content = {"epsilon": epsilon, "delta": 1e-6, "questions": {"q": question}}
    return live.plan({**content, "collection": {"people": 500, **collection}})


COUNT = {"task": "count"}
NUMBER = {"lower": 0, "upper": 9}
GROUPS = {"by": "way", "groups": ["a", "b"]}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"task": "count", "error": 0.1}, "a live collection cannot aim at an error yet"),
        ({"task": "mean", "lower": "auto", "upper": "auto"}, "'auto' is for files: a live collection declares lower and upper"),
        ({"task": "count", "optional": True}, "optional is for files: on devices, write a last category for no answer, and asked = { skip = true }"),
        ({"task": "median", **NUMBER, **GROUPS}, "quantiles by group cannot be collected live"),
        ({"task": "histogram", "categories": ["a", "b"], "asked": {"answers": ["n", "y"]}}, "answers=['n', 'y'] must be the words for no and for yes"),
        ({"task": "count", "asked": {"answers": "ny"}}, "answers='ny' must be the words for no and for yes"),
        ({"task": "count", "asked": {"answers": ["n", "y", "m"]}}, "answers=['n', 'y', 'm'] must be the words for no and for yes"),
    ],
)  # fmt: skip
def test_questions_for_files_alone(question, said):
    assert said in says(ask, question)


@pytest.mark.parametrize(
    ("collection", "said"),
    [
        ({"local_epsilon": 8.1}, "local_epsilon=8.1 must be <= 8: above, nothing is hidden from a shuffler that conspires; if it is trusted, say trust_the_shuffler (--trust-the-shuffler)"),
        ({"local_epsilon": "none"}, "local_epsilon='none' must be a number: without, nothing is hidden from a shuffler that conspires; if it is trusted, say trust_the_shuffler (--trust-the-shuffler)"),
        ({"local_epsilon": "some"}, "local_epsilon='some' must be a number, or \"none\""),
        ({"noise": "both"}, "noise='both' must be \"devices\" or \"servers\""),
        ({"noise": "devices", "local_epsilon": "none"}, "must be a number: without"),
        ({"noise": "devices", "local_epsilon": "none", "trust_the_shuffler": True}, "local_epsilon='none' must be a number if noise = \"devices\""),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(collection, said):
    assert said in says(ask, COUNT, **collection)
    assert ask(COUNT, local_epsilon=8, noise="devices").pledge.local_epsilon <= 8


def test_two_noises_that_are_both_impossible_are_both_explained():
    words = {"task": "words", "alphabet": "letters", "max_length": 5}
    told = says(ask, words, people=20, error=UnsupportedError)
    first, second = told.split("; question 'q': words cannot have noise of the servers")
    assert first
    assert "nobody can list their bins" in second


def test_keys_for_the_windows():
    secrets = ShufflerSecrets.generate(3)
    assert says(secrets.public_keys, 2) == "3 keys for 2 windows: give each window at most one"
    keys = ShufflerSecrets.generate(2).public_keys(5)
    assert [(each.id, each.first, each.last) for each in keys] in (
        [(0, 0, 1), (1, 2, 4)],
        [(0, 0, 2), (1, 3, 4)],
    )
    assert [(each.first, each.last) for each in secrets.public_keys(3)] == [(0, 0), (1, 1), (2, 2)]


def test_keys_of_others_damaged_keys_and_none(tmp_path):
    mine, shuffler = tmp_path / "mine", tmp_path / "shuffler"
    AnalyzerSecrets(inner=live.secret("inner"), sign=live.secret("analyzer")).save(mine)
    ShufflerSecrets(outer=live.outer_secrets(COLLECTION), sign=live.secret("shuffler")).save(shuffler)  # fmt: skip
    assert AnalyzerSecrets.load(mine, COLLECTION).inner == live.secret("inner")
    loaded = ShufflerSecrets.load(shuffler, COLLECTION)
    assert (loaded.outer, loaded.sign) == (live.outer_secrets(COLLECTION), live.secret("shuffler"))
    secrets = AnalyzerSecrets.generate()
    said = f"{mine}/keys.json is there already: keys are never overwritten"
    assert says(secrets.save, mine) == said
    assert says(ShufflerSecrets.generate(1).save, shuffler) == f"{shuffler}/keys.json is there already: keys are never overwritten"  # fmt: skip
    for place, changed in {"inner": {"inner": "00" * 32}, "sign": {"sign": "11" * 32}}.items():
        folder = tmp_path / place
        given = {"inner": live.secret("inner").hex(), "sign": live.secret("analyzer").hex()}
        kept = {name: bytes.fromhex(each) for name, each in {**given, **changed}.items()}
        AnalyzerSecrets(**kept).save(folder)
        told = says(AnalyzerSecrets.load, folder, COLLECTION)
        assert told == f"the keys in {folder} are not the analyzer's of this collection"
    other = tmp_path / "other"
    ShufflerSecrets(outer=live.outer_secrets(COLLECTION), sign=live.secret("analyzer")).save(other)
    assert says(ShufflerSecrets.load, other, COLLECTION) == f"the keys in {other} are not the shuffler's of this collection"  # fmt: skip
    third = tmp_path / "third"
    ShufflerSecrets(outer={0: live.secret("outer 0"), 1: live.secret("outer 0")}, sign=live.secret("shuffler")).save(third)  # fmt: skip
    assert "are not the shuffler's" in says(ShufflerSecrets.load, third, COLLECTION)
    empty = make_private(tmp_path / "empty")
    assert says(AnalyzerSecrets.load, empty, COLLECTION) == f"there are no keys in {empty}"


@pytest.mark.parametrize(
    "content",
    ["[]", "", "{", "7", "{}", '{"sign": 7}', '{"inner": "00", "sign": "00", "outer": {"0": "00"}}',
     '{"inner": "x", "sign": "x", "outer": {"x": "x"}}', '{"inner": null, "sign": null, "outer": 7}'],
)  # fmt: skip
@pytest.mark.parametrize("kind", [AnalyzerSecrets, ShufflerSecrets])
def test_keys_that_are_damaged_are_said_to_be_and_not_shown(tmp_path, kind, content):
    folder = make_private(tmp_path / "keys")
    (folder / "keys.json").write_text(content)
    (folder / "keys.json").chmod(0o600)
    assert says(kind.load, folder, COLLECTION) == f"{folder}/keys.json is damaged"


def test_files_that_others_may_read_and_files_that_are_there(tmp_path):
    folder, file = make_private(tmp_path / "a" / "b"), tmp_path / "a" / "b" / "secret"
    assert folder.stat().st_mode & 0o777 == 0o700
    write_private(file, b"secret")
    assert (read_private(file), file.stat().st_mode & 0o777) == (b"secret", 0o600)
    assert says(write_private, file, b"x") == f"{file} is there already: secrets are never overwritten"  # fmt: skip
    assert file.read_bytes() == b"secret"
    away = tmp_path / "away" / "secret"
    assert says(write_private, away, b"x") == f"{away} cannot be written: No such file or directory"
    file.chmod(0o640)
    assert says(read_private, file) == f"{file} may be read by others (mode 640): chmod 600 {file}"
    folder.chmod(0o701)
    for call in (check_private, make_private):
        assert (
            says(call, folder) == f"{folder} may be read by others (mode 701): chmod 700 {folder}"
        )
    folder.chmod(0o700)
    with hold(folder, "shuffler"):
        assert (folder / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(DataError) as told, hold(folder, "analyzer"):
            pass
    assert str(told.value) == f"another analyzer is running in {folder}"
    with hold(folder, "analyzer"):
        pass


def test_folders_of_collections(tmp_path):
    for name in ("A", "a-b", "a" * 21, "ä"):
        assert says(Home, tmp_path, name) == f"instance={name!r} must be up to 20 lower-case letters and digits"  # fmt: skip
    home = Home(tmp_path / "s", "a1" * 10)
    assert (home.desk, home.socket) == (tmp_path / "s/shuffler" / ("a1" * 10), home.desk / "admin.sock")  # fmt: skip
    assert home.seals("analyzer") == tmp_path / "s.seals" / "analyzer"
    assert says(home.collection) == f"there is no collection in {tmp_path / 's'}: see shuffledp collection new"  # fmt: skip
    secrets = ShufflerSecrets(outer=live.outer_secrets(COLLECTION), sign=live.secret("shuffler"))
    plain = Home(tmp_path / "s")
    plain.create(COLLECTION, secrets, None)
    said = f"{tmp_path / 's'}/collection.json is there already: a collection never changes"
    assert says(plain.create, COLLECTION, secrets, None) == said
    assert not plain.analyzer.exists()
    store = tmp_path / "s" / "shuffler" / "store.toml"
    assert says(home.open_store) == (
        f"instance={'a1' * 10!r} must be empty: several shufflers need a PostgreSQL database, named in {store}"
    )
    assert plain.list_ended() == set()
    for text in ("x = 1", "postgresql = 7", 'postgresql = "a"\nmore = 1', 'postgresql = "a"\nseals = 1', ""):  # fmt: skip
        store.write_text(text)
        store.chmod(0o600)
        assert says(lambda: plain.database).startswith(f'{store} must have a line postgresql = "host=... dbname=..."')  # fmt: skip
    store.write_text("nonsense")
    assert says(lambda: plain.database).startswith(f"{store} cannot be read: ")
    store.write_text('postgresql = "host=a"')
    assert plain.database == "host=a"
    # The path of a socket has at most 103 bytes.
    short = "/shuffler/admin.sock"
    for size in (103, 104):
        long = Home(tmp_path / ("x" * (size - len(str(tmp_path)) - len(short) - 1)))
        assert len(str(long.socket)) == size
        if size == 103:
            long.check_length()
        else:
            assert says(long.check_length) == (
                f"the path {long.socket} is too long for a socket, which may have 103 bytes: choose a folder with a shorter path"
            )


def test_windows_that_ended_are_those_of_the_store_and_all_after_the_last(tmp_path):
    home = Home(tmp_path / "s")
    long = live.make_collection(windows=Windows(start=1000, seconds=100, count=4, grace=10))
    secrets = ShufflerSecrets(outer=live.outer_secrets(long), sign=live.secret("shuffler"))
    home.create(long, secrets, None)
    shuffler = home.open_shuffler()
    shuffler.tick(1110.0)
    assert home.list_ended() == {0}
    shuffler.close(1150.0)
    shuffler.store.close()
    assert home.list_ended() == {0, 1, 2, 3}


def test_places_of_roles():
    assert Place(host="::1").locate(80) == "http://[::1]:80"
    assert says(Place().check, live.make_collection(url="http://127.0.0.1")) == (
        "people find this survey at http://127.0.0.1: serve it with the --host and --tls that it was made with"
    )
    port = Place().find_port()
    Place().check(live.make_collection(url=f"http://127.0.0.1:{port}"))


def test_an_analyzer_shows_no_results_under_another_document(tmp_path):
    """Labels that were edited would give the same numbers another meaning."""
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(1110.0)
    hand_over(shuffler, analyzer)
    analyzer.close()
    other = live.make_collection(title="Edited")
    said = f"{tmp_path / 'a'} has batches of another collection"
    assert says(open_analyzer, tmp_path / "a", other) == said
    assert open_analyzer(tmp_path / "a").results()


def test_a_folder_without_an_analyzer_says_so(tmp_path):
    home = Home(tmp_path)
    home.document.write_bytes(COLLECTION.raw)
    said = f"there is no analyzer in {tmp_path}: its operator has it elsewhere"
    assert says(home.open_analyzer) == said


def test_a_store_of_another_collection_and_a_last_time_that_is_none(tmp_path):
    path = tmp_path / "store.sqlite"
    SqliteStore(path, COLLECTION).close()
    other = live.make_collection(title="Another")
    assert says(SqliteStore, path, other) == f"{path} belongs to another collection"
    store = SqliteStore(path, COLLECTION)
    assert store.last_beat() is None
    store.beat(12.5)
    assert store.last_beat() == 12.5
    store.beat(13.5)
    assert store.last_beat() == 13.5
    db = sqlite3.connect(path)
    assert db.execute("SELECT one, moment, length(ballast) = 65536 FROM beats").fetchall() == [
        (1, 13.5, 1)
    ]
    db.execute("UPDATE beats SET moment = 'soon'")
    db.commit()
    assert says(store.last_beat) == "the store is damaged: its last time is 'soon'"
    assert store.scrub() is True
    assert list(store.load_batch(0, b"")) == []
    store.close()


def test_what_a_shuffler_says_of_its_windows(tmp_path):
    long = live.make_collection(windows=Windows(start=1000, seconds=100, count=4, grace=10))
    shuffler = open_shuffler(tmp_path / "s", long)
    said = says(shuffler.manifest, 0, 1100.25)
    assert said == "not_ready: window 0 takes reports for another 10 seconds"
    assert says(shuffler.manifest, 0, 5000.0).endswith("for another 0 seconds")
    assert says(shuffler.batch, 0) == "not_ready: there is no batch of window 0 now"
    shuffler.tick(1110.0)
    assert says(shuffler.manifest, 0, 1200.0) == (
        "expired: window 0 had fewer than min_batch=20 reports, and was deleted"
    )
    shuffler.close(1150.0)
    assert says(shuffler.manifest, 2, 1200.0) == "expired: the collection was closed before window 2"  # fmt: skip


def test_what_an_analyzer_says_of_batches(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    assert says(analyzer.receipt, 0) == "not_ready: there is no batch of window 0 yet"
    fill(shuffler)
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1200.0)
    asked = []

    def fetch(size):
        asked.append(size)
        return shuffler.batch(0).read_bytes()

    assert analyzer.count_dropped(0) == {}
    assert analyzer.take(manifest.raw, signature, fetch) == manifest
    assert asked == [manifest.messages * COLLECTION.inner_size]
    assert analyzer.take(manifest.raw, signature, fetch) == manifest
    assert len(asked) == 1  # it is there already
    other = dataclasses.replace(manifest, sha256=bytes(32))
    again = other.sign(live.secret("shuffler"))
    assert says(analyzer.take, other.raw, again, fetch) == (
        "second_batch: window 0 has another batch already"
    )
    assert analyzer.states() == {0: "stored"}
    assert analyzer.results() == []
    assert analyzer.delete_batches(1e12) == ()  # it is still to be counted
    assert analyzer.advance(0) == "published"
    assert analyzer.count_dropped(0) == {}
    closes = COLLECTION.windows.closes(0)
    batch = tmp_path / "a" / "batch-0.bin"
    assert analyzer.delete_batches(closes) == ()
    assert batch.exists()
    assert analyzer.delete_batches(closes + 0.5) == (0,)
    assert not batch.exists()
    assert analyzer.delete_batches(closes + 0.5) == ()
    assert [each["window"] for each in analyzer.results()] == [0]
    analyzer.close()


def test_what_a_device_says(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=9.0)
    assert says(device.answer, COLLECTION, SAID, 999.0) == "closed: the collection takes no answers now"  # fmt: skip
    assert says(device.state, COLLECTION, 0) == "unanswered: this device has not answered in window 0"  # fmt: skip
    assert device.answer(COLLECTION, SAID, 1000.0) == 0
    assert says(device.answer, COLLECTION, SAID, 1050.0) == "answered: this device has answered in window 0 already"  # fmt: skip
    assert says(device.answer, COLLECTION, SAID, 1150.0) == "answered: this device has answered as often as it may: 1 in all"  # fmt: skip
    device.answer(make(3.0, "Two"), SAID, 1001.0)
    said = says(device.answer, make(3.0, "Three"), SAID, 1001.0)
    assert said == "the device has spent epsilon = 8 of 9, and this collection costs 4"
    assert device.recall(COLLECTION.id) is None  # it was not checked, only answered
    assert device.spent == Spent(epsilon=8.0, floor=6.0, without_floor=0, budget=9.0, floor_budget=8.0)  # fmt: skip
    assert str(Spent(epsilon=1.0, floor=9.0, without_floor=1200, budget=8.0, floor_budget=8.0)) == (
        "epsilon: 1 of 8 spent, 7 left; floor: 9 of 8 spent, 0 left; 1,200 reports without a floor"
    )
    assert device.upload(COLLECTION, 0)
    assert device.state(COLLECTION, 0) is Sending.SENT
    assert device.settle(COLLECTION, 0, None) is Sending.ACKNOWLEDGED
    assert device.settle(COLLECTION, 0, "too_late") is Sending.ACKNOWLEDGED  # it is settled
    assert device.upload(COLLECTION, 0) is None
    device.close()


def test_floors_that_need_a_yes(tmp_path):
    device = Device(tmp_path / "outbox.sqlite", budget=1e6)
    high = make(8.5)
    assert device.ask_consent(high) == f"its floor is above 8: {high.pledge.describe_floor()}"
    assert device.ask_consent(make(8.0)) is None
    served = live.make_collection(pledge=dataclasses.replace(make(8.5).pledge, local_epsilon=8.0))
    device.answer(served, SAID, 1001.0)
    assert device.ask_consent(make(3.0, "More")) == (
        "the floors of all reports of this device would add up to 11, which is above 8"
    )
    said = says(device.answer, make(3.0, "More"), SAID, 1001.0)
    assert said.endswith("which is above 8; it is answered only if you say yes to that")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"3", b"null", b'{"accepted":2}', b'{"failed":[]}', b'{"accepted":1,"failed":[]}',
        b'{"accepted":2,"failed":[{"index":2,"reason":"a"}]}', b'{"accepted":2,"failed":[{"index":-1,"reason":"a"}]}',
        b'{"accepted":1,"failed":[{"index":true,"reason":"a"}]}', b'{"accepted":1,"failed":[{"index":"0","reason":"a"}]}',
        b'{"accepted":1,"failed":[{"index":0}]}', b'{"accepted":2,"failed":[{"index":0,"reason":"a"}]}',
    ],
)  # fmt: skip
def test_replies_that_make_no_sense(raw):
    assert says(read_reply, raw, 2) == "reply: the shuffler's reply cannot be understood"
    assert read_reply(b'{"accepted":2,"failed":[]}', 2) == [None, None]
    long = b'{"accepted":1,"failed":[{"index":1,"reason":"%s"}]}' % (b"r" * 61)
    assert read_reply(long, 2) == [None, "r" * 60]
    assert read_reply(b'{"accepted":1,"failed":[{"index":0,"reason":"a"}]}', 2) == ["a", None]


def test_settings_are_read_with_their_survey():
    survey = sdp.Survey.read(
        {
            "epsilon": 1.0,
            "delta": 1e-6,
            "honest": 0.7,
            "title": "T",
            "questions": {"q": COUNT},
            "collection": {"title": "Other", "people": 9},
        }
    )
    settings = Settings.read(survey)
    assert (settings.title, settings.honest, settings.people, settings.batch) == ("Other", 0.7, 9, 4)  # fmt: skip
    for tag, direction in {"ar": "rtl", "he-IL": "rtl", "ur": "rtl", "en-AR": "ltr", "sr-Latn": "ltr", "fa": "rtl", "yi": "rtl"}.items():  # fmt: skip
        assert dataclasses.replace(settings, language=tag).texts.direction == direction
    with pytest.raises(ParameterError, match=re.escape("local_epsilon=-1.0 must be > 0")):
        _ = dataclasses.replace(settings, local_epsilon=-1.0).floor


def test_a_result_is_handed_over_once(tmp_path):
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "published"
    assert says(shuffler.batch, 0) == "expired: the batch of window 0 was handed over, and deleted"
    assert shuffler.manifest(0, 1200.0)[0].messages == 50  # what it was can still be asked


def test_a_window_that_an_older_version_wrote_has_the_messages_of_its_reports(tmp_path):
    """It did not write down how many messages a batch has."""
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.tick(1110.0)
    with sqlite3.connect(tmp_path / "s" / "store.sqlite") as db:
        assert db.execute("SELECT messages FROM windows").fetchall() == [(50,)]
        db.execute("UPDATE windows SET messages = NULL")
    db.close()
    manifest, signature = shuffler.manifest(0, 1200.0)
    assert (manifest.reports, manifest.messages) == (25, 50)
    analyzer = open_analyzer(tmp_path / "a")
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    assert analyzer.advance(0) == "published"
    analyzer.close()
