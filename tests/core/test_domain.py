"""Public domains: values to codes and back, readable labels, and a refusal for everything else."""

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

import shuffledp as sdp
from shuffledp import (
    Bits,
    Categories,
    DataError,
    Integers,
    MismatchError,
    ParameterError,
    Reals,
    SeededWords,
)
from shuffledp.core.arrays import distinct
from shuffledp.core.domain import Answers, Domain
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.randomizer import encode_places, tape_width
from support import ALPHA, all_tapes

ALL = [
    Bits(),
    Categories(k=3),
    Categories(k=2, names=("cat", "dog")),
    Integers(lower=-4, upper=5),
    Reals(lower=-0.1, upper=0.3, steps=7),
]


@st.composite
def integer_domains(draw):
    lower, upper = sorted(draw(st.sets(st.integers(-(2**53), 2**53), min_size=2, max_size=2)))
    return Integers(lower=lower, upper=upper)


@st.composite
def real_domains(draw):
    finite = st.floats(-1e300, 1e300)
    lower, upper = sorted(draw(st.tuples(finite, finite).filter(lambda ends: ends[0] != ends[1])))
    steps = draw(st.integers(1, 2**32) | st.integers(1, 100))
    try:
        return Reals(lower=lower, upper=upper, steps=steps)
    except ParameterError:
        assume(False)  # too fine for the floats there


def codes_of(domain):
    """A few codes, both ends among them."""
    last = domain.size - 1
    return st.lists(st.integers(0, last), max_size=5).map(
        lambda some: np.array([0, last, *some], dtype=np.int64)
    )


@pytest.mark.parametrize("domain", ALL, ids=lambda d: type(d).__name__)
class TestEveryDomain:
    def test_is_a_domain(self, domain):
        assert isinstance(domain, Domain)

    def test_there_and_back(self, domain):
        codes = np.arange(domain.size)
        values = domain.values(codes)
        assert values.dtype == np.float64
        given_as = values if isinstance(domain, Reals) else values.astype(np.int64)
        np.testing.assert_array_equal(domain.codes(given_as), codes)

    def test_labels_are_distinct(self, domain):
        assert len(domain.labels) == len(set(domain.labels)) == domain.size
        assert all(isinstance(label, str) and label for label in domain.labels)

    def test_nothing_is_refused(self, domain):
        with pytest.raises(DataError, match="empty: at least one"):
            domain.codes([])

    @pytest.mark.parametrize("values", [3, [[0, 1], [1, 0]]], ids=["number", "matrix"])
    def test_other_shapes_are_refused(self, domain, values):
        with pytest.raises(DataError, match=r"one column, but have shape"):
            domain.codes(values)

    def test_ragged_rows_are_refused(self, domain):
        with pytest.raises(DataError, match="one column"):
            domain.codes([[0], [0, 1]])

    def test_equal_parameters_make_equal_domains(self, domain):
        assert hash(domain) == hash(type(domain)(**_fields(domain)))
        assert domain == type(domain)(**_fields(domain))


def _fields(domain):
    return {name: getattr(domain, name) for name in domain.__dataclass_fields__}


@given(st.data())
def test_integers_there_and_back(data):
    domain = data.draw(integer_domains())
    codes = data.draw(codes_of(domain))
    values = domain.values(codes)
    assert [int(value) for value in values] == [domain.lower + int(code) for code in codes]
    np.testing.assert_array_equal(domain.codes(values.astype(np.int64)), codes)


@given(st.data())
def test_reals_there_and_back(data):
    domain = data.draw(real_domains())
    codes = data.draw(codes_of(domain))
    values = domain.values(codes)
    assert values[0] == domain.lower
    assert values[1] == domain.upper
    np.testing.assert_array_equal(domain.codes(values), codes)


@given(st.data())
def test_reals_move_a_value_by_at_most_half_a_step(data):
    domain = data.draw(real_domains())
    value = data.draw(st.floats(domain.lower, domain.upper))
    code = int(domain.codes([value])[0])
    width = Fraction(domain.upper) - Fraction(domain.lower)
    moved = abs(Fraction(domain.lower) + code * width / domain.steps - Fraction(value))
    slack = 8 * Fraction(math.ulp(max(abs(domain.lower), abs(domain.upper))))
    assert moved <= width / domain.steps / 2 + slack


@given(
    lower=st.floats(-1e9, 1e9),
    width=st.floats(1e-6, 1e9),
    steps=st.integers(1, 300),
)
def test_labels_of_reals_are_distinct(lower, width, steps):
    try:
        domain = Reals(lower=lower, upper=lower + width, steps=steps)
    except ParameterError:
        return
    assert len(set(domain.labels)) == domain.size


class TestBits:
    def test_booleans_and_integers(self):
        assert Bits().codes([True, False, True]).tolist() == [1, 0, 1]
        assert Bits().codes(np.array([0, 1], dtype=np.uint8)).tolist() == [0, 1]
        assert Bits().codes([True]).dtype.kind == "i"

    @pytest.mark.parametrize("values", [[0.0, 1.0], ["0", "1"], [None, 1]])
    def test_wrong_type(self, values):
        with pytest.raises(DataError, match="booleans or the integers 0 and 1, but"):
            Bits().codes(values)

    @pytest.mark.parametrize(("values", "position"), [([0, 2], 1), ([-1, 0, 5], 0)])
    def test_outside(self, values, position):
        with pytest.raises(
            DataError, match=f"at position {position} is outside the domain 0 and 1"
        ):
            Bits().codes(values)


class TestCategories:
    @pytest.mark.parametrize("dtype", ["i1", "u1", ">i4", "i8", "u8"])
    def test_any_integers(self, dtype):
        assert Categories(k=3).codes(np.array([2, 0], dtype=dtype)).tolist() == [2, 0]

    def test_names_in_strings_and_objects(self):
        pets = Categories(k=2, names=["cat", "dog"])
        assert pets.labels == ("cat", "dog")
        assert pets.codes(["dog", "cat", "dog"]).tolist() == [1, 0, 1]
        assert pets.codes(np.array(["dog", "cat"], dtype=object)).tolist() == [1, 0]
        assert pets.codes([1, 1]).tolist() == [1, 1]

    def test_labels_without_names(self):
        assert Categories(k=3).labels == ("0", "1", "2")

    @pytest.mark.parametrize("stranger", ["bird", 1.5, None, {"a": 1}, ["cat"]])
    def test_stranger(self, stranger):
        values = np.empty(2, dtype=object)
        values[0], values[1] = "cat", stranger
        with pytest.raises(DataError, match="at position 1 is none of the categories"):
            Categories(k=2, names=("cat", "dog")).codes(values)

    def test_names_need_a_domain_with_names(self):
        with pytest.raises(DataError, match="categories are integer codes, but"):
            Categories(k=2).codes(["cat", "dog"])
        with pytest.raises(DataError, match="integer codes or their names, but"):
            Categories(k=2, names=("cat", "dog")).codes([0.5])

    @pytest.mark.parametrize("code", [3, -1, 2**40])
    def test_outside(self, code):
        with pytest.raises(
            DataError, match=rf"value {code} at position 2 is outside the domain 0 .. 2"
        ):
            Categories(k=3).codes([0, 1, code])

    @pytest.mark.parametrize(
        ("names", "requirement"),
        [
            (("cat",), "must have k=2 entries"),
            (("cat", ""), "must be non-empty strings"),
            ((1, 2), "must be non-empty strings"),
            ((["cat"], ["dog"]), "must be non-empty strings"),
            (("cat", "cat"), "must be distinct"),
        ],
    )
    def test_bad_names(self, names, requirement):
        with pytest.raises(ParameterError, match=requirement):
            Categories(k=2, names=names)

    @pytest.mark.parametrize("k", [1, 0, 2.0, True, "3"])
    def test_bad_k(self, k):
        with pytest.raises(ParameterError, match="k="):
            Categories(k=k)

    def test_numpy_k_becomes_an_int(self):
        assert type(Categories(k=np.int8(100)).size) is int


class TestIntegers:
    def test_small_numpy_ends_do_not_overflow(self):
        domain = Integers(lower=np.int8(-100), upper=np.int8(100))
        assert domain.size == 201
        assert domain.codes([100]).tolist() == [200]

    def test_small_types_do_not_overflow(self):
        domain = Integers(lower=-100, upper=300)
        assert domain.codes(np.array([-100, 100], dtype=np.int8)).tolist() == [0, 200]

    def test_huge_unsigned(self):
        with pytest.raises(DataError, match=r"position 1 is outside the domain -1 \.\. 1"):
            Integers(lower=-1, upper=1).codes(np.array([0, 2**64 - 1], dtype=np.uint64))

    def test_values_beyond_two_to_53_codes_are_exact(self):
        domain = Integers(lower=-(2**53), upper=2**53)
        code = domain.codes([2**53 - 1])
        assert int(domain.values(code)[0]) == 2**53 - 1

    @pytest.mark.parametrize("value", [-5, 6])
    def test_outside(self, value):
        with pytest.raises(
            DataError, match=rf"value {value} at position 1 is outside the domain -4 .. 5"
        ):
            Integers(lower=-4, upper=5).codes([0, value])

    @pytest.mark.parametrize("values", [[0.5], [1.0], ["1"]])
    def test_wrong_type(self, values):
        with pytest.raises(DataError, match="the domain is integers, but"):
            Integers(lower=0, upper=1).codes(values)

    @pytest.mark.parametrize(
        ("lower", "upper", "name"),
        [
            (1, 1, "upper"),
            (2, 1, "upper"),
            (0.0, 1, "lower"),
            (0, 2**53 + 1, "upper"),
            (0, None, "upper"),
        ],
    )
    def test_bad_ends(self, lower, upper, name):
        with pytest.raises(ParameterError, match=f"{name}="):
            Integers(lower=lower, upper=upper)

    def test_labels(self):
        assert Integers(lower=-1, upper=1).labels == ("-1", "0", "1")


class TestReals:
    def test_nearest_point(self):
        grid = Reals(lower=0.0, upper=1.0, steps=4)
        values = [0.0, 0.124, 0.126, 0.5, 0.874, 0.876, 1.0]
        assert grid.codes(values).tolist() == [0, 0, 1, 2, 3, 4, 4]

    @pytest.mark.parametrize(
        ("lower", "upper", "steps"), [(0.0, 0.3, 3), (-0.1, 0.3, 7), (0.1, 0.7, 3)]
    )
    def test_ends_are_met_exactly(self, lower, upper, steps):
        grid = Reals(lower=lower, upper=upper, steps=steps)
        assert grid.values(np.array([0, steps])).tolist() == [lower, upper]
        assert grid.codes([lower, upper]).tolist() == [0, steps]
        with pytest.raises(DataError, match="position 1"):
            grid.codes([lower, math.nextafter(upper, math.inf)])
        with pytest.raises(DataError, match="position 0"):
            grid.codes([math.nextafter(lower, -math.inf), upper])

    def test_integers_are_reals(self):
        ages = Reals(lower=0, upper=120, steps=120)
        codes = ages.codes(np.arange(121))
        assert codes.tolist() == list(range(121))
        assert ages.values(codes).tolist() == list(range(121))

    def test_ends_become_floats(self):
        grid = Reals(lower=np.float32(0.5), upper=2, steps=np.int16(3))
        assert (type(grid.lower), type(grid.upper), type(grid.steps)) == (float, float, int)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -0.001, 1.001])
    def test_outside(self, bad):
        with pytest.raises(DataError, match=r"at position 1 is outside the domain \[0.0, 1.0\]"):
            Reals(lower=0.0, upper=1.0, steps=4).codes([0.5, bad])

    @pytest.mark.parametrize("values", [["0.5"], [1j], [None]])
    def test_wrong_type(self, values):
        with pytest.raises(DataError, match="the domain is real numbers, but"):
            Reals(lower=0.0, upper=1.0, steps=4).codes(values)

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"lower": math.nan}, "lower"),
            ({"upper": math.inf}, "upper"),
            ({"upper": 0.0}, "upper"),
            ({"lower": "0"}, "lower"),
            ({"steps": 0}, "steps"),
            ({"steps": 2**32 + 1}, "steps"),
            ({"steps": 2.0}, "steps"),
            ({"lower": -1.7e308, "upper": 1.7e308}, "upper - lower"),
            ({"upper": 5e-324}, "steps"),
            ({"lower": 1e9, "upper": 1e9 + 1, "steps": 2**32}, "steps"),
        ],
    )
    def test_bad_parameters(self, change, name):
        with pytest.raises(ParameterError, match=f"^{name}="):
            Reals(**{"lower": 0.0, "upper": 1.0, "steps": 4, **change})

    def test_labels_tell_close_points_apart(self):
        assert Reals(lower=1e6, upper=1e6 + 1, steps=2).labels == (
            "1000000",
            "1000000.5",
            "1000001",
        )
        assert Reals(lower=0.0, upper=0.3, steps=3).labels == ("0", "0.1", "0.2", "0.3")


def test_public_names():
    for name in ("Bits", "Categories", "Integers", "Reals"):
        assert getattr(sdp, name) is globals()[name]


GRIDS = [
    Reals(lower=0.0, upper=1.0, steps=1),
    Reals(lower=-1.0, upper=2.0, steps=3),
    Reals(lower=0.1, upper=0.7, steps=1000),
    Reals(lower=1e6, upper=1e6 + 1, steps=2**20),
    Reals(lower=0.0, upper=1e300, steps=2**32),
]


class TestRounding:
    @pytest.mark.parametrize("grid", GRIDS, ids=str)
    @pytest.mark.parametrize("bits", [1, 3, 8])
    def test_every_word_is_counted_by_the_law(self, grid, bits):
        values = np.linspace(grid.lower, grid.upper, 23)
        words = np.arange(1 << bits, dtype=np.uint8)
        for place in grid.places(values).tolist():
            rounded = grid.round(np.full(len(words), place), words, bits).tolist()
            seen = {code: Fraction(rounded.count(code), len(words)) for code in set(rounded)}
            law = grid.rounding_law(place, bits)
            assert seen == {code: chance for code, chance in law.items() if chance}
            assert all(0 <= code <= grid.steps for code in law)

    @pytest.mark.parametrize("grid", GRIDS, ids=str)
    def test_the_expectation_is_the_value(self, grid):
        rng = np.random.default_rng(1)
        values = np.clip(
            grid.lower + (grid.upper - grid.lower) * rng.random(200), grid.lower, grid.upper
        )
        width = Fraction(grid.upper) - Fraction(grid.lower)
        for value, place in zip(values.tolist(), grid.places(values).tolist(), strict=True):
            law = grid.rounding_law(place, 64)
            assert sum(law.values()) == 1
            mean = sum(code * chance for code, chance in law.items()) / grid.steps
            assert abs(mean - (Fraction(value) - Fraction(grid.lower)) / width) < 1.02 * 2.0**-41

    @pytest.mark.parametrize("steps", [1, 3, 120, 1000, 99_991, 2**32])
    @pytest.mark.parametrize(
        ("lower", "upper"), [(0.0, 1.0), (-7.0, 113.0), (0.1, 0.7), (-1e9, 3.0)]
    )
    def test_points_of_the_grid_stay_there(self, steps, lower, upper):
        try:
            grid = Reals(lower=lower, upper=upper, steps=steps)
        except ParameterError:
            pytest.skip("floats are too far apart")
        codes = np.unique(np.linspace(0, steps, 500).astype(np.int64))
        places = grid.places(grid.values(codes))
        for word in (0, 2**64 - 1):
            words = np.full(len(codes), word, dtype=np.uint64)
            np.testing.assert_array_equal(grid.round(places, words, 64), codes)

    def test_places_do_not_depend_on_the_grid(self):
        values = np.random.default_rng(2).uniform(-3, 5, 100)
        coarse, fine = (Reals(lower=-3.0, upper=5.0, steps=steps) for steps in (2, 2**20))
        np.testing.assert_array_equal(coarse.places(values), fine.places(values))

    @pytest.mark.parametrize("shift", [0, 1], ids=["right", "mutant"])
    def test_sums_of_rounded_values_are_unbiased(self, shift):
        """Ten thousand values of one kind, rounded by words of 64 bits; a mutant that always rounds down is off."""
        grid, n = Reals(lower=0.0, upper=1.0, steps=10), 10_000
        places = grid.places(np.full(n, 0.123))
        words = SeededWords(5).words(n) | np.uint64(shift << 63)
        off = float(grid.round(places, words, 64).sum()) - 1.23 * n
        sd = math.sqrt(n * 0.23 * 0.77)
        assert (abs(off) < norm.isf(ALPHA / 2) * sd) == (shift == 0)

    @pytest.mark.parametrize(
        ("maker", "parameters"),
        [
            ("duchi", {"epsilon": 1.0, "word_bits": 8}),
            ("piecewise", {"epsilon": 1.0, "word_bits": 7}),
            ("unary_sum", {"n": 3, "epsilon": 1.0, "delta": 0.4, "ones": 1, "word_bits": 5}),
            ("rounded_sum", {"n": 3, "epsilon": 1.0, "delta": 0.2, "levels": 1, "word_bits": 7}),
        ],
    )
    def test_a_device_rounds_and_then_randomizes(self, maker, parameters):
        """Over every tape: the law at a place is the mixture of the laws at the points around it."""
        device = sdp.make(maker, lower=0.0, upper=3.0, steps=2, **parameters).randomizer
        bits, width = device.word_bits, tape_width(device)
        tapes = all_tapes(bits, width)
        for place in device.domain.places([0.0, 0.4, 1.5, 2.9, 3.0]).tolist():
            messages = encode_places(device, np.full(len(tapes), place), tapes)
            owner = np.asarray(messages.owner)
            ends = np.searchsorted(owner, np.arange(len(tapes) + 1))
            sent = messages.payload.tolist()
            seen = Counter(tuple(sorted(sent[a:b])) for a, b in pairwise(ends))
            mixed = Counter()
            for code, chance in device.domain.rounding_law(place, bits).items():
                for one, mass in device.pmf(code).items():
                    mixed[tuple(sorted(one))] += chance * mass
            assert {one: Fraction(c, len(tapes)) for one, c in seen.items()} == {
                one: mass for one, mass in mixed.items() if mass
            }


@dataclass(frozen=True)
class Spaced:
    """A domain of somebody else's: numbers at a distance."""

    size: int
    distance: float

    @property
    def labels(self):
        return tuple(map(str, range(self.size)))

    def codes(self, values):
        return np.asarray(values, dtype=np.int64)

    def values(self, codes):
        return codes * self.distance


@pytest.mark.parametrize(
    ("protocol", "domain", "fits"),
    [
        ("rr", Spaced(2, 1.0), True),
        ("rr", Spaced(2, 2.0), False),
        ("rr", Spaced(3, 1.0), False),
        ("rr", Categories(k=2), False),
        ("krr", Spaced(2, 2.0), True),
        ("krr", Spaced(3, 1.0), False),
        ("krr", Bits(), False),
        ("krr", Integers(lower=5, upper=6), True),
    ],
)
def test_a_protocol_takes_a_domain_whose_codes_mean_the_same(protocol, domain, fits):
    made = sdp.make(protocol, epsilon=1.0, **({"k": 2} if protocol == "krr" else {}))
    if fits:
        assert made.match_domain(domain) is domain
        return
    with pytest.raises(MismatchError, match="is for"):
        made.match_domain(domain)


def test_edges_of_cells_whose_range_is_nearly_all_floats():
    """Their range times their number is beyond the floats."""
    found = sdp.core.domain.Cells(lower=0.0, upper=1e308, cells=4).edges
    np.testing.assert_allclose(found, [0.0, 2.5e307, 5e307, 7.5e307, 1e308], rtol=1e-15)


def test_joint_codes_up_to_two_to_the_62():
    most = Answers(parts=(Integers(lower=0, upper=2**31 - 1),) * 2)
    assert most.size == 2**62
    last = np.array([2**31 - 1])
    assert most.join((last, last)).tolist() == [2**62 - 1]
    more = Answers(parts=(*most.parts, Bits()))
    with pytest.raises(UnsupportedError) as caught:
        more.join((last, last, last))
    assert str(caught.value) == (
        "9.22e+18 combinations of answers have no joint code: keep them as columns"
    )


def test_distinct_values_of_a_table():
    assert distinct(np.array([[3, 1], [1, 2]])).tolist() == [1, 2, 3]
