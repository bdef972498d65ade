"""From a column of a file to codes, under every policy; plain Python is the oracle."""

import math
import subprocess
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shuffledp as sdp
from shuffledp import Bits, Categories, DataError, Integers, ParameterError, Reals, UnsupportedError
from shuffledp.core.domain import PLACE_BITS, Bins, Cells
from shuffledp.engine import values as readers
from shuffledp.engine.codes import Coder, OnInvalid
from shuffledp.engine.values import as_numpy

PETS = Categories(k=3, names=("cat", "dog", "other"))
AGES = Integers(lower=-2, upper=9)
SHARES = Reals(lower=0.0, upper=1.0, steps=4)
QUARTER = 1 << PLACE_BITS - 2
NONE = {"null": 0, "unknown": 0, "out_of_range": 0, "nan": 0}


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Texts are read as if there were many of them; `test_few_texts_are_read_like_many` has the others."""
    monkeypatch.setattr(readers, "_FEW", 0)


def code(domain, values, on_invalid="error", kind=None):
    return Coder(domain=domain, on_invalid=on_invalid).codes(pa.array(values, type=kind))


def kept(coded):
    return (coded.codes if coded.kept is None else coded.codes[coded.kept]).tolist()


TEXTS = (pa.string(), pa.large_string(), pa.string_view())


@pytest.mark.parametrize(
    ("domain", "values", "codes"),
    [
        (Bits(), [True, False], [1, 0]),
        (Bits(), [1, 0], [1, 0]),
        (Bits(), ["true", "FALSE", "False", "1", "0"], [1, 0, 0, 1, 0]),
        (Bits(), ["Yes", "NO", "y", "N", "t", "F", " yes "], [1, 0, 1, 0, 1, 0, 1]),
        (Bits(), ["1.0", "0.0", "1e0", "+1", " 0"], [1, 0, 1, 1, 0]),
        (Bits(), [1.0, 0.0], [1, 0]),
        (Bits(true_value="AA"), ["AA", "UA", " AA ", "aa"], [1, 0, 1, 0]),
        (Bits(true_value="AA"), ["AA", "AA"], [1, 1]),
        (Bits(true_value="2"), [2, 3, 2], [1, 0, 1]),
        (Bits(true_value="2013-07-04"), [date(2013, 7, 4), date(2013, 7, 5)], [1, 0]),
        (Bits(), [Decimal("1"), Decimal("0")], [1, 0]),
        (Categories(k=3), [2, 0], [2, 0]),
        (Categories(k=3), ["2", "0"], [2, 0]),
        (Categories(k=3), ["2.0", " 0", "1e0"], [2, 0, 1]),
        (Categories(k=3), [2.0, 0.0], [2, 0]),
        (PETS, ["dog", "cat", "other"], [1, 0, 2]),
        (PETS, ["dog ", " cat", "\tother"], [1, 0, 2]),
        (Categories(k=2, names=(" a", "a")), ["a", " a", "  a"], [1, 0, 1]),
        (Categories(k=2, names=("517", "0.5")), [517.0, 0.5], [0, 1]),
        (Categories(k=2, names=("517.0", "0.5")), [517.0, 0.5], [0, 1]),
        (Categories(k=2, names=("True", "False")), [True, False], [0, 1]),
        (Categories(k=2, names=("1", "0")), [True, False], [0, 1]),
        (
            Categories(k=2, names=("2013-01-01", "2013-07-04")),
            [date(2013, 7, 4), date(2013, 1, 1)],
            [1, 0],
        ),
        (
            Categories(k=2, names=("2013-01-01 05:00:00", "2013-07-04")),
            [datetime(2013, 7, 4), datetime(2013, 1, 1, 5)],
            [1, 0],
        ),
        (Categories(k=2, names=("2013-01-01T05:00:00", "x")), [datetime(2013, 1, 1, 5)], [0]),
        (Categories(k=2, names=("05:30:00", "x")), [time(5, 30)], [0]),
        (Categories(k=2, names=("30", "7")), [7, 30, 7], [1, 0, 1]),
        (Categories(k=2, names=("true", "false")), [True, False], [0, 1]),
        (Categories(k=3, names=("日本", "é", "e\u0301")), ["e\u0301", "é", "日本"], [2, 1, 0]),
        (AGES, [-2, 9], [0, 11]),
        (AGES, ["-2", "9", "007"], [0, 11, 9]),
        (AGES, ["-2.0", "9.00", "+7", " 3 ", "5e+00", "0.4E1"], [0, 11, 9, 5, 7, 6]),
        (AGES, [-2.0, 9.0], [0, 11]),
        (AGES, [Decimal("-2.0"), Decimal("9")], [0, 11]),
        (AGES, [True, False], [3, 2]),
        (AGES, ["true", "FALSE"], [3, 2]),
        (Integers(lower=0, upper=2000), ["1.4e+03"], [1400]),
        (Integers(lower=0, upper=2**53), ["9007199254740992.0"], [2**53]),
        (Integers(lower=15000, upper=16000), [date(2013, 1, 1)], [706]),
        (Integers(lower=0, upper=100_000), [time(0, 1)], [60]),
        (SHARES, [0.0, 0.3, 1.0], [0, 659_706_976_666, 4 * QUARTER]),
        (SHARES, [0, 1], [0, 4 * QUARTER]),
        (SHARES, [True, False], [4 * QUARTER, 0]),
        (
            SHARES,
            ["True", "false", " 0.5 ", "+1"],
            [quarters * QUARTER for quarters in (4, 0, 2, 4)],
        ),
        (Reals(lower=0, upper=4, steps=4), [datetime(1970, 1, 1, 0, 0, 3)], [3 * QUARTER]),
        (Reals(lower=0, upper=4, steps=4), [timedelta(seconds=3)], [3 * QUARTER]),
        (
            SHARES,
            ["0", ".5", "1e0", "1.", "2.5e-1"],
            [quarters * QUARTER for quarters in (0, 2, 4, 4, 1)],
        ),
    ],
)
def test_valid_values(domain, values, codes):
    kinds = TEXTS if isinstance(values[0], str) else (None,)
    for kind in kinds:
        coded = code(domain, values, kind=kind)
        assert coded.codes.tolist() == codes
        assert coded.kept is None
        assert coded.invalid() == NONE


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.int64()])
def test_any_integers(kind):
    assert code(Integers(lower=0, upper=1000), [0, 100], kind=kind).codes.tolist() == [0, 100]
    assert code(Categories(k=1000), [0, 100], kind=kind).codes.tolist() == [0, 100]


def test_dictionaries_and_chunks():
    coder = Coder(domain=PETS, on_invalid="drop")
    encoded = pa.array(["dog", None, "cow", "cat"]).dictionary_encode()
    for array in (encoded, pa.chunked_array([encoded]), pa.chunked_array([encoded, encoded])):
        coded = coder.codes(array)
        times = len(array) // 4
        assert kept(coded) == [1, 0] * times
        assert coded.invalid() == NONE | {"null": times, "unknown": times}


@pytest.mark.parametrize(
    ("domain", "values", "complaint"),
    [
        (Bits(), [True, None], "the value at position 1 is missing"),
        (Bits(), [0, 2], "value 2 at position 1 is neither true nor false"),
        (Bits(), ["0", "maybe"], "value 'maybe' at position 1 is neither true nor false"),
        (Bits(), ["0", "2"], "value '2' at position 1 is neither true nor false"),
        (Bits(), [0.0, 0.5], "value 0.5 at position 1 is neither true nor false"),
        (Categories(k=3), [0.0, 0.5], "value 0.5 at position 1 is none of the categories"),
        (PETS, ["cat", "  "], "value '  ' at position 1 is missing"),
        (PETS, ["cat", "NA"], "value 'NA' at position 1 is missing"),
        (PETS, [0.5, 0.5], "value 0.5 at position 0 is none of the categories"),
        (AGES, [1.0, 1.5], "value 1.5 at position 1 is not an integer"),
        (AGES, [1.0, math.nan], "value nan at position 1 is not a number"),
        (AGES, [1.0, 1e300], "value 1e[+]300 at position 1 is outside the domain"),
        (Integers(lower=0, upper=2**53), ["0", "9007199254740993.0"], "position 1 is outside"),
        (
            Integers(lower=0, upper=2**53),
            ["0", "9007199254740991.5"],
            "position 1 is not an integer",
        ),
        (AGES, ["9", "NA"], "value 'NA' at position 1 is missing"),
        (Categories(k=3), [0, 3], "value 3 at position 1 is none of the categories"),
        (Categories(k=3), [0, -1], "value -1 at position 1 is none of the categories"),
        (Categories(k=3), ["0", "x"], "value 'x' at position 1 is none of the categories"),
        (PETS, ["cat", "Cat"], "value 'Cat' at position 1 is none of the categories"),
        (PETS, ["cat", ""], "value '' at position 1 is missing"),
        (AGES, [9, 10], r"value 10 at position 1 is outside the domain -2 .. 9"),
        (AGES, ["9", "9.5"], "value '9.5' at position 1 is not an integer"),
        (AGES, ["9", "0x9"], "value '0x9' at position 1 is not a number"),
        (AGES, ["9", "9 9"], "value '9 9' at position 1 is not a number"),
        (AGES, ["9", "+-9"], "value '[+]-9' at position 1 is not a number"),
        (AGES, ["9", "9" * 40], "position 1 is outside the domain -2"),
        (SHARES, [0.5, 1.5], r"value 1.5 at position 1 is outside the domain 0.0 .. 1.0"),
        (SHARES, [0.5, math.inf], "value inf at position 1 is outside"),
        (SHARES, [0.5, math.nan], "value nan at position 1 is not a number"),
        (SHARES, ["0.5", "nan"], "value 'nan' at position 1 is not a number"),
        (SHARES, ["0.5", "0,5"], "value '0,5' at position 1 is not a number"),
        (SHARES, ["0.5", "1_0"], "value '1_0' at position 1 is not a number"),
    ],
)
def test_the_first_invalid_value_is_named(domain, values, complaint):
    with pytest.raises(DataError, match=complaint):
        code(domain, [*values, values[1]])


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Bits(), [b"1"]),
        (PETS, [b"cat"]),
        (AGES, [b"9"]),
        (SHARES, [b"0.5"]),
        (SHARES, [[0.5]]),
    ],
)
def test_wrong_types(domain, values):
    with pytest.raises(
        DataError, match=r"the domain wants .*, but the column holds values of type"
    ):
        code(domain, values, "drop")


class TestDrop:
    @pytest.mark.parametrize(
        ("domain", "values", "codes", "invalid"),
        [
            (PETS, ["cow", "dog", None, "", "cat"], [1, 0], {"null": 2, "unknown": 1}),
            (Categories(k=2), [5, 1, None], [1], {"null": 1, "unknown": 1}),
            (Bits(), ["true", "maybe", None], [1], {"null": 1, "unknown": 1}),
            (Bits(true_value="AA"), ["AA", "UA", None, ""], [1, 0], {"null": 2}),
            (AGES, [1, 10, None, -3], [3], {"null": 1, "out_of_range": 2}),
            (AGES, ["1", "10", None, "x"], [3], {"null": 1, "out_of_range": 1, "unknown": 1}),
            (
                AGES,
                ["1", "one", " ", "n/a", "NULL", "none", "nan", "inf", "1e400"],
                [3],
                {"null": 4, "out_of_range": 2, "unknown": 1, "nan": 1},
            ),
            (
                AGES,
                [1.0, math.nan, math.inf, None],
                [3],
                {"null": 1, "out_of_range": 1, "nan": 1},
            ),
            (Bits(), ["yes", "NA", "nan", "2.0", "0.5"], [1], {"null": 1, "nan": 1, "unknown": 2}),
            (SHARES, ["0.5", "NA", "null"], [2 * QUARTER], {"null": 2}),
            (SHARES, [None, None], [], {"null": 2}),
            (
                Categories(k=2, names=("1", "2")),
                [1.0, 3.0, math.nan, None],
                [0],
                {"unknown": 1, "null": 2},  # a gap in pandas is a NaN
            ),
            (
                SHARES,
                [0.5, None, math.nan, math.inf, -0.1],
                [2 * QUARTER],
                {"null": 1, "nan": 1, "out_of_range": 2},
            ),
            (
                SHARES,
                ["0.5", "", "nan", "-Infinity", "half"],
                [2 * QUARTER],
                {"null": 1, "nan": 1, "out_of_range": 1, "unknown": 1},
            ),
        ],
    )
    def test_counts_and_leaves_out(self, domain, values, codes, invalid):
        coded = code(domain, values, "drop")
        assert kept(coded) == codes
        assert coded.users == len(codes)
        assert coded.invalid() == NONE | invalid

    def test_values_that_occur_often_count_often(self):
        coded = code(PETS, ["cow", "dog", None], "drop")
        times = np.array([10, 20, 30])
        assert coded.invalid(times) == NONE | {"null": 30, "unknown": 10}

    def test_nobody_is_left(self):
        assert code(AGES, [100, None], "drop").users == 0


class TestOther:
    def test_unknown_and_missing_categories_become_other(self):
        coded = code(PETS, ["cow", "dog", None], "other")
        assert coded.codes.tolist() == [2, 1, 2]
        assert coded.kept is None
        assert coded.invalid() == NONE | {"null": 1, "unknown": 1}

    @pytest.mark.parametrize("domain", [Categories(k=3), Bits(), AGES, SHARES])
    def test_must_be_declared(self, domain):
        with pytest.raises(ParameterError, match="needs a declared category 'other'"):
            Coder(domain=domain, on_invalid="other")


class TestClamp:
    def test_numbers_go_to_the_nearest_end(self):
        coded = code(AGES, [-100, 4, 2**62], "clamp")
        assert coded.codes.tolist() == [0, 6, 11]
        assert coded.invalid() == NONE | {"out_of_range": 2}
        assert code(AGES, [2**64 - 1], "clamp", pa.uint64()).codes.tolist() == [11]
        assert code(AGES, ["-" + "9" * 30, "9" * 30], "clamp").codes.tolist() == [0, 11]

    def test_infinities_too(self):
        coded = code(SHARES, [-math.inf, 0.5, math.inf, 1e308], "clamp")
        assert coded.codes.tolist() == [0, 2 * QUARTER, 4 * QUARTER, 4 * QUARTER]
        assert coded.invalid() == NONE | {"out_of_range": 3}

    @pytest.mark.parametrize(
        ("domain", "values"),
        [(AGES, [1, None]), (SHARES, [0.5, None]), (SHARES, [0.5, math.nan]), (AGES, ["1", "x"])],
    )
    def test_what_is_no_number_is_still_an_error(self, domain, values):
        with pytest.raises(DataError, match="at position 1"):
            code(domain, values, "clamp")

    @pytest.mark.parametrize("domain", [Bits(), PETS])
    def test_is_for_numbers(self, domain):
        with pytest.raises(ParameterError, match="categories have no ends"):
            Coder(domain=domain, on_invalid="clamp")


@given(st.lists(st.integers(-(10**25), 10**25), min_size=1, max_size=20))
def test_integers_as_text_and_as_numbers(values):
    domain = Integers(lower=-1000, upper=10**15)
    coded = code(domain, list(map(str, values)), "clamp")
    expected = [min(max(v, -1000), 10**15) + 1000 for v in values]
    assert coded.codes.tolist() == expected
    outside = sum(not -1000 <= v <= 10**15 for v in values)
    assert coded.invalid() == NONE | {"out_of_range": outside}


@given(st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_reals_as_text_and_as_numbers(values):
    numbers, text = code(SHARES, values, "drop"), code(SHARES, list(map(repr, values)), "drop")
    assert kept(numbers) == kept(text)
    assert numbers.invalid() == text.invalid()
    inside = [v for v in values if 0 <= v <= 1]
    assert kept(numbers) == (SHARES.places(inside).tolist() if inside else [])


@given(st.lists(st.text(max_size=3) | st.none(), min_size=1, max_size=20))
def test_any_text_is_a_category_or_not(values):
    names = ("a", "é", "other")
    coded = code(Categories(k=3, names=names), values, "other", pa.string())
    plain = [v if v is None or v in names else _trim(v) for v in values]
    assert coded.codes.tolist() == [names.index(v) if v in names else 2 for v in plain]


def _trim(text):
    return pc.utf8_trim_whitespace(pa.scalar(text)).as_py()


class Dice:
    """A domain from another package: even faces first."""

    size = 6
    labels = ("2", "4", "6", "1", "3", "5")

    def codes(self, values):
        return np.array([self._code(value) for value in values])

    def _code(self, value):
        if value not in (1, 2, 3, 4, 5, 6):
            raise DataError("not a face")
        return (value - 1) // 2 + 3 * (value % 2)

    def values(self, codes):
        return np.array([2, 4, 6, 1, 3, 5])[codes].astype(float)


@pytest.mark.parametrize("faces", [[2, 1, None, 7, 2], ["2", " 1.0", None, "x", "2"]])
def test_domains_of_others_read_their_own_values(faces):
    coded = code(Dice(), faces, "drop")
    assert kept(coded) == [0, 3, 0]
    assert coded.invalid() == NONE | {"null": 1, "unknown": 1}
    with pytest.raises(DataError, match="is not in the domain"):
        code(Dice(), faces, "null=drop")
    with pytest.raises(ParameterError, match="clamp"):
        Coder(domain=Dice(), on_invalid="clamp")


def test_what_is_no_domain_is_refused():
    class Colours:
        size = 2

    with pytest.raises(UnsupportedError, match="files cannot be read as"):
        Coder(domain=Colours(), on_invalid="error").codes(pa.array([1]))


class TestPolicies:
    @pytest.mark.parametrize(
        ("given", "actions", "shown"),
        [
            ("error", "error error error error", "error"),
            ("drop", "drop drop drop drop", "drop"),
            ("other", "other other error error", "other"),
            ("clamp", "error error clamp error", "clamp"),
            ("clamp,drop", "drop drop clamp drop", "null=drop,unknown=drop,out_of_range=clamp,nan=drop"),
            ("drop, clamp", "drop drop clamp drop", "null=drop,unknown=drop,out_of_range=clamp,nan=drop"),
            ("null=drop,clamp", "drop error clamp error", "null=drop,out_of_range=clamp"),
            ("drop,null=error", "error drop drop drop", "unknown=drop,out_of_range=drop,nan=drop"),
            ({"null": "other", "unknown": "drop"}, "other drop error error", "null=other,unknown=drop"),
            (OnInvalid.CLAMP, "error error clamp error", "clamp"),
        ],
    )  # fmt: skip
    def test_an_action_for_each_fault(self, given, actions, shown):
        policy = OnInvalid.read(given)
        chosen = [policy.null, policy.unknown, policy.out_of_range, policy.nan]
        assert [action.value for action in chosen] == actions.split()
        assert str(policy) == policy.value == shown
        assert OnInvalid.read(shown) == policy

    @pytest.mark.parametrize(
        "given", ["", "skip", "drop,skip", "zero=drop", "null=skip", 3, "null"]
    )
    def test_nonsense(self, given):
        with pytest.raises(ParameterError, match="must be one of error, drop, other, clamp"):
            OnInvalid.read(given)

    @pytest.mark.parametrize("given", ["null=clamp", "nan=other", "out_of_range=other"])
    def test_actions_that_make_no_sense(self, given):
        with pytest.raises(ParameterError, match="only"):
            OnInvalid.read(given)

    def test_clamp_what_is_out_of_range_and_drop_nulls(self):
        coded = code(AGES, [1, None, 100, -100], "out_of_range=clamp,null=drop")
        assert kept(coded) == [3, 11, 0]
        assert coded.users == 3
        assert coded.invalid() == NONE | {"null": 1, "out_of_range": 2}
        with pytest.raises(DataError, match="'x' at position 1 is not a number"):
            code(AGES, ["1", "x"], "out_of_range=clamp,null=drop")

    def test_other_for_unknown_and_drop_nulls(self):
        coded = code(PETS, ["cow", None, "dog"], "unknown=other,null=drop")
        assert kept(coded) == [2, 1]
        assert coded.invalid() == NONE | {"null": 1, "unknown": 1}

    def test_errors_say_how_to_go_on(self):
        with pytest.raises(DataError, match=r"to go on: on_invalid null=drop or null=other$"):
            code(PETS, [None])
        with pytest.raises(DataError, match=r"go on: on_invalid out_of_range=clamp$"):
            code(AGES, [100])
        with pytest.raises(DataError, match=r"go on: on_invalid out_of_range=clamp,null=drop$"):
            code(AGES, [1, None], "clamp")


def test_a_huge_label_makes_no_huge_message():
    with pytest.raises(DataError) as caught:
        code(PETS, ["x" * 10_000_000])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("start", [0, 1, 7, 9, 20])
@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64(),
     pa.float16(), pa.float32(), pa.float64()],
    ids=str,
)  # fmt: skip
def test_arrays_are_what_arrow_says(kind, start):
    whole = (
        pa.array(np.arange(20) % 2, type=pa.int64())
        .cast(pa.float32() if kind == pa.float16() else kind)
        .cast(kind)
    )
    part = whole.slice(start)
    found, expected = as_numpy(part), part.to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_pandas_is_not_imported_on_the_way():
    code = (
        "import sys, pyarrow as pa, shuffledp as sdp; from shuffledp.engine.codes import Coder; "
        "text = pa.concat_arrays([pa.nulls(2, pa.string()), sdp.engine.values._make_texts(('1', 'x', '')).cast(pa.string())]); "
        "domains = sdp.Categories(k=2, names=('1', 'b')), sdp.Integers(lower=0, upper=9), sdp.Reals(lower=0, upper=9, steps=9), sdp.Bits(); "
        "print(*(Coder(domain=domain, on_invalid='drop').codes(text).users for domain in domains)); "
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1", "1", "False"]


@pytest.mark.parametrize(
    "domain", [Cells(lower=0.0, upper=4.0, cells=4), Bins(edges=(0.0, 1.0, 2.0, 3.0, 4.0))], ids=str
)
class TestCells:
    """Numbers in cells are numbers: faults have their names, and many values take one pass."""

    VALUES = (0.0, 1.5, None, float("nan"), 9.0, -1.0, 4.0)

    def test_faults_have_their_names(self, domain):
        coded = Coder(domain=domain, on_invalid="drop").codes(pa.array(self.VALUES))
        assert coded.invalid() == {"null": 1, "unknown": 0, "out_of_range": 2, "nan": 1}

    def test_clamp(self, domain):
        coder = Coder(domain=domain, on_invalid="clamp,drop")
        coded = coder.codes(pa.array(self.VALUES))
        assert coded.codes[coded.kept].tolist() == [0, 1, 3, 0, 3]

    def test_text_and_integers(self, domain):
        below = isinstance(
            domain, Cells
        )  # a number on an edge belongs to the lower cell, but to the upper bin
        for values, places in (
            (["0", " 1.5 ", "4e0"], [0, 1, 3]),
            ([0, 1, 4], [0, 0 if below else 1, 3]),
        ):
            coder = Coder(domain=domain, on_invalid="error")
            assert coder.codes(pa.array(values)).codes.tolist() == places

    def test_it_asks_once_for_many(self, domain, monkeypatch):
        calls = []
        codes = type(domain).codes
        monkeypatch.setattr(
            type(domain), "codes", lambda self, values: calls.append(1) or codes(self, values)
        )
        Coder(domain=domain, on_invalid="error").codes(pa.array(np.linspace(0, 4, 1000)))
        assert calls == [1]


def test_a_large_number_is_no_bit():
    """2^32 must not become 0 by overflow."""
    with pytest.raises(DataError, match="4294967296"):
        code(Bits(), ["yes", "4294967296"])


STRANGE = [
    "1", "0", "+7", "-3", " 12", "12 ", "007", "1.0", "-0.0", ".5", "5.", "1e3", "1E+03", "9" * 18, "9" * 19, "1_000", "٣",
    "inf", "-Infinity", "NaN", "nan", "true", "FALSE", "Yes", "n", "Y", "cat", " dog", "Dog", "", " ", "NA", "null", "été",
    "K", "İ", "0x10", "1e999", "--1",
]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    "read",
    [
        readers.read_bits,
        readers.read_numbers,
        lambda array: readers.read_integers(array, "integers"),
        lambda array: readers.read_names(array, ("cat", "dog", "été", "1.0", "")),
    ],
)
def test_few_texts_are_read_like_many(read, kind, monkeypatch):
    """Few are read in Python, many by PyArrow."""
    whole = pa.array(["before", *STRANGE], kind).slice(1)
    for array in (whole, *(whole.slice(place, 1) for place in range(len(whole)))):
        monkeypatch.setattr(readers, "_FEW", 64)
        few = read(array)
        monkeypatch.setattr(readers, "_FEW", 0)
        every = read(array)
        np.testing.assert_array_equal(few.values, every.values)
        assert few.values.dtype.kind == every.values.dtype.kind
        assert (few.faults is None) == (every.faults is None)
        assert few.faults is None or few.faults.tolist() == every.faults.tolist()


@pytest.mark.parametrize(
    ("domain", "values", "said"),
    [
        (
            AGES,
            [4, 4.5],
            "is not an integer (for real numbers, write an end with a point, such as 0.0, or give `steps`)",
        ),
        (
            AGES,
            ["4", "4.5"],
            "is not an integer (for real numbers, write an end with a point, such as 0.0, or give `steps`)",
        ),
        (
            SHARES,
            ["0.5", "0,5"],
            "is not a number (decimals have a point; `decimal` declares commas)",
        ),
        (Bits(), ["yes", "Ja"], "is neither true nor false (true_value says which one is yes)"),
    ],
)
def test_no_hint_leaves_out_what_was_only_written_in_another_way(domain, values, said):
    with pytest.raises(DataError) as refused:
        code(domain, values)
    assert str(refused.value).endswith(said)


@pytest.mark.parametrize("policy", ["drop", "clamp,drop", "unknown=drop"])
@pytest.mark.parametrize("task", ["mean", "quantiles", "histogram", "std"])
def test_no_policy_leaves_out_fractions(policy, task):
    """Whole degrees are a tenth of all temperatures: to keep these alone would bias every answer."""
    degrees = [f"{each / 10:g}" for each in range(300)] + ["x"] * 5
    asked = {"epsilon": 1.0, "model": "central", "on_invalid": policy, "rng": sdp.SeededWords(1)}
    with pytest.raises(
        sdp.DataError, match=r"'0\.1' .*is not an integer .* does not leave out fractions"
    ):
        sdp.ask(degrees, task, lower=0, upper=30, **asked)
    if task != "histogram":
        assert sdp.ask(degrees, task, lower=0.0, upper=30.0, **asked).n == 300
    whole = [each for each in degrees if "." not in each]
    assert sdp.ask(whole, task, lower=0, upper=30, **asked).n == len(whole) - 5


@pytest.mark.parametrize("steps", [1, 2, 4, 10])
@pytest.mark.parametrize("bits", [16, 40, 64])
def test_without_words_a_value_goes_to_the_nearest_point(steps, bits):
    shares = [0.0, 0.01, 0.13, 0.24, 0.26, 0.49, 0.51, 0.74, 0.76, 0.99, 1.0]
    coder = Coder(domain=Reals(lower=-1, upper=1, steps=steps), on_invalid=OnInvalid.ERROR)
    places = coder.codes(pa.array([2 * each - 1 for each in shares])).codes
    assert coder.round(places, bits=bits).tolist() == [round(each * steps) for each in shares]
    assert coder.round(places).tolist() == coder.round(places, bits=bits).tolist()
    whole = Coder(domain=AGES, on_invalid=OnInvalid.ERROR)
    assert whole.round(np.array([3, 0])).tolist() == [3, 0]
