"""Passes over a column: what is reported, remembered, drawn and added up, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Cells
from shuffledp.engine import Memory, OnInvalid, files, take_column
from shuffledp.engine.chunks import (
    Headcount,
    Job,
    Progress,
    Tapes,
    add_invalid,
    code_chunk,
    count_users,
    encode_codes,
    tally_codes,
    users_per_chunk,
)
from shuffledp.engine.codes import Coded, Coder
from shuffledp.engine.columns import Chunk, Column
from shuffledp.engine.files import (
    FileRun,
    find_engine,
    group_early,
    headcount,
    read_codes,
    run_file,
)
from shuffledp.engine.local import (
    add_groups,
    are_grouped,
    as_integers,
    count_pairs,
    count_values,
    deal_codes,
    deal_groups,
    is_counted,
    is_listable,
    pair_people,
    pick_rows,
    refuse_value,
)

PETS = sdp.Categories(k=3, names=("cat", "dog", "other"))
NONE = {"null": 0, "unknown": 0, "out_of_range": 0, "nan": 0}


@pytest.mark.parametrize(
    ("rows", "total", "wanted"),
    [(50, 200, 0.25), (0, 200, 0.0), (200, 200, 1.0), (201, 200, 1.0), (5, None, None), (5, 0, None)],
)  # fmt: skip
def test_progress(rows, total, wanted):
    assert Progress(rows=rows, total_rows=total, total_bytes=9).fraction == wanted
    assert not Progress(rows=rows, total_rows=total, total_bytes=9).estimating


def test_progress_is_told_chunk_by_chunk(tmp_path, monkeypatch):
    from shuffledp.engine import columns

    monkeypatch.setattr(columns, "_ROWS", 2)
    told = []
    column = take_column(["cat", "dog", "cat", "cow", "dog"])
    coder = Coder(domain=PETS, on_invalid="other")
    job = Job(column=column, coder=coder, report=told.append)
    found = count_users(job, threads=1)
    assert [each.rows for each in told] == [2, 4, 5]
    assert {each.total_rows for each in told} == {5}
    assert {each.total_bytes for each in told} == {column.bytes}
    assert [some.codes.tolist() for some in found.job.read] == [[0, 1], [0, 2], [1]]
    assert (found.n, found.rows, found.invalid) == (5, 5, NONE | {"unknown": 1})
    counted = Headcount(n=5, rows=5, invalid=NONE | {"unknown": 1})
    assert found == counted, "what was kept is no part of what was counted"
    assert repr(found) == repr(counted)
    told.clear()
    again = count_users(found.job, threads=1)
    assert [each.rows for each in told] == [2, 4, 5], (
        "what was kept is passed over in the same steps"
    )
    assert (again.n, again.rows, again.invalid) == (5, 5, NONE | {"unknown": 1})
    Job(column=column, coder=coder).show(3)  # nobody wants to know


def test_nobody_is_told_with_the_filter_and_the_policy():
    table = {"x": ["cow", "cow"], "y": [1, 2]}
    for where, policy, said in (
        (None, "drop", "column 'x' has no valid value; without on_invalid, the first invalid one is named"),
        ("y > 0", "drop", "column 'x' has no valid value where y > 0; without on_invalid, the first invalid "
                          "one is named"),
        ("y > 2", "error", "column 'x' has no valid value where y > 2"),
    ):  # fmt: skip
        column = take_column(table, "x", where=where)
        job = Job(column=column, coder=Coder(domain=PETS, on_invalid=policy))
        assert str(job.nobody()) == said


class TestHeadcount:
    def test_codes_are_those_of_this_column_and_policy(self):
        column, coder = take_column(["cat", "dog"]), Coder(domain=PETS, on_invalid="error")
        found = count_users(Job(column=column, coder=coder), threads=1)
        assert Job.of(column, coder, None, found).read is found.job.read
        assert Job.of(take_column(["cat", "dog"]), coder, None, found).read is None
        assert Job.of(column, Coder(domain=PETS, on_invalid="other"), None, found).read is None
        assert Job.of(column, coder, None, found).groups is None
        assert Job.of(column, coder, None, Headcount(n=2, rows=2, invalid=None)).read is None
        early = group_early(column, PETS, engine="memory")
        assert Job.of(column, coder, None, early).groups.counts.tolist() == [1, 1, 0]
        assert Job.of(column, Coder(domain=PETS, on_invalid="drop"), None, early).groups is None

    def test_what_the_file_says_need_not_be_read(self):
        column = take_column(["cat", "cow", None])
        found = headcount(column, PETS)
        assert (found.n, found.rows, found.invalid) == (3, 3, None)
        found = headcount(column, PETS, "drop", engine="memory")
        assert (found.n, found.rows, found.invalid) == (1, 3, NONE | {"null": 1, "unknown": 1})
        with pytest.raises(sdp.DataError, match="has no valid value; without"):
            headcount(take_column([None, None]), PETS, "drop")

    def test_groups_that_are_known_are_not_read_again(self):
        """What is counted is what is given: here other values than those of the column."""
        import pyarrow as pa

        column = take_column(["cat"])
        groups = [(pa.array(["cat", "dog", "cow"]), pa.array([5, 7, 2]))]
        found = group_early(column, PETS, OnInvalid.read("drop"), groups=groups)
        assert (found.n, found.rows, found.invalid) == (12, 14, NONE | {"unknown": 2})
        assert found.job.groups.counts.tolist() == [5, 7, 0]
        reals = sdp.Reals(lower=0.0, upper=1.0, steps=3)
        assert group_early(take_column([0.5]), reals) is None, "they have no grid yet"

    def test_rows_are_told_as_they_are_added(self):
        import pyarrow as pa

        told = []
        coder = Coder(domain=PETS, on_invalid="drop")
        job = Job(column=take_column(["cat"]), coder=coder, report=told.append)
        groups = [(pa.array(["cat", "cow"]), pa.array([3, 1])), (pa.array(["cat"]), pa.array([2]))]
        found = add_groups(job, groups, refuse_value)
        assert [each.rows for each in told] == [4, 6]
        assert (found.counts.tolist(), found.rows, found.n) == ([5, 0, 0], 6, 5)
        assert found.invalid == NONE | {"unknown": 1}
        strict = Job(column=take_column(["cat"]), coder=Coder(domain=PETS, on_invalid="error"))
        said = r"^column 'values': value 'cow' is none of the categories"
        with pytest.raises(sdp.DataError, match=said):
            add_groups(strict, groups, refuse_value)


def test_reasons_add_up():
    one, two = NONE | {"null": 1, "nan": 2}, NONE | {"null": 3, "unknown": 4}
    assert add_invalid([one, two]) == {"null": 4, "unknown": 4, "out_of_range": 0, "nan": 2}
    assert add_invalid([]) == NONE


def test_a_wrong_value_is_named_by_its_place():
    import pyarrow as pa

    coder = Coder(domain=PETS, on_invalid="error")
    array = pa.array(["cat", "cow"])
    for chunk, said in (
        (Chunk(array, None, 0, 40), "value 'cow' at position 41 is none of the categories"),
        (Chunk(array, "a.csv", 6, 40), r"value 'cow' in row 8 of a\.csv is none"),
        (
            Chunk(array, "a.csv", 6, 40, np.array([1, 5])),
            r"value 'cow' in row 12 of a\.csv is none",
        ),
        (Chunk(pa.array([b"x"]), "a.csv", 0, 0), r"^a\.csv: the domain wants categories"),
        (Chunk(pa.array([b"x"]), None, 0, 0), r"^the domain wants categories"),
    ):
        with pytest.raises(sdp.DataError, match=said):
            code_chunk(coder, chunk)
    assert code_chunk(coder, Chunk(pa.array(["dog"]), None, 0, 0)).codes.tolist() == [1]


class TestTapes:
    RANDOMIZER = sdp.protocols.krr.make_local(k=3, epsilon=1.0).randomizer

    def test_row_r_reads_its_own_words(self):
        width = 3
        tapes = Tapes(sdp.SeededWords(7), width=width, bits=64)
        assert tapes.bits == 64
        every = sdp.SeededWords(7).words(12)
        for row in (2, 0, 1, 3):
            assert tapes.at(row).words(width).tolist() == every[3 * row : 3 * row + 3].tolist()
        source = sdp.SeededWords(7)
        Tapes(source, width=width, bits=64).finish(4)
        assert source.words(1) == sdp.SeededWords(7).words(13)[12:]

    def test_secure_words_are_one_source_for_each_thread(self):
        tapes = Tapes(None, width=1, bits=64)
        assert tapes.at(0) is tapes.at(5)
        assert isinstance(tapes.at(0), sdp.SecureWords)
        tapes.finish(3)
        with pytest.raises(sdp.ParameterError, match=r"rng=.* must be SecureWords or SeededWords"):
            Tapes(SimpleNamespace(words=None), width=1, bits=64)
        assert Tapes.of(self.RANDOMIZER, None).bits == self.RANDOMIZER.word_bits

    def test_whoever_is_left_out_draws_all_the_same(self):
        codes, kept = np.array([0, 1, 2, 1]), np.array([True, False, True, True])
        some = encode_codes(self.RANDOMIZER, codes, sdp.SeededWords(3), kept)
        every = encode_codes(self.RANDOMIZER, codes, sdp.SeededWords(3))
        assert some.payload.tolist() == every.payload[kept].tolist()
        assert encode_codes(self.RANDOMIZER, codes, sdp.SeededWords(3), kept & False) is None
        analyzer = sdp.protocols.krr.make_local(k=3, epsilon=1.0).analyzer
        assert (
            tally_codes(self.RANDOMIZER, analyzer, codes, sdp.SeededWords(3), kept & False) is None
        )
        found = tally_codes(self.RANDOMIZER, analyzer, codes, sdp.SeededWords(3), kept)
        assert (found.users, found.counts.sum()) == (3, 3)

    @pytest.mark.parametrize(
        ("words", "bits", "users"),
        [(1, 64, 131_072), (2, 64, 65_536), (64, 64, 2_048), (65, 64, 2_048), (1_000, 64, 1_048),
         (2_000_000, 64, 1), (1, 32, 262_144), (1, 33, 209_715)],
    )  # fmt: skip
    def test_how_many_at_once(self, words, bits, users):
        randomizer = SimpleNamespace(word_bits=bits, words_per_input=words, domain=sdp.Bits())
        assert users_per_chunk(randomizer) == users


class Words:
    """A device that deals words: a bin for each of eight remainders, and noise of its own."""

    def __init__(self):
        self.asked = []

    def deal_words(self, codes, times, rng):
        self.asked.append((codes.tolist(), times.tolist()))
        return np.bincount(codes.astype(np.int64) % 8, weights=times, minlength=8).astype(np.int64)

    def deal_noise(self, n, rng):
        return np.full(8, n)


class TestWords:
    def test_parts_are_dealt_one_by_one_and_noise_is_added_once(self):
        device = Words()
        parts = [np.array([3, 1, 3]), np.array([], dtype=int), np.array([3])]
        found = deal_codes(device, iter(parts), sdp.SecureWords())
        assert device.asked == [([1, 3], [1, 2]), ([3], [1])]
        assert found.counts.tolist() == [4, 5, 4, 7, 4, 4, 4, 4]
        assert found.users == 4

    def test_with_a_seed_they_are_grouped_first(self):
        device = Words()
        found = deal_codes(device, [np.array([3, 1, 3]), np.array([3])], sdp.SeededWords(1))
        assert device.asked == [([1, 3], [1, 3])]
        assert (found.counts.tolist(), found.users) == ([4, 5, 4, 7, 4, 4, 4, 4], 4)
        for rng in (sdp.SeededWords(1), sdp.SecureWords()):
            assert deal_codes(Words(), [], rng) is None
            assert deal_groups(Words(), [], rng) is None


class TestGroups:
    def test_what_is_counted_code_by_code(self):
        assert is_listable(sdp.Integers(lower=1, upper=1 << 27))
        assert not is_listable(sdp.Integers(lower=0, upper=1 << 27))
        assert not is_listable(sdp.core.texts.Keys(bits=8))
        assert are_grouped(sdp.protocols.krr.make_local(k=4, epsilon=1.0))

    @pytest.mark.parametrize(
        ("domain", "wanted"),
        [
            (sdp.Reals(lower=0.0, upper=9.0, steps=9), sdp.Integers(lower=0, upper=9)),
            (sdp.Reals(lower=-3.0, upper=6.0, steps=9), sdp.Integers(lower=-3, upper=6)),
            (sdp.Reals(lower=0.5, upper=9.5, steps=9), None),
            (sdp.Reals(lower=0.0, upper=9.0, steps=3), None),
            (sdp.Reals(lower=0.0, upper=9.0, steps=18), None),
            (sdp.Integers(lower=0, upper=9), None),
            (sdp.Bits(), None),
        ],
    )
    def test_a_grid_of_integers_is_integers(self, domain, wanted):
        assert as_integers(domain) == (domain if wanted is None else wanted)

    def test_whole_numbers_are_not_rounded(self):
        grid = sdp.protocols.duchi.make_local(lower=0, upper=9, steps=9, epsilon=1.0).randomizer
        counts = count_values(grid, np.array([3, 3, 9]), sdp.SeededWords(1))
        assert counts.tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 0, 1]
        before, after = sdp.SeededWords(1), sdp.SeededWords(1)
        count_values(grid, np.array([3, 3, 9]), after)
        assert before.words(1) == after.words(1), "and no words are drawn"
        real = count_values(grid, np.array([3.0, 8.5, 8.5, 8.5, 8.5]), sdp.SeededWords(1))
        assert real[3] == 1
        assert real[8] + real[9] == 4

    @pytest.mark.parametrize(
        ("kind", "types", "domain", "counted"),
        [
            ("arrow", "int64", sdp.Bits(), True),
            ("parquet", "int64", sdp.Integers(lower=0, upper=4096), True),
            ("parquet", "int64", sdp.Integers(lower=0, upper=4095), False),
            ("parquet", "uint8", Cells(lower=0.0, upper=1.0, cells=5000), True),
            ("parquet", "double", sdp.Integers(lower=0, upper=9), True),
            ("parquet", "float", Cells(lower=0.0, upper=1.0, cells=8), True),
            ("parquet", "string", sdp.Integers(lower=0, upper=9999), False),
            ("parquet", "double", sdp.Categories(k=3), False),
            ("parquet", "int64", sdp.Bits(), False),
            ("csv", "text", sdp.Integers(lower=0, upper=9999), False),
        ],
    )
    def test_where_numpy_is_faster(self, kind, types, domain, counted):
        from shuffledp.engine.formats import DataFile, Format

        file = DataFile(path="a", format=Format(kind), bytes=1, columns=("x",), types=(types,))
        assert is_counted(Column(name="x", files=(file,)), domain) == counted
        if kind == "arrow":
            other = DataFile(path="b", format=Format.CSV, bytes=1, columns=("x",), types=("text",))
            assert not is_counted(Column(name="x", files=(file, other)), domain)
        assert is_counted(take_column([1]), domain)

    def test_pairs(self):
        both = sdp.Answers(parts=(sdp.Bits(), PETS))
        yes, pets = take_column([1, 0, 1, None, 1]), take_column(["dog", "cat", "cow", "cow", None])
        found = pair_people(yes, pets, both, on_invalid=OnInvalid.read("drop"))
        assert (
            found.column.array.to_pylist()
            == both.join([np.array([1, 0]), np.array([1, 0])]).tolist()
        )
        assert found.column.name == "values by values"
        assert (found.rows, found.invalid) == (5, NONE | {"null": 2, "unknown": 1})
        fine = take_column([1, 0]), take_column(["dog", "dog"])
        assert count_pairs(fine, both, Memory()).tolist() == np.bincount(
            both.join([np.array([1, 0]), np.array([1, 1])]), minlength=6).tolist()  # fmt: skip
        with pytest.raises(sdp.DataError, match="columns 'values' and 'values' differ in length"):
            pair_people(take_column([1]), take_column(["cat", "dog"]), both)

    def test_rows_that_are_picked(self):
        column = take_column(["a", "b", "c"])
        assert pick_rows(column, np.array([False, True, True])).array.to_pylist() == ["b", "c"]
        with pytest.raises(
            sdp.DataError, match="column 'values' has more values than there are people"
        ):
            pick_rows(column, np.array([True, True]))


class TestRuns:
    KRR = sdp.protocols.krr.make_local(k=3, epsilon=40.0)

    def test_what_a_run_tells(self):
        column = take_column(["cat", "dog", "cow", None, "dog"])
        found = run_file(self.KRR, column, domain=PETS, on_invalid="drop", engine="memory")
        assert isinstance(found, FileRun)
        assert (found.n, found.rows, found.engine, found.dealt) == (3, 5, "memory", True)
        assert found.invalid == NONE | {"null": 1, "unknown": 1}
        assert found.estimate.labels == PETS.names
        assert np.rint(found.estimate.value).tolist() == [1, 2, 0]
        assert run_file(self.KRR, take_column([0, 1, 1])).engine == "duckdb"
        with pytest.raises(sdp.DataError, match="has no valid value; without on_invalid"):
            run_file(self.KRR, take_column([None]), domain=PETS, on_invalid="drop")

    def test_codes_in_the_order_of_the_rows(self):
        column = take_column(["dog", "cow", "cat", None, "dog"])
        found = read_codes(column, PETS, "drop", threads=1)
        assert (found.codes.tolist(), found.rows) == ([1, 0, 1], 5)
        assert found.invalid == NONE | {"null": 1, "unknown": 1}
        assert "codes" not in repr(found)
        assert read_codes(column, PETS, "other").codes.tolist() == [1, 2, 0, 2, 1]
        with pytest.raises(sdp.DataError, match="has no valid value"):
            read_codes(take_column([None]), PETS, "drop")
        for read in (read_codes, headcount):
            told = []
            read(column, PETS, "drop", report=told.append)
            assert [each.rows for each in told] == [5]

    def test_engines_have_options_of_their_own(self):
        assert find_engine("duckdb", threads=2, master=None).threads == 2
        memory = Memory()
        assert find_engine(memory) is memory
        with pytest.raises(
            sdp.ParameterError, match="threads=2 is not an option of the memory engine"
        ):
            find_engine("memory", threads=2)
        with pytest.raises(
            sdp.ParameterError, match="engine='abacus' must be one of duckdb, memory, spark"
        ):
            find_engine("abacus")


def test_coded_values():
    codes = np.array([0, 1, 2])
    every = Coded(codes, None, None)
    assert (every.users, every.valid.tolist(), every.invalid()) == (3, [True] * 3, NONE)
    some = Coded(codes, np.array([True, False, False]), np.array([0, 1, 4], dtype=np.uint8))
    assert (some.users, some.valid.tolist()) == (1, [True, False, False])
    assert some.invalid() == NONE | {"null": 1, "nan": 1}
    assert some.invalid(np.array([5, 6, 7])) == NONE | {"null": 6, "nan": 7}


@pytest.mark.parametrize("dealt", [None, 0, 3])
def test_groups_in_which_nobody_has_a_valid_value(monkeypatch, dealt):
    tally = None if dealt is None else SimpleNamespace(users=dealt)
    monkeypatch.setattr(files, "code_groups", lambda *_: iter(()))
    monkeypatch.setattr(files, "deal_groups", lambda *_: tally)
    job = SimpleNamespace(column=None, nobody=lambda: sdp.DataError("nobody is there"))
    given = None, SimpleNamespace(group=lambda _: None), job, None
    if not dealt:
        with pytest.raises(sdp.DataError, match="nobody is there"):
            files._stream_groups(*given)
    else:
        found = files._stream_groups(*given)
        assert (found.tally, found.rows, found.invalid) == (tally, 0, NONE)
