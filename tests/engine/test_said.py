"""How values of every type are read, filtered, coded and reduced, and what is said of those that are not (see said_table.py)."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from said_table import SaidTable, signatures
from shuffledp.core.domain import Bins, Cells
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.texts import Keys, Texts
from shuffledp.engine import (
    Filter,
    Memory,
    OnInvalid,
    People,
    chunks,
    codes,
    columns,
    files,
    filters,
    formats,
    local,
    messages,
    open_column,
    output,
    people,
    queries,
    reducing,
    spark,
    spelling,
    take_column,
    tallies,
    values,
)
from shuffledp.engine.codes import Coder
from shuffledp.engine.people import Reduce, looks_like_person, spell_names
from shuffledp.engine.reducing import Reduction
from shuffledp.engine.tallies import read_tallies, read_tally, write_tally

_DAYS = [datetime.date(2023, 12, 31), None, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]
_MOMENTS = [
    datetime.datetime(2024, 1, 2, 3, 4, 5),
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000),
]
_MOMENTS += [datetime.datetime(2024, 2, 29)]
COLUMNS = {
    "int8": pa.array([0, 1, None, -3], pa.int8()),
    "int64": pa.array([2, 2**60, None, -9]),
    "uint64": pa.array([1, 2**64 - 1, None, 0], pa.uint64()),
    "double": pa.array([1.0, 2.5, None, float("nan")]),
    "float": pa.array([0.5, float("inf"), -9.0, float("-inf")], pa.float32()),
    "decimal": pa.array([Decimal("1.00"), Decimal("2.50"), None, Decimal("-0.10")]),
    "bool": pa.array([True, False, None, True]),
    "date": pa.array(_DAYS),
    "timestamp": pa.array(_MOMENTS),
    "zoned": pa.array(_MOMENTS, pa.timestamp("us", "Europe/Berlin")),
    "time": pa.array([datetime.time(8, 30), None, datetime.time(0), datetime.time(23, 59, 59, 7)]),
    "list": pa.array([[1], [2], None, []]),
    "digits": pa.array(["1", " 02", "+3", "1.0", "-4", "2.50", "1e3", "0x1", "1_0", "9" * 20]),
    "words": pa.array(["yes", "True", "FALSE", "no", "t", "1", "0", "ja", "NA", ""]),
    "names": pa.array(["cat", " dog ", "Cat", None, "n/a", "other", "1.0", "2024-02-29"]),
    "dates": pa.array(["2024-02-29", "2023-02-29", "2024-01-02 03:04", "1.2.2024", "2024-1-2", "12:00", "2024-02-29T23:59:59Z"]),
    "large": pa.array(["7", "cat", None], pa.large_string()),
    "coded": pa.array(["cat", "dog", None, "cat"]).dictionary_encode(),
    "empty": pa.array([], pa.string()),
    "nulls": pa.nulls(3),
}  # fmt: skip
NAMES = ("cat", "dog", "1", "2.5", "true", "2024-02-29", "no")
DOMAINS = {
    "bits": sdp.Bits(),
    "cats": sdp.Bits(true_value="cat"),
    "ones": sdp.Bits(true_value="1"),
    "names": sdp.Categories(k=7, names=NAMES),
    "others": sdp.Categories(k=3, names=("cat", "dog", "other")),
    "codes": sdp.Categories(k=3),
    "integers": sdp.Integers(lower=-3, upper=2),
    "reals": sdp.Reals(lower=-1.0, upper=2.5, steps=7),
    "cells": Cells(lower=-1.0, upper=2.5, cells=7),
    "bins": Bins(edges=(-1.0, 0.0, 1.0, 2.5)),
    "texts": Texts(alphabet="letters", max_length=3),
    "keys": Keys(bits=8),
}


def tried(work, *given):
    """What it is, or why not."""
    try:
        return work(*given)
    except ShuffledpError as error:
        return f"{type(error).__name__}: {error}"


def each(work, names=tuple(COLUMNS)):
    """A line for every column."""
    return {name: tried(work, COLUMNS[name]) for name in names}


def lines(found):
    return "\n".join(f"{name}: {_plain(value)}" for name, value in found.items())


def _plain(value):
    match value:
        case values.Numbers():
            faults = None if value.faults is None else value.faults.tolist()
            good = np.ones(len(value.values), dtype=bool) if faults is None else value.faults == 0
            shown = [
                float(f"{one:.9g}") for one in np.asarray(value.values, dtype=float)[good].tolist()
            ]
            return f"{shown} {faults}"
        case pa.Array() | pa.ChunkedArray():
            return value.to_pylist()
        case np.ndarray():
            return value.tolist()
    return value


def code(name, policy="error", **columns):
    """The codes of every column in a domain, and what is wrong with the others."""

    def work(array):
        coder = Coder(domain=DOMAINS[name], on_invalid=OnInvalid.read(policy))
        coded = coder.codes(values.flatten(array))
        faults = None if coded.faults is None else np.asarray(coded.faults).tolist()
        good = coded.valid
        return f"{np.asarray(coded.codes)[good].tolist()} {faults} {coded.users} {coded.invalid()}"

    return lines(each(work))


def choose(text, missing=None, **columns):
    """Which rows a filter takes of every column, which it calls x."""
    asked = Filter.read(text, missing)
    return lines(each(lambda array: np.flatnonzero(asked.choose({"x": array}.__getitem__))))


def against(mark):
    """Pairs of columns of one length that are compared with each other."""
    asked, short = (
        Filter.read(f"x {mark} y"),
        [n for n, a in COLUMNS.items() if len(a) == 4 and n != "list"],
    )
    return "\n".join(
        f"{one}: " + "; ".join(
            f"{other} {np.flatnonzero(asked.choose({'x': COLUMNS[one], 'y': COLUMNS[other]}.__getitem__)).tolist()}"
            for other in short
        )
        for one in short
    )  # fmt: skip


def describe(name, content, column=None, **given):
    """What a file is taken for, without its folder."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        asked = formats.Files(str(path), **given) if given else path
        try:
            (file,) = formats.find_files(
                asked, formats.Format.LINES if column is None else formats.Format.CSV
            )
            read = open_column(asked, column)
            got = [_plain(values.flatten(chunk.array)) for chunk in read_all(read)]
        except ShuffledpError as error:
            said = f"{type(error).__name__}: {error}".replace(folder, "")
            ours, unread, theirs = said.partition(" cannot be read: ")
            return (
                said if theirs.startswith("it is") else ours + unread
            )  # readers say it in words of their own
        parts = (
            file.format,
            file.bytes,
            file.columns,
            file.types,
            file.rows,
            file.rows_guess,
            file.delimiter,
        )
        return f"{parts} {read.name} {got}".replace(folder, "")


def read_all(column):
    from shuffledp.engine.columns import read_chunks

    return read_chunks(column, 1)


_I = np.arange(60)
TABLE = pa.table(
    {
        "who": _I * _I % 17,
        "n": pa.array(_I * 37 % 16 - 4, mask=_I % 9 == 0),
        "x": pa.array((_I * 29 % 97) / 10.0, mask=_I % 7 == 0),
        "yes": _I % 3 == 0,
        "way": [("car", "bus", "tram")[i] for i in _I * 7 // 5 % 3],
        "at": [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(i * 11 % 60)) for i in _I],
    }
)


def reduce(
    name,
    how,
    domain,
    policy="drop",
    where=None,
    by=None,
    groups=None,
    listed=False,
    kind="memory",
    **people,
):
    """What the rows of people become; the same of a table, of Parquet and of CSV."""
    whose = People.read("who", **people) if people or how else None
    with TemporaryDirectory() as folder:
        chosen = None if where is None else Filter.read(where)
        given = {"people": whose, "where": chosen, **({} if by is None else {"also": (by,)})}
        if kind == "memory":
            column = take_column(TABLE, name, **given)
        elif kind == "parquet":
            pq.write_table(TABLE, f"{folder}/rows.parquet")
            column = open_column(f"{folder}/rows.parquet", name, **given)
        else:
            pa.csv.write_csv(TABLE, f"{folder}/rows.csv")
            column = open_column(f"{folder}/rows.csv", name, **given)
        asked = Reduction(
            column=column, how=Reduce(how), domain=domain, policy=OnInvalid.read(policy), key="key", by=by,
            groups=groups, listed=listed,
        )  # fmt: skip
        found = Memory().reduce(asked)
        group = None if found.groups is None else found.groups.array.to_pylist()
        counts = None if found.counts is None else np.asarray(found.counts).tolist()
        return (
            asked.kind,
            asked.of_rows,
            found.column.array.to_pylist(),
            counts,
            group,
            found.tell(),
        )


def alike(*given, **named):
    """What all three give, which is the same but for how much of it is told."""
    found = [reduce(*given, kind=kind, **named) for kind in ("memory", "parquet", "csv")]
    assert found[0][2:5] == found[1][2:5]
    assert sorted(map(str, found[1][2])) == sorted(map(str, found[2][2]))
    return found[0]


def tally(**changed):
    """The tally of a file in which something is different, or why it is none."""
    made = sdp.protocols.krr.make_local(k=2, epsilon=1.0)
    collected = sdp.engine.Collected(
        protocol=made, tally=sdp.Tally(counts=np.array([3, 1]), users=4), shuffles=(4,)
    )
    with TemporaryDirectory() as folder:
        path = Path(folder, "tally.json")
        write_tally(collected, path)
        content = json.loads(path.read_text(encoding="utf-8"))
        content = {name: value for name, value in {**content, **changed}.items() if value != "gone"}
        path.write_text(changed.get("text", json.dumps(content)), encoding="utf-8")
        try:
            found = read_tally(path)
            return found.tally.counts.tolist(), found.tally.users, found.shuffles, found.labels
        except ShuffledpError as error:
            return f"{type(error).__name__}: {error}".replace(f"{folder}/", "")


def texts(*given):
    return pa.array(given)


TABLE_OF_TEXTS = SaidTable(
    path=Path(__file__).with_name("said.txt"),
    names={
        "Decimal": Decimal,
        "COLUMNS": COLUMNS,
        "Filter": Filter,
        "NAMES": NAMES,
        "OnInvalid": OnInvalid,
        "People": People,
        "against": against,
        "alike": alike,
        "choose": choose,
        "code": code,
        "datetime": datetime,
        "describe": describe,
        "each": each,
        "formats": formats,
        "lines": lines,
        "modules": [
            chunks,
            codes,
            columns,
            files,
            filters,
            formats,
            local,
            messages,
            output,
            people,
            queries,
            reducing,
            spark,
            spelling,
            tallies,
            values,
        ],
        "looks_like_person": looks_like_person,
        "np": np,
        "read_tallies": read_tallies,
        "sdp": sdp,
        "signatures": signatures,
        "spell_names": spell_names,
        "spelling": spelling,
        "tally": tally,
        "texts": texts,
        "values": values,
    },
)


@pytest.mark.parametrize("expression", TABLE_OF_TEXTS.said)
def test_said(expression):
    TABLE_OF_TEXTS.check(expression)


if __name__ == "__main__":
    TABLE_OF_TEXTS.write()
