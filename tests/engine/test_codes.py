"""From a column of a file to codes, under every policy; plain Python is the oracle."""

import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp import Bits, Categories, DataError, Integers, ParameterError, Reals, UnsupportedError
from shuffledp.core.domain import PLACE_BITS
from shuffledp.engine.codes import Coder, OnInvalid, as_numpy

PETS = Categories(k=3, names=("cat", "dog", "other"))
AGES = Integers(lower=-2, upper=9)
SHARES = Reals(lower=0.0, upper=1.0, steps=4)
QUARTER = 1 << PLACE_BITS - 2
NONE = {"null": 0, "unknown": 0, "out_of_range": 0, "nan": 0}


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
        (Categories(k=3), [2, 0], [2, 0]),
        (Categories(k=3), ["2", "0"], [2, 0]),
        (PETS, ["dog", "cat", "other"], [1, 0, 2]),
        (Categories(k=2, names=("30", "7")), [7, 30, 7], [1, 0, 1]),
        (Categories(k=2, names=("true", "false")), [True, False], [0, 1]),
        (Categories(k=3, names=("日本", "é", "e\u0301")), ["e\u0301", "é", "日本"], [2, 1, 0]),
        (AGES, [-2, 9], [0, 11]),
        (AGES, ["-2", "9", "007"], [0, 11, 9]),
        (SHARES, [0.0, 0.3, 1.0], [0, 659_706_976_666, 4 * QUARTER]),
        (SHARES, [0, 1], [0, 4 * QUARTER]),
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
        (Bits(), [True, None], "value None at position 1 is missing"),
        (Bits(), [0, 2], "value 2 at position 1 is neither true nor false"),
        (Bits(), ["0", "yes"], "value 'yes' at position 1 is neither true nor false"),
        (Categories(k=3), [0, 3], "value 3 at position 1 is none of the categories"),
        (Categories(k=3), [0, -1], "value -1 at position 1 is none of the categories"),
        (Categories(k=3), ["0", "x"], "value 'x' at position 1 is none of the categories"),
        (PETS, ["cat", "Cat"], "value 'Cat' at position 1 is none of the categories"),
        (PETS, ["cat", ""], "value '' at position 1 is missing"),
        (AGES, [9, 10], r"value 10 at position 1 is outside the domain -2 .. 9"),
        (AGES, ["9", "9.5"], "value '9.5' at position 1 is not an integer"),
        (AGES, ["9", "0x9"], "value '0x9' at position 1 is not an integer"),
        (AGES, ["9", " 9"], "value ' 9' at position 1 is not an integer"),
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
        (Bits(), [0.0, 1.0]),
        (Categories(k=3), [0.0]),
        (PETS, [0.5]),
        (AGES, [1.0]),
        (AGES, [True]),
        (SHARES, [True]),
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
            (AGES, [1, 10, None, -3], [3], {"null": 1, "out_of_range": 2}),
            (AGES, ["1", "10", None, "x"], [3], {"null": 1, "out_of_range": 1, "unknown": 1}),
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
    assert coded.codes.tolist() == [names.index(v) if v in names else 2 for v in values]


def test_other_domains_are_refused():
    class Colours:
        size = 2

    with pytest.raises(UnsupportedError, match="files have no values for the domain"):
        Coder(domain=Colours(), on_invalid="error").codes(pa.array([1]))


def test_policies_have_names():
    assert [each.value for each in OnInvalid] == ["error", "drop", "other", "clamp"]
    assert OnInvalid.read(OnInvalid.CLAMP) is OnInvalid.CLAMP


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
        "text = pa.concat_arrays([pa.nulls(2, pa.string()), sdp.engine.codes._text_array(('1', 'x', '')).cast(pa.string())]); "
        "domains = sdp.Categories(k=2, names=('1', 'b')), sdp.Integers(lower=0, upper=9), sdp.Reals(lower=0, upper=9, steps=9), sdp.Bits(); "
        "print(*(Coder(domain=domain, on_invalid='drop').codes(text).users for domain in domains)); "
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1", "1", "False"]
