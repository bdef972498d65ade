"""`sdp.run` takes a column of NumPy, pandas, Polars or PyArrow alike."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shuffledp as sdp

NAMES = ["dog", "cat", "dog", "bird"]
PETS = sdp.Categories(k=3, names=("bird", "cat", "dog"))
NUMBERS = [2, 0, 1, 2]
BITS = [True, False, True, True]
SHARES = [0.5, 0.0, 1.0, 0.25]

MAKERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "pandas": pd.Series,
    "pandas index": pd.Index,
    "pandas categorical": lambda v: pd.Series(v, dtype="category"),
    "pandas nullable": lambda v: pd.Series(v).convert_dtypes(),
    "pandas arrow": lambda v: pd.Series(v).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow chunks": lambda v: pa.chunked_array([v[:1], v[1:]]),
    "arrow dictionary": lambda v: pa.array(v).dictionary_encode(),
    "arrow dictionary chunks": lambda v: pa.chunked_array([v[:1], v[1:]]).dictionary_encode(),
}
CATEGORICAL = {
    "polars categorical": lambda v: pl.Series(v, dtype=pl.Categorical),
    "polars enum": lambda v: pl.Series(v, dtype=pl.Enum(["bird", "cat", "dog"])),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
class TestEveryKind:
    @pytest.mark.parametrize(
        ("domain", "values", "codes"),
        [
            (sdp.Bits(), BITS, [1, 0, 1, 1]),
            (sdp.Categories(k=3), NUMBERS, NUMBERS),
            (sdp.Integers(lower=-1, upper=2), NUMBERS, [3, 1, 2, 3]),
            (sdp.Reals(lower=0.0, upper=1.0, steps=4), SHARES, [2, 0, 4, 1]),
            (PETS, NAMES, [2, 1, 2, 0]),
        ],
        ids=["bits", "categories", "integers", "reals", "names"],
    )
    def test_codes(self, make, domain, values, codes):
        assert domain.codes(make(values)).tolist() == codes

    def test_run(self, make):
        protocol = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
        expected = sdp.run(protocol, NUMBERS, sdp.SeededWords(1))
        found = sdp.run(protocol, make(NUMBERS), sdp.SeededWords(1))
        np.testing.assert_array_equal(found.value, expected.value)

    def test_empty(self, make):
        with pytest.raises(sdp.DataError, match="at least one value"):
            sdp.Categories(k=3).codes(make(NUMBERS)[:0])


@pytest.mark.parametrize("make", CATEGORICAL.values(), ids=CATEGORICAL)
def test_polars_categories(make):
    assert PETS.codes(make(NAMES)).tolist() == [2, 1, 2, 0]


NULLABLE = {
    "pandas Int64": lambda: pd.Series([1, 2, None], dtype="Int64"),
    "pandas boolean": lambda: pd.Series([True, True, None], dtype="boolean"),
    "pandas text": lambda: pd.Series(["cat", "dog", None]),
    "pandas categorical": lambda: pd.Series(["cat", "dog", None], dtype="category"),
    "pandas arrow": lambda: pd.Series([1, 2, None]).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.Series([1, 2, None]),
    "polars text": lambda: pl.Series(["cat", "dog", None]),
    "arrow": lambda: pa.array([1, 2, None]),
    "arrow chunks": lambda: pa.chunked_array([[1, 2], [None]]),
    "arrow dictionary": lambda: pa.array(["cat", "dog", None]).dictionary_encode(),
}


@pytest.mark.parametrize("make", NULLABLE.values(), ids=NULLABLE)
def test_a_null_is_named_by_its_position(make):
    for domain in (sdp.Bits(), PETS, sdp.Integers(lower=0, upper=9)):
        with pytest.raises(sdp.DataError, match="at position 2 is missing"):
            domain.codes(make())


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pd", "pl", "pa"])
def test_a_table_is_no_column(make):
    with pytest.raises(sdp.DataError, match="one column, but have shape"):
        sdp.Categories(k=3).codes(make({"a": [0, 1, 2]}))


def test_a_later_null_is_found_before_anybody_is_randomized():
    values = pl.Series([0] * 300_000 + [None])
    source = sdp.SeededWords(1)
    with pytest.raises(sdp.DataError, match="position 300000 is missing"):
        sdp.run(sdp.protocols.krr.make_local(k=3, epsilon=1.0), values, source)
    assert source.words(1) == sdp.SeededWords(1).words(1)
