"""What devices would send, as a file: shuffled, without owners, whole or not at all."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from file_support import COUNTRIES, N, people, write
from shuffledp.core.randomizer import tape_width
from shuffledp.engine import chunks, codes, columns, local, messages
from shuffledp.engine.codes import Coded
from support import any_protocol

KRR = sdp.protocols.krr.make_local(k=4, epsilon=1.0)


@pytest.fixture
def column(folder):
    return sdp.open_column(folder / "people.parquet", "country")


def send(column, out, seed=5, **options):
    source = sdp.SeededWords(seed)
    return sdp.randomize_file(KRR, column, out, domain=COUNTRIES, rng=source, **options)


@pytest.mark.parametrize("spec", sdp.protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_there_and_back(spec, tmp_path, monkeypatch):
    """Sent, shuffled, written, read, tallied in pieces: the tally of the same words in memory."""
    protocol = any_protocol(spec)
    monkeypatch.setattr(sdp.core.protocol.ShuffleProtocol, "check_users", lambda *_: None)
    monkeypatch.setattr(messages, "_PIECE_BYTES", 1 << 14)
    domain = protocol.randomizer.domain
    values = domain.values(np.random.default_rng(1).integers(domain.size, size=1501))
    if not isinstance(domain, sdp.Reals):
        values = values.astype(np.int64)
    path = write({"x": values}, tmp_path / "a.parquet")
    expected = local.tally_each(protocol, values, sdp.SeededWords(5)).counts
    for suffix in ("parquet", "arrow"):
        out = tmp_path / f"messages.{suffix}"
        sent = sdp.randomize_file(protocol, sdp.open_column(path), out, rng=sdp.SeededWords(5))
        assert sent.n == 1501
        found = sdp.tally_file(out)
        assert found.protocol == protocol
        assert found.tally.users == 1501
        np.testing.assert_array_equal(found.tally.counts, expected)


def test_the_file_holds_messages_and_no_owners(column, tmp_path):
    sent = send(column, tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")
    assert table.column_names == ["message"]
    assert len(table) == sent.messages == N
    about = json.loads(table.schema.metadata[b"shuffledp"])
    assert about == {
        "kind": "shuffledp messages",
        "version": sdp.__version__,
        "protocol": "krr",
        "parameters": {"k": 4, "epsilon": 1.0, "word_bits": 64},
        "law": about["law"],
        "labels": list(COUNTRIES.labels),
        "not_private": [codes.SEEDED],
        "users": N,
        "messages": N,
    }


def test_the_order_is_new_each_time_and_not_that_of_the_rows(column, tmp_path):
    codes = COUNTRIES.codes(people()["country"])
    words = sdp.SeededWords(5)
    in_order = chunks.encode_codes(KRR.randomizer, codes, words).payload.tolist()
    seen = set()
    for number in range(3):
        out = tmp_path / f"{number}.parquet"
        send(column, out)
        found = pq.read_table(out)["message"].to_pylist()
        assert sorted(found) == sorted(in_order)
        seen.add(tuple(found))
    assert len(seen | {tuple(in_order)}) == 4


def test_estimates_have_the_declared_names(column, tmp_path):
    send(column, tmp_path / "m.parquet")
    assert sdp.tally_file(tmp_path / "m.parquet").estimate.labels == COUNTRIES.labels


def test_several_files_add(column, tmp_path):
    for number in range(3):
        send(column, tmp_path / f"m{number}.parquet", seed=number)
    single = [sdp.tally_file(tmp_path / f"m{number}.parquet") for number in range(3)]
    total = sdp.tally_file(str(tmp_path / "m*.parquet"))
    assert total.tally.users == 3 * N
    expected = sum(part.tally.counts for part in single)
    np.testing.assert_array_equal(total.tally.counts, expected)


def test_files_of_different_protocols_do_not_add(column, tmp_path):
    send(column, tmp_path / "a.parquet")
    other = sdp.protocols.krr.make_local(k=4, epsilon=1.5)
    sdp.randomize_file(other, column, tmp_path / "b.parquet", domain=COUNTRIES)
    # The same categories in another order: the same codes mean other countries.
    turned = sdp.Categories(k=4, names=COUNTRIES.labels[::-1])
    sdp.randomize_file(KRR, column, tmp_path / "c.parquet", domain=turned)
    for pair in (["a", "b"], ["a", "c"]):
        with pytest.raises(sdp.MismatchError, match="do not add"):
            sdp.tally_file([tmp_path / f"{name}.parquet" for name in pair])


def test_policies(tmp_path):
    path = write({"x": ["ch", None, "fr"]}, tmp_path / "a.csv")
    opened = sdp.open_column(path)
    with pytest.raises(sdp.DataError, match="in row 2 of"):
        sdp.randomize_file(KRR, opened, tmp_path / "m.parquet", domain=COUNTRIES)
    sent = sdp.randomize_file(
        KRR, opened, tmp_path / "m.parquet", domain=COUNTRIES, on_invalid="drop"
    )
    assert (sent.n, sent.rows, sent.invalid["null"]) == (1, 3, 1)
    assert sdp.tally_file(tmp_path / "m.parquet").tally.users == 1


def test_too_few_users(tmp_path):
    protocol = sdp.protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6)
    for suffix in ("csv", "parquet"):
        path = write({"x": [1] * 899}, tmp_path / f"few.{suffix}")
        with pytest.raises(sdp.DataError, match="at least 900 users"):
            sdp.randomize_file(protocol, sdp.open_column(path), tmp_path / "m.parquet")
    assert not (tmp_path / "m.parquet").exists()


def test_no_messages_at_all(tmp_path):
    protocol = sdp.protocols.zsum_sparse.make(n=1000, epsilon=20.0, delta=0.5)
    path = write({"x": [0] * 1000}, tmp_path / "a.parquet")
    for suffix in ("parquet", "arrow"):
        out = tmp_path / f"m.{suffix}"
        sent = sdp.randomize_file(protocol, sdp.open_column(path), out, rng=sdp.SeededWords(1))
        found = sdp.tally_file(out)
        assert found.tally.users == 1000
        assert found.tally.counts.tolist() == [sent.messages]


class TestOutput:
    def left(self, folder):
        return sorted(path.name for path in folder.iterdir())

    def test_what_exists_is_not_overwritten(self, column, tmp_path):
        out = tmp_path / "m.parquet"
        out.write_text("precious")
        with pytest.raises(sdp.DataError, match="already exists"):
            send(column, out)
        assert out.read_text() == "precious"

    def test_what_appears_meanwhile_is_not_overwritten(self, column, tmp_path):
        out = tmp_path / "m.parquet"
        with pytest.raises(sdp.DataError, match="already exists"):
            send(column, out, report=lambda _: out.write_text("precious"))
        assert out.read_text() == "precious"
        assert self.left(tmp_path) == ["m.parquet"]

    def test_a_folder_that_is_not_there(self, column, tmp_path):
        with pytest.raises(sdp.DataError, match=r"m\.parquet cannot be written: No such file"):
            send(column, tmp_path / "nowhere" / "m.parquet")

    def test_a_file_where_a_folder_should_be(self, column, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(sdp.DataError, match=r"m\.parquet cannot be written: Not a directory"):
            send(column, tmp_path / "file" / "m.parquet")

    @pytest.mark.parametrize("suffix", ["csv", "jsonl"])
    def test_text_carries_no_protocol(self, column, tmp_path, suffix):
        with pytest.raises(sdp.ParameterError, match=r"must end in \.parquet or \.arrow"):
            send(column, tmp_path / f"m.{suffix}")

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
    def test_an_interruption_leaves_nothing_behind(self, column, tmp_path, monkeypatch, error):
        def stop(*_):
            raise error

        with pytest.raises(error):
            send(column, tmp_path / "m.parquet", report=stop)
        assert self.left(tmp_path) == []
        monkeypatch.setattr(messages, "_as_arrow", stop)
        with pytest.raises(error):
            send(column, tmp_path / "m.parquet")
        assert self.left(tmp_path) == []

    def test_the_work_is_private(self, column, tmp_path):
        seen = []

        def look(_):
            seen.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir())

        send(column, tmp_path / "m.parquet", report=look)
        assert set(seen) == {0o700, 0o600}, "a folder, and a lock"
        assert self.left(tmp_path) == ["m.parquet"]


class TestForeignFiles:
    def test_other_parquet(self, folder, tmp_path):
        with pytest.raises(
            sdp.DataError, match=r"has no messages of shuffledp in it: `randomize` writes"
        ):
            sdp.tally_file(folder / "people.parquet")
        write({"message": [1, 2]}, tmp_path / "a.parquet")
        with pytest.raises(sdp.DataError, match="has no messages of shuffledp"):
            sdp.tally_file(tmp_path / "a.parquet")
        write({"message": [1, 2]}, tmp_path / "a.csv")
        with pytest.raises(sdp.ParameterError, match=r"must end in \.parquet"):
            sdp.tally_file(tmp_path / "a.csv")

    def test_truncated(self, column, tmp_path):
        for suffix in ("parquet", "arrow"):
            out = tmp_path / f"m.{suffix}"
            send(column, out)
            cut = tmp_path / f"cut.{suffix}"
            cut.write_bytes(out.read_bytes()[:-100])
            with pytest.raises(sdp.DataError, match=rf"cut\.{suffix} cannot be read"):
                sdp.tally_file(cut)

    def changed(self, column, tmp_path, change, rows=None):
        """A file of messages with other metadata, or other messages."""
        send(column, tmp_path / "m.arrow")
        table = feather.read_table(tmp_path / "m.arrow")
        about = json.loads(table.schema.metadata[b"shuffledp"])
        about = change(about)
        if rows is not None:
            table = pa.table({"message": rows(table["message"])})
        table = table.replace_schema_metadata({b"shuffledp": json.dumps(about)})
        feather.write_feather(table, tmp_path / "changed.arrow", compression="uncompressed")
        return tmp_path / "changed.arrow"

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"kind": "x"}, "has no messages of shuffledp"),
            ({"protocol": "none"}, "describes no protocol of this version"),
            ({"protocol": None}, "does not say which protocol"),
            ({"parameters": {"k": 4, "epsilon": -1}}, "describes no protocol.*must be > 0"),
            ({"parameters": {"k": 4, "epsilon": 1.0, "z": 1}}, "describes no protocol"),
            ({"parameters": 7}, "does not say which protocol"),
            ({"users": N + 1}, "is damaged"),
            ({"users": "many"}, "does not say how many users"),
            ({"users": -1}, "does not say how many users"),
            ({"messages": N - 1}, "is damaged"),
            ({"labels": ["a"]}, "describes no protocol"),
            ({"labels": ["a", "b", "c"]}, "do not fit"),
            ({"labels": 5}, "describes no protocol"),
        ],
    )
    def test_changed_metadata(self, column, tmp_path, change, complaint):
        path = self.changed(column, tmp_path, lambda about: about | change)
        with pytest.raises(sdp.DataError, match=complaint):
            sdp.tally_file(path)

    def test_another_law_is_refused(self, column, tmp_path):
        """Another version might calibrate the same parameters in another way."""
        path = self.changed(column, tmp_path, lambda about: about | {"law": "x", "version": "9.9"})
        with pytest.raises(
            sdp.MismatchError, match=r"made by version '9\.9', whose krr has another"
        ):
            sdp.tally_file(path)

    @pytest.mark.parametrize(
        "rows",
        [
            lambda m: pa.array([9] * len(m)),
            lambda m: pa.array(["a"] * len(m)),
            lambda m: pa.array([0.5] * len(m)),
            lambda m: pa.array([None, *m.to_pylist()[1:]]),
            lambda m: pa.array([[True] * 4] * len(m), pa.list_(pa.bool_(), 4)),
            lambda m: m.slice(1),
            lambda m: m.slice(0, 0),
        ],
        ids=["range", "text", "floats", "nulls", "vectors", "fewer", "none"],
    )
    def test_changed_messages(self, column, tmp_path, rows):
        path = self.changed(column, tmp_path, lambda about: about, rows)
        with pytest.raises(sdp.DataError, match=r"changed\.arrow"):
            sdp.tally_file(path)

    def test_metadata_that_is_no_json(self, tmp_path):
        table = pa.table({"message": [1]}).replace_schema_metadata({b"shuffledp": b"{"})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(sdp.DataError, match="has no messages of shuffledp"):
            sdp.tally_file(tmp_path / "a.parquet")


def test_many_files_of_spool(column, tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "bucket_bits", lambda *_: 6)
    monkeypatch.setattr(columns, "_ROWS", 512)
    send(column, tmp_path / "m.parquet")
    codes = COUNTRIES.codes(people()["country"])
    expected = local.tally_each(KRR, codes, sdp.SeededWords(5)).counts
    np.testing.assert_array_equal(sdp.tally_file(tmp_path / "m.parquet").tally.counts, expected)


@pytest.mark.parametrize(("word_bits", "octets"), [(16, 2), (17, 3)])
def test_pieces_have_as_many_people_as_their_words_fit(monkeypatch, word_bits, octets):
    """A word of 17 bits takes three bytes; a piece has one person at least."""
    device = sdp.protocols.krr.make_local(k=4, epsilon=1.0, word_bits=word_bits).randomizer
    each = octets * tape_width(device)
    some = Coded(np.arange(7) % 4, None, None)
    (whole,) = messages._encode_pieces(device, some, sdp.SeededWords(3))
    assert len(whole) == 7
    for held, sizes in ((1, [1] * 7), (3 * each, [3, 3, 1]), (4 * each - 1, [3, 3, 1])):
        monkeypatch.setattr(messages, "_PIECE_BYTES", held)
        pieces = messages._encode_pieces(device, some, sdp.SeededWords(3))
        assert [len(piece) for piece in pieces] == sizes


def test_what_is_not_private_travels_with_messages_and_tallies(tmp_path):
    people = {"home": [True, False, None] * 600, "way": ["car", "bus"] * 900}
    protocol = sdp.count(n=600, epsilon=1.0, delta=1e-6)
    column = columns.take_column(people, "home", where="way = 'car'")
    sent = sdp.randomize_file(
        protocol, column, tmp_path / "m.parquet", on_invalid="drop", rng=sdp.SeededWords(1)
    )
    collected = sdp.tally_file(sent.path)
    assert collected.not_private == (codes.SEEDED, codes.FILTERED, codes.LEFT_OUT)
    assert "car" not in str(collected.not_private)
    read = sdp.read_tally(sdp.write_tally(collected, tmp_path / "t.json"))
    assert sdp.Answer.of(read).not_private == collected.not_private
    plain = sdp.randomize_file(
        protocol, columns.take_column([True, False] * 300), tmp_path / "plain.parquet"
    )
    assert sdp.tally_file(plain.path).not_private == ()
    assert (sdp.tally_file(plain.path) + collected).not_private == collected.not_private
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"not_private": [', '"not_private": [7, '))
    with pytest.raises(sdp.DataError, match="not_private must be a list of sentences"):
        sdp.read_tally(tmp_path / "bad.json")


def test_what_is_not_private_of_a_survey_travels_without_the_words_of_its_filter(tmp_path):
    survey = sdp.Survey.loads("""
        epsilon = 1.0
        delta = 1e-6
        [questions.home]
        task = "count"
        [questions.minutes]
        task = "mean"
        lower = 0
        upper = 9
    """)
    people = {"home": [True, False] * 600, "minutes": [3, 4] * 600, "way": ["car", "bus"] * 600}
    prepared = survey.prepare(people, where="way = 'car'", rng=sdp.SeededWords(1), sent=True)
    sent = prepared.randomize(tmp_path / "m.parquet")
    answer = sdp.SurveyAnswer.of(sdp.tally_file(sent.path))
    assert answer.not_private == (codes.SEEDED, codes.FILTERED)
    assert "NOT PRIVATE: the noise is seeded" in str(answer)
