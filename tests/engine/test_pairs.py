"""Pairs of two columns: every engine counts the same, whatever holds them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import shuffledp as sdp
from shuffledp.core.domain import Answers
from shuffledp.engine import DuckDB, Memory
from shuffledp.engine import columns as module
from shuffledp.engine.codes import OnInvalid
from shuffledp.engine.local import count_pairs, count_values, pair_people

RNG = np.random.default_rng(5)
N = 5000
TABLE = pa.table(
    {
        "a.b": RNG.integers(0, 7, N),
        "way": RNG.choice(["car", "bus", "other"], N),
        "height": RNG.random(N),
    }
)
WAYS = sdp.Categories(k=3, names=("car", "bus", "other"))
DOMAIN = Answers(parts=(sdp.Integers(lower=0, upper=6), WAYS))


def truth():
    ways = np.searchsorted(["bus", "car", "other"], TABLE["way"].to_pylist())
    codes = np.array([1, 0, 2])[ways]
    return np.bincount(DOMAIN.join((TABLE["a.b"].to_numpy(), codes)), minlength=21)


@pytest.fixture
def files(tmp_path):
    pq.write_table(TABLE, tmp_path / "people.parquet")
    write_csv(TABLE, tmp_path / "people.csv")
    pq.write_table(TABLE.slice(0, 3000), tmp_path / "part-1.parquet")
    pq.write_table(TABLE.slice(3000), tmp_path / "part-2.parquet")
    return tmp_path


def columns(path, first="a.b"):
    return sdp.open_column(str(path), first), sdp.open_column(str(path), "way")


@pytest.mark.parametrize("engine", [DuckDB(), Memory()])
@pytest.mark.parametrize("name", ["people.parquet", "people.csv", "part-*.parquet"])
def test_files(files, engine, name):
    found = count_pairs(columns(files / name), DOMAIN, engine)
    np.testing.assert_array_equal(found, truth())


def test_arrays():
    both = tuple(sdp.engine.take_column(TABLE, name) for name in ("a.b", "way"))
    np.testing.assert_array_equal(
        count_pairs(both, DOMAIN, Memory(), on_invalid=OnInvalid.ERROR), truth()
    )


def test_values_of_all_kinds_are_read_row_by_row(files, monkeypatch):
    """Grouping numbers with fractions would find a group for each row."""
    monkeypatch.setattr(module, "_group_files", None)
    cells = Answers(parts=(sdp.core.domain.Cells(lower=0.0, upper=1.0, cells=4), WAYS))
    both = columns(files / "people.parquet", "height")
    assert count_pairs(both, cells, DuckDB(), on_invalid=OnInvalid.ERROR).sum() == N


def test_an_invalid_value_is_named_with_its_row(files):
    narrow = Answers(parts=(sdp.Integers(lower=1, upper=6), WAYS))
    with pytest.raises(sdp.DataError, match="row"):
        count_pairs(columns(files / "people.parquet"), narrow, DuckDB(), on_invalid=OnInvalid.ERROR)
    clamped = count_pairs(
        columns(files / "people.parquet"), narrow, DuckDB(), on_invalid=OnInvalid.CLAMP
    )
    assert clamped.sum() == N


def test_filters(files):
    first = sdp.open_column(str(files / "people.parquet"), "a.b", where="height > 0.5")
    second = sdp.open_column(str(files / "people.parquet"), "way", where="height > 0.5")
    found = count_pairs((first, second), DOMAIN, DuckDB(), on_invalid=OnInvalid.ERROR)
    assert found.sum() == (TABLE["height"].to_numpy() > 0.5).sum()


@pytest.mark.parametrize("kind", [list, np.uint8])
def test_integers_between_the_points_of_a_grid_are_rounded_without_bias(kind):
    """The points are 0.5, 1.5, 2.5 and 3.5: an integer is none of them, though the steps are as wide as 1."""
    own, values = sdp.Reals(lower=0.5, upper=3.5, steps=3), np.tile([1, 2, 3, 2], 2000)
    domain = Answers(parts=(own, sdp.Categories(k=2, names=("all", "none"))))
    numbers = values.tolist() if kind is list else values.astype(kind)
    answers, groups = (sdp.engine.take_column(each) for each in (numbers, ["all"] * 8000))
    pairs = pair_people(answers, groups, domain, rng=sdp.SeededWords(3))
    rounded = own.values(pairs.column.array.to_numpy().astype(np.int64))
    np.testing.assert_array_equal(np.abs(rounded - values), 0.5)
    assert abs(float((rounded - values).sum())) < 6 * 0.5 * np.sqrt(8000)
    device = sdp.protocols.duchi.make_local(lower=0.5, upper=3.5, steps=3, epsilon=1.0).randomizer
    counted = count_values(device, np.full(4000, 2), sdp.SeededWords(1))
    assert counted[0] == counted[3] == 0
    assert abs(counted[1] - 2000) < 6 * np.sqrt(1000)
