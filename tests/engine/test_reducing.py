"""Rows that a database reduces by itself become the same people, bit by bit, as rows that Python reads."""

import math

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from file_support import write
from shuffledp.engine import OnInvalid, People, Reduce, open_column, reducing
from shuffledp.engine.reducing import Reduction, reduce_here

WHOLE = [2**63 - 1, -(2**63), 2**62, 2**53 + 1, -(2**53) - 1, 2**40 + 1, 3, 0, -7]
REAL = [math.inf, -math.inf, 5e-324, -0.0, 1e300, 2.0**53 + 2, 0.1, 2.5, 1 / 3, math.nan]
TYPED = {
    pa.int64(): WHOLE,
    pa.int32(): [2**31 - 1, -(2**31), 5, 0],
    pa.uint32(): [2**32 - 1, 0, 9],
    pa.float64(): REAL,
    pa.float32(): [each for each in REAL if each != 1e300],
    pa.bool_(): [True, False],
}
HOURS = sdp.Reals(lower=0.0, upper=8.0, steps=8)
# Fixed-point numbers of units below 2^-52, of exactly that, of 1, and beyond.
ENDS = (2.0**-12, 2.0**-11, 2.0**41, 2.0**43)
ASKED = (
    *((how, sdp.Integers(lower=0, upper=50)) for how in (Reduce.SUM, Reduce.MIN, Reduce.ROWS)),
    (Reduce.MEAN, sdp.Integers(lower=-(2**53), upper=2**53)),
    *((how, HOURS) for how in (Reduce.SUM, Reduce.MEAN, Reduce.MAX)),
    *((Reduce.SUM, sdp.Reals(lower=0.0, upper=end, steps=8)) for end in ENDS),
)
TOLD = ((Reduce.ANY, sdp.Bits()), (Reduce.ALL, sdp.Bits()))


KM = sdp.Integers(lower=0, upper=50)


def people_of(where, how, domain, policy, **named):
    """The people of a file, or what is refused, as text."""
    column = open_column(where, "v", people=People.read("who", **named))
    asked = {"how": how, "domain": domain, "policy": OnInvalid.read(policy), "key": "key"}
    try:
        found = reduce_here(Reduction(column=column, **asked))
    except sdp.DataError as error:
        return str(error).replace(str(where), "")
    array = found.column.array
    bits = [each.hex() if isinstance(each, float) else each for each in array.to_pylist()]
    return str(array.type), bits, found.rows, found.taken, found.counts.tolist()


def compare(where, monkeypatch, asked, policy, **named):
    """How many reductions the database did by itself, all of them equal to Python's."""
    write_query, queries = reducing.write_direct, []

    def watch(*given):
        queries.append(write_query(*given))
        return queries[-1]

    with monkeypatch.context() as patched:
        patched.setattr(reducing, "write_direct", watch)
        found = [people_of(where, *each, policy, **named) for each in asked]
        patched.setattr(reducing, "write_direct", lambda *_: None)
        for each, one in zip(asked, found, strict=True):
            assert one == people_of(where, *each, policy, **named), each
    return sum(each is not None for each in queries)


def write_rows(where, kind, known):
    rng = np.random.default_rng(5)
    rows = [known[place] for place in rng.integers(len(known), size=300)]
    rows += [known[0]] * 3 + [known[1]] * 3  # beyond 64 bits, all of one sign
    who = [*rng.integers(150, size=300).tolist(), *[900] * 3, *[901] * 3]
    return write({"who": who, "v": pa.array(rows, kind)}, where / "t.parquet")


@pytest.mark.parametrize("kind", TYPED, ids=str)
def test_values_at_the_ends_of_their_types(tmp_path, monkeypatch, kind):
    """What is missing is left out by both, and refused in the same words."""
    asked = TOLD if kind == pa.bool_() else ASKED
    where = write_rows(tmp_path, kind, [*TYPED[kind], None])
    # A whole number of a real one is for Python: 2.5 is none.
    wanted = len(asked) - 2 * (kind in (pa.float64(), pa.float32()))
    assert compare(where, monkeypatch, asked, "drop") == wanted
    assert compare(where, monkeypatch, asked[-1:], "error") == 1
    assert "is " in people_of(where, *asked[-1], "error")


def test_nulls_and_numbers_that_are_none_count_as_nothing(tmp_path):
    where = write_rows(tmp_path, pa.int64(), [4, None])
    _, values, rows, taken, counts = people_of(where, Reduce.MEAN, KM, "drop")
    assert {*values} == {(4.0).hex(), None}
    assert rows == 306 > taken == sum(counts)
