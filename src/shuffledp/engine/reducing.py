# ruff: noqa: S608  (the queries hold names of our own, and names of columns in quotes)
"""Turn rows into people: the only place where that happens, before anything else sees values.

The database's own group-by makes one value of each person's rows, and everything after it (codes, protocols, tallies)
knows people only. Three rules make it private:

- A person's value is a function of that person's own rows and of coins of their own. A choice hashes the key of the
  run, the person, and the rank of the row by its content among that person's rows: one person's rows never move
  another's.
- Sums are sums of integers, so that the order in which an engine adds them up changes nothing. Real numbers are written
  as fixed-point numbers, in units of 2^-42 of the larger declared end; rows beyond 1,024 times that end count as that.
- Everybody stays. Whoever has no valid row that the private filter takes has no value: a null, which counts as
  nothing and does not change n.

How many rows there are, or were cut, is not covered by any promise: it is for the operator alone.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from shuffledp.core.arrays import Bools
from shuffledp.core.domain import Bins, Bits, Categories, Cells, Domain, Integers, Reals
from shuffledp.core.errors import DataError, PositionError, show_value, tell_value
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.codes import Action, Coder, OnInvalid
from shuffledp.engine.columns import Column, read_arrays
from shuffledp.engine.formats import explain_unreadable
from shuffledp.engine.people import (
    BEYOND_BITS,
    POINT_BITS,
    MissingPerson,
    Of,
    People,
    Reduce,
    count_rows,
    is_clean,
    spell_names,
    write_direct,
)
from shuffledp.engine.queries import connect, stream_batches
from shuffledp.engine.spelling import OTHER_DATES
from shuffledp.engine.values import (
    BEYOND,
    NAN,
    OUT_OF_RANGE,
    as_arrow,
    as_numpy,
    find_missing,
    flatten,
    is_text,
    mark,
    read_integers,
    read_numbers,
)
from shuffledp.numerics.entropy import SeededWords

_LATE_YEAR = r"^\s*[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{1,4}"
_ROWS = 1 << 17  # in a batch
_NOBODY = "\x00row "  # what begins the name of a row that names nobody; no text of a file begins so


class Dialect(NamedTuple):
    """How a database spells what the others spell differently."""

    coin: Callable[[str], str]
    """Sixty bits from a text, as an integer."""
    huge: str
    """A type of integers to which 2^40 sixty-bit numbers can be added up."""
    ranks: Callable[[str, str], str]
    """A row for each integer from the first on, the second excluded."""
    text: str
    once: str
    """What makes it compute a part of a query once: rows that are streamed cannot be read again."""
    struct: Callable[[tuple[str, ...]], str]


DUCKDB = Dialect(
    coin=lambda text: f"('0x' || substr(md5({text}), 1, 15))::bigint",
    huge="hugeint",
    ranks=lambda first, end: f"unnest(range({first}, {end}))",
    text="varchar",
    once="materialized",
    struct=lambda names: "{" + ", ".join(f"'{name}': {name}" for name in names) + "}",
)


def make_run_key(rng: WordSource | None) -> str:
    """Return the key of a run, as hexadecimal digits: fresh and secret, or from the seed.

    >>> make_run_key(SeededWords(1)) == make_run_key(SeededWords(1)) != make_run_key(None)
    True
    """
    if isinstance(rng, SeededWords):
        return hashlib.sha256(f"shuffledp people {rng.seed}".encode()).hexdigest()[:32]
    return os.urandom(16).hex()


class Rows(NamedTuple):
    """Some rows: their columns by name, as Arrow arrays, and where they stand."""

    arrays: Mapping[str, Any]
    file: str | None
    """None for columns in memory."""
    row: int
    """The number of the first one in its file."""


def read_rows(column: Column, names: Sequence[str], threads: int | None = None) -> Iterator[Rows]:
    """Return the rows of a column with these columns beside it, all of them: filters are not applied.

    >>> from shuffledp.engine import take_column
    >>> taken = take_column({"who": [1, 1], "legs": [4, 2]}, "legs", people=People.read("who"))
    >>> [(rows.arrays["who"].to_pylist(), rows.row) for rows in read_rows(taken, ["who", "legs"])]
    [(['1', '1'], 0)]
    """
    if column.array is not None:
        known = {**column.beside, column.name: column.array}
        for row in range(0, len(column.array), _ROWS):
            yield Rows({name: known[name].slice(row, _ROWS) for name in names}, None, row)
        return
    for file in column.files:
        row = 0
        with explain_unreadable(file.path):
            for arrays in read_arrays(file, [*names], threads):
                yield Rows(arrays, file.path, row)
                row += len(arrays[names[0]])


class Reduced(NamedTuple):
    """One value for each person, in the order of their names, and what only the operator may know."""

    column: Column
    """The values; null for somebody who has none."""
    groups: Column | None
    """The groups of the same people; None unless they were asked for."""
    rows: int
    """How many rows were read, also those that name nobody: not covered by the promise."""
    taken: int
    """How many of them counted: valid, taken by the filter, and not beyond `max_rows`."""
    counts: Any
    """How many rows of each person count."""

    def tell(self) -> str:
        """Say what the operator may know, and nobody else."""
        return f"{self.rows:,} rows were read, and {self.taken:,} of them count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What becomes of the rows of a column: all that an engine must know.

    >>> from shuffledp.engine import take_column
    >>> table = {"who": ["a", "b", "a"], "km": [3, 5, 4]}
    >>> column = take_column(table, "km", people=People.read("who"))
    >>> how = Reduction(column=column, how=Reduce.SUM, domain=Integers(lower=0, upper=9), policy=OnInvalid.ERROR, key="")
    >>> reduce_here(how).column.array.to_pylist()
    [7, 5]
    """

    column: Column
    how: Reduce
    domain: Domain
    """The domain of the values in the rows. Its ends bound people's values, or rows' if the answer is about rows."""
    policy: OnInvalid
    key: str
    """The key of the run: see `make_run_key`."""
    by: str | None = None
    """The column of groups, if there is one."""
    groups: Domain | None = None
    listed: bool = False
    """Whether every row that counts is a value by itself, and every category of a person: for histograms."""

    @property
    def people(self) -> People | None:
        """Who is who; None: every row is a person, and a private filter says who counts."""
        return self.column.people

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        where, people = self.column.where, self.people
        more = (
            *(() if people is None else people.columns),
            *(() if where is None else where.columns),
            *(() if self.by is None else (self.by,)),
        )
        return tuple(dict.fromkeys((self.column.name, *more)))

    @property
    def kind(self) -> str:
        """How the values are written: as codes, whole numbers, fixed-point numbers or text."""
        if self.how is Reduce.ROWS:
            return "none"
        if self.how in (Reduce.ANY, Reduce.ALL) or isinstance(self.domain, Bits | Categories):
            return "codes"
        if isinstance(self.domain, Integers) and self.how is not Reduce.MEAN:
            return "whole"
        return "point" if isinstance(self.domain, Integers | Reals | Cells | Bins) else "text"

    @property
    def of_rows(self) -> int | None:
        """The most rows of a person that count, if the answer is about rows."""
        return (
            self.people.max_rows if self.people is not None and self.people.of is Of.ROWS else None
        )

    @property
    def _by_row(self) -> bool:
        """Whether the ends of the range are those of the value in a row."""
        return self.people is None or self.people.of is Of.ROWS or self.listed

    @property
    def unit(self) -> float:
        """What a fixed-point number counts."""
        assert isinstance(self.domain, Integers | Reals | Cells | Bins)
        end = max(abs(float(self.domain.lower)), abs(float(self.domain.upper)))
        return math.ldexp(1.0, math.frexp(end)[1] + BEYOND_BITS - POINT_BITS)

    @property
    def width(self) -> int:
        """How many columns name a person."""
        return 0 if self.people is None else len(self.people.person)

    def read(self, rows: Rows, whole: tuple[bool, ...]) -> Any:
        """Read some rows as an Arrow batch: person, value, group, order, and whether the row counts.

        `whole` says which of the columns that name a person hold integers by their type.
        """
        import pyarrow as pa

        taken = self._choose(rows)
        places = np.flatnonzero(taken)
        try:  # what a filter does not take is not even looked at
            values, valid = self._read_values(_pick(rows.arrays[self.column.name], places))
            groups = np.zeros(len(places), dtype=np.int64)
            if self.groups is not None and self.by is not None:
                coder = Coder.for_part(self.groups, self.policy)
                coded = coder.codes(flatten(_pick(rows.arrays[self.by], places)))
                valid, groups = valid & coded.valid, coded.codes.astype(np.int64)
        except PositionError as error:
            raise _place(error, rows, places) from None
        columns, kept = self._name_people(rows, whole)
        columns["v"] = _spread(values, places, len(taken))
        if self.groups is not None:
            columns["g"] = _spread(pa.array(groups), places, len(taken))
        if self.people is not None and self.people.order is not None:
            columns |= self._read_order(rows.arrays[self.people.order])
        where = self.column.where
        if where is not None and not where.private:
            kept = kept & taken
        columns["ok"] = _spread(pa.array(valid), places, len(taken))
        batch = pa.RecordBatch.from_pydict(columns)
        return batch if kept.all() else batch.filter(pa.array(kept))

    def _choose(self, rows: Rows) -> Bools:
        where = self.column.where
        size = len(rows.arrays[self.column.name])
        return (
            np.ones(size, dtype=np.bool_)
            if where is None
            else where.choose(rows.arrays.__getitem__)
        )

    def _read_values(self, array: Any) -> tuple[Any, Bools]:
        """Return the values as integers, or as texts, and which of them are valid."""
        import pyarrow as pa

        plain = flatten(self.column.measure(array))
        if self.kind == "none":
            return pa.array(np.zeros(len(plain), np.int64)), np.ones(len(plain), dtype=np.bool_)
        if self.kind in ("codes", "text"):
            coded = Coder.for_part(self.domain, self.policy, self.column.moments).codes(plain)
            if self.kind == "text":
                return plain.cast(pa.string()), coded.valid
            return pa.array(coded.codes.astype(np.int64)), coded.valid
        whole = self.kind == "whole"
        missing = self.policy.missing
        read = read_integers(plain, "integers", missing) if whole else read_numbers(plain, missing)
        values, faults = read
        if not whole and np.isnan(values).any():
            faults = mark(faults, np.isnan(values), NAN)
        if self.people is None:  # a row is a person: its value itself has to be in the range
            lower, upper = self.domain.lower, self.domain.upper  # type: ignore[attr-defined]
            beyond = (values < lower) | (values > upper)
            faults = mark(faults, beyond, OUT_OF_RANGE) if beyond.any() else faults
        elif faults is not None:
            faults = np.where(faults == OUT_OF_RANGE, 0, faults).astype(np.uint8)
        valid = np.ones(len(plain), dtype=np.bool_)
        if faults is not None:
            Coder.for_part(self.domain, self.policy, self.column.moments).refuse(plain, faults)
            valid = ~self.policy.choose(faults, Action.DROP)
        return pa.array(self._write_numbers(values, whole=whole)), valid

    def _write_numbers(self, values: Any, *, whole: bool) -> Any:
        lower, upper = self.domain.lower, self.domain.upper  # type: ignore[attr-defined]
        if whole:
            if values.dtype == np.uint64:
                values = np.minimum(values, np.uint64(BEYOND))
            ends = (lower, upper) if self._by_row else (-BEYOND, BEYOND)
            return np.clip(values.astype(np.int64, copy=False), *ends)
        most = math.ldexp(self.unit, POINT_BITS)
        low, high = (lower, upper) if self._by_row else (-most, most)
        limited = np.clip(np.nan_to_num(values, nan=0.0, posinf=most, neginf=-most), low, high)
        return np.rint(limited / self.unit).astype(np.int64)

    def _name_people(self, rows: Rows, whole: tuple[bool, ...]) -> tuple[dict[str, Any], Bools]:
        """Return the columns that name the person, and which rows are kept."""
        import pyarrow as pa
        import pyarrow.compute as pc

        size = len(rows.arrays[self.column.name])
        kept = np.ones(size, dtype=np.bool_)
        people = self.people
        if people is None:
            return {}, kept
        gone, columns = np.zeros(size, dtype=np.bool_), {}
        for place, name in enumerate(people.person):
            array = flatten(rows.arrays[name])
            gone |= find_missing(array, self.policy.missing)
            if whole[place]:
                columns[f"p{place}"] = array.cast(pa.int64())
            else:
                columns[f"p{place}"] = spell_names(array)
        if not gone.any():
            return columns, kept
        if people.missing is MissingPerson.ERROR:
            first = int(np.argmax(gone)) + rows.row
            where = f"row {first + 1} of {rows.file}" if rows.file else f"position {first}"
            raise DataError(
                f"{where} names no person ({' and '.join(people.person)}); to go on: missing_person drop, or own to "
                "count such a row as a separate person"
            )
        if people.missing is MissingPerson.DROP:
            return columns, ~gone
        own = pa.array([f"{_NOBODY}{rows.file or ''} {rows.row + place}" for place in range(size)])
        for name in columns:
            columns[name] = pc.if_else(pa.array(gone), own, columns[name])
        return columns, kept

    def _read_order(self, array: Any) -> dict[str, Any]:
        """Say what the rows are ordered by: numbers before texts, and what is missing never first nor last."""
        import pyarrow as pa

        plain = flatten(array)
        gone = find_missing(plain, self.policy.missing)
        text = is_text(plain.type)
        numbers, faults = read_numbers(plain, self.policy.missing)
        read = np.ones(len(plain), np.bool_) if faults is None else faults == 0
        read &= ~np.isnan(numbers)
        if text:
            self._refuse_late_years(plain, ~gone & ~read)
        first = self.how is Reduce.FIRST
        rank = np.where(gone, 2 if first else -1, np.where(read, 0, 1)).astype(np.int64)
        said = plain.cast(pa.string()).fill_null("") if text else pa.array([""] * len(plain))
        spelt = pa.array(np.where(read | gone, "", said.to_numpy(zero_copy_only=False)).astype(str))
        return {
            "o0": pa.array(rank),
            "o1": pa.array(np.where(read & ~gone, numbers, 0.0)),
            "o2": spelt,
        }

    def _refuse_late_years(self, array: Any, unread: Bools) -> None:
        """Refuse to order dates by their letters if the year comes last: the last day would not be the last."""
        import pyarrow.compute as pc

        wrong = as_numpy(pc.match_substring_regex(array, _LATE_YEAR).fill_null(False)) & unread
        if wrong.any():
            assert self.people is not None
            value = array[int(np.argmax(wrong))].as_py()
            raise DataError(
                f"{self.people.order!r} has the value {show_value(value)}, which cannot be ordered (dates are written "
                f"2024-12-31; {OTHER_DATES})"
            )

    def write_query(self, dialect: Dialect = DUCKDB, rows: str = "rows_read") -> str:
        """Write the query that makes one row of each person's: person, value, group, and how many rows count."""
        keys = ", ".join(f"p{place}" for place in range(self.width))
        group = ", g" if self.groups is not None else ""
        if self.listed:
            return self._write_values(dialect, rows, keys)
        if self.of_rows is not None:
            return self._write_cut(dialect, rows, keys)
        if self.how in (Reduce.FIRST, Reduce.LAST):
            names = ("o0", "o1", "o2", "v", *(("g",) if group else ()))
            best = "min" if self.how is Reduce.FIRST else "max"
            inner = (
                f"select {keys}, {best}({dialect.struct(names)}) filter (where ok) as chosen, "
                f"count(*) filter (where ok) as c, count(*) as m from {rows} group by {keys}"
            )
            chosen = "chosen.v as v" + (", chosen.g as g" if group else "")
            return f"select {keys}, {chosen}, c, m from ({inner}) order by {keys}"
        if self.how is Reduce.ONE or group:
            return self._write_choice(dialect, rows, keys, group)
        return (
            f"select {keys}, {self._add_up(dialect)} as v, count(*) filter (where ok) as c, count(*) as m "
            f"from {rows} group by {keys} order by {keys}"
        )

    def _add_up(self, dialect: Dialect, times: str = "") -> str:
        added = f"sum(cast(v as {dialect.huge}){times}) filter (where ok)"
        if self.kind == "point":
            added = f"cast({added} as double)"
        else:
            added = f"cast(least(greatest({added}, {-BEYOND}), {BEYOND}) as bigint)"
        return {
            Reduce.SUM: added,
            Reduce.MEAN: added,
            Reduce.MIN: "min(v) filter (where ok)",
            Reduce.MAX: "max(v) filter (where ok)",
            Reduce.ANY: "max(v) filter (where ok)",
            Reduce.ALL: "min(v) filter (where ok)",
            Reduce.ROWS: f"cast(sum({times.removeprefix(' * ') or '1'}) filter (where ok) as bigint)",
        }[self.how]

    def _toss(self, dialect: Dialect, rank: str | None = None) -> str:
        """Toss a coin of sixty bits: of the person, or of the row with this rank among the person's."""
        person = " || chr(31) || ".join(
            f"cast(p{place} as {dialect.text})" for place in range(self.width)
        )
        ranked = "" if rank is None else f" || chr(31) || cast({rank} as {dialect.text})"
        return dialect.coin(f"'{self.key}' || chr(31) || {person}{ranked}")

    def _rank(self, dialect: Dialect, rows: str, keys: str, group: str) -> str:
        """Rank the different rows of each person by content: how many, and how many rows there are up to them."""
        return (
            f"content as (select {keys}, v{group}, ok, count(*) as m from {rows} group by {keys}, v{group}, ok), "
            f"ranked as {dialect.once} (select *, sum(case when ok then m else 0 end) over "
            f"(partition by {keys} order by v{group}, ok rows between unbounded preceding and current row) as upto, "
            f"sum(case when ok then m else 0 end) over (partition by {keys}) as total, "
            f"sum(m) over (partition by {keys}) as rows_read, "
            f"sum(case when ok then 1 else 0 end) over (partition by {keys}) as different, "
            f"row_number() over (partition by {keys} order by v{group}, ok) as place from content)"
        )

    def _write_choice(self, dialect: Dialect, rows: str, keys: str, group: str) -> str:
        """Choose one row at random; with groups, the group of that row beside the value of all rows."""
        ranked = self._rank(dialect, rows, keys, group)
        coin = f"mod({self._toss(dialect)}, greatest(total, 1))"
        chosen = (
            f"chosen as (select {keys}, case when total > 0 then v end as v"
            f"{', case when total > 0 then g end as g' if group else ''}, total as c, rows_read as m from "
            f"(select *, {coin} as coin from ranked) where "
            "(ok and coin >= upto - m and coin < upto) or (total = 0 and place = 1))"
        )
        if self.how is Reduce.ONE:
            return (
                f"with {ranked}, {chosen} select {keys}, v{group}, cast(c as bigint) as c, cast(m as bigint) as m "
                f"from chosen order by {keys}"
            )
        added = f"added as (select {keys}, {self._add_up(dialect, ' * m')} as total_v from ranked group by {keys})"
        return (
            f"with {ranked}, {chosen}, {added} select {keys}, total_v as v, g, cast(c as bigint) as c, "
            f"cast(m as bigint) as m from chosen join added using ({keys}) order by {keys}"
        )

    def _draw_rows(self, dialect: Dialect, rows: str, keys: str, most: int) -> str:
        """Write the beginning of a query: the different rows of each person, and of too many rows which ones count."""
        exploded = (
            f"exploded as (select {keys}, v, {dialect.ranks('upto - m', 'upto')} as place_of_row from "
            f"(select {keys}, v, cast(upto as bigint) as upto, cast(m as bigint) as m from ranked "
            f"where ok and total > {most}))"
        )
        tossed = (
            f"tossed as (select *, {self._toss(dialect, 'place_of_row')} as coin from exploded)"
        )
        drawn = (
            f"drawn as (select {keys}, v, row_number() over (partition by {keys} order by coin, place_of_row) as turn "
            "from tossed)"
        )
        return f"with {self._rank(dialect, rows, keys, '')}, {exploded}, {tossed}, {drawn}"

    def _write_cut(self, dialect: Dialect, rows: str, keys: str) -> str:
        """Say what at most `most` rows of a person add up to; if there are more, that many at random."""
        most = self.of_rows
        assert most is not None
        kept = (
            f"kept as (select {keys}, v, m, 0 as left_out from ranked where ok and total <= {most} union all "
            f"select {keys}, v, 1, 0 from drawn where turn <= {most} union all "
            f"select {keys}, 0, 0, m from ranked where not ok union all "
            f"select {keys}, 0, 0, 1 from drawn where turn > {most})"
        )
        kind = "double" if self.kind == "point" else "bigint"
        added = f"cast(sum(cast(v as {dialect.huge}) * m) as {kind})"
        return (
            f"{self._draw_rows(dialect, rows, keys, most)}, {kept} select {keys}, {added} as v, "
            f"cast(sum(m) as bigint) as c, cast(sum(m + left_out) as bigint) as m from kept group by {keys} "
            f"order by {keys}"
        )

    def _write_values(self, dialect: Dialect, rows: str, keys: str) -> str:
        """Return the values that count, c times each; and for each person (w = 1) how many they are."""
        assert self.people is not None
        most, size = self.of_rows, "total"
        if most is not None:
            begun = self._draw_rows(dialect, rows, keys, most)
            kept = (
                f"select {keys}, v, m as c from ranked where ok and total <= {most} union all "
                f"select {keys}, v, 1 from drawn where turn <= {most}"
            )
        else:
            most, size = self.people.max_categories, "different"
            tossed = (
                f"tossed as (select {keys}, v, place, {self._toss(dialect, 'place')} as coin "
                "from ranked where ok)"
            )
            drawn = (
                f"drawn as (select {keys}, v, row_number() over (partition by {keys} order by coin, place) as turn "
                "from tossed)"
            )
            begun = f"with {self._rank(dialect, rows, keys, '')}, {tossed}, {drawn}"
            kept = f"select {keys}, v, 1 as c from drawn where turn <= {most}"
        return (
            f"{begun}, kept as ({kept}) select v, cast(c as bigint) as c, cast(0 as bigint) as m, "
            "cast(0 as bigint) as w from kept union all select null as v, "
            f"cast(least({size}, {most}) as bigint) as c, cast(rows_read as bigint) as m, cast(1 as bigint) as w "
            "from ranked where place = 1"
        )

    def finish(self, table: Any, rows: int | None = None) -> Reduced:
        """Say what the query found, as columns of people; it tells how many rows were read, unless that is known."""
        counts = as_numpy(table.column("c").combine_chunks())
        if rows is None:
            rows = int(as_numpy(table.column("m").combine_chunks()).sum())
        values = table.column("v").combine_chunks()
        if self.listed:
            persons = as_numpy(table.column("w").combine_chunks())
            return self._list_values(values, counts, rows, persons)
        groups = None
        if self.groups is not None and self.by is not None:
            codes = table.column("g").combine_chunks()
            groups = Column(name=self.by, array=_name_codes(self.groups, codes), reduced=True)
        column = replace(
            self.column,
            array=self._make_values(values, counts),
            people=None,
            beside={},
            reduced=True,
        )
        return Reduced(column, groups, rows, int(counts.sum()), counts)

    def _make_values(self, values: Any, counts: Any) -> Any:
        """Return each person's value as it will be read; none for people without a row that counts."""
        if self.kind == "text":
            return values  # the query left them null
        none = counts == 0
        filled = np.where(none, 0, as_numpy(values))
        if self.kind == "point":
            numbers = filled * self.unit
            if self.how is Reduce.MEAN:
                numbers = numbers / np.maximum(counts, 1)
            return as_arrow(numbers, None if self.of_rows is not None else none)
        if self.how is Reduce.ROWS or self.of_rows is not None:
            return as_arrow(filled)
        if isinstance(self.domain, Bits) and self.kind == "codes":
            return as_arrow(filled != 0, none)
        whole = as_arrow(filled, none)
        return _name_codes(self.domain, whole) if self.kind == "codes" else whole

    def _list_values(self, values: Any, counts: Any, rows: int, persons: Any) -> Reduced:
        """Return the values that count, in no order, and how many of them each person has."""
        import pyarrow as pa

        person = persons == 1
        kept = np.flatnonzero(~person)
        named = _name_codes(self.domain, values.take(pa.array(np.repeat(kept, counts[kept]))))
        column = replace(self.column, array=named, people=None, beside={}, reduced=True)
        own = counts[person]
        return Reduced(column, None, rows, int(own.sum()), own)


def _name_codes(domain: Domain, codes: Any) -> Any:
    """Return the values that codes stand for: names, or the codes themselves; nulls stay."""
    import pyarrow as pa

    if isinstance(domain, Categories) and domain.names is not None:
        return pa.array(domain.names, pa.string()).take(codes)
    return codes


def _pick(array: Any, places: Any) -> Any:
    return array if len(places) == len(array) else array.take(places)


def _spread(values: Any, places: Any, size: int) -> Any:
    """Spread the values of some rows over all rows: 0, no or an empty text elsewhere."""
    import pyarrow as pa

    if len(values) == size:
        return values
    kind = values.type
    filled = pa.repeat(pa.scalar("" if is_text(kind) else 0).cast(kind), size)
    mask = np.zeros(size, dtype=np.bool_)
    mask[places] = True
    return pa.compute.replace_with_mask(filled, pa.array(mask), values)


def _place(error: PositionError, rows: Rows, places: Any) -> DataError:
    position = int(places[error.position]) + rows.row
    if rows.file is None:
        return error.move(position - error.position)
    place = f"row {position + 1} of {rows.file}"
    return DataError(f"{tell_value(error.value, f'in {place}')} {error.complaint}")


def list_whole(column: Column) -> tuple[bool, ...]:
    """Say which of the columns that name a person hold integers, by their type in every file."""
    people = column.people
    if people is None or people.missing is MissingPerson.OWN:
        return (False,) * (0 if people is None else len(people.person))
    whole = []
    for name in people.person:
        if column.array is not None:
            array = column.array if name == column.name else column.beside[name]
            kinds = {str(array.type)}
        else:
            kinds = {file.type_of(name) if name in file.columns else "" for file in column.files}
        whole.append(all(kind.startswith(("int", "uint8", "uint16", "uint32")) for kind in kinds))
    return tuple(whole)


def reduce_here(reduction: Reduction, threads: int | None = None) -> Reduced:
    """Make people of rows on this machine, by DuckDB's group-by.

    Typed columns of Parquet files never leave DuckDB until they are people. All others are read by Python, as the
    declared domain says.
    """
    import pyarrow as pa

    whole = list_whole(reduction.column)
    query = write_direct(reduction, whole)
    if query is not None:
        with connect(threads) as connection:
            people, rows = _fetch(connection, query), count_rows(connection, reduction)
        if is_clean(reduction, people, rows):
            return reduction.finish(people, rows)
    found = _Found()
    batches = _make_batches(reduction, whole, threads, found)
    if reduction.people is None:
        return mask_rows(reduction, list(batches))
    first = next(batches, None)
    if first is None:
        raise DataError(f"column {reduction.column.name!r} has no rows")
    with connect(threads) as connection:
        reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        connection.register("rows_read", reader)
        return reduction.finish(_fetch(connection, reduction.write_query()), found.rows)


def _fetch(connection: Any, query: str) -> Any:
    import pyarrow as pa

    with stream_batches(connection.sql(query)) as batches:
        return pa.Table.from_batches(list(batches), batches.schema)


@dataclass(slots=True)
class _Found:
    rows: int = 0
    """How many rows were read, also of nobody."""


def _make_batches(
    reduction: Reduction, whole: tuple[bool, ...], threads: int | None, found: _Found
) -> Iterator[Any]:
    for rows in read_rows(reduction.column, reduction.names, threads):
        found.rows += len(rows.arrays[reduction.column.name])
        yield reduction.read(rows, whole)


def mask_rows(reduction: Reduction, batches: list[Any]) -> Reduced:
    """Treat every row as a person; whoever is not taken has no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batches:
        raise DataError(f"column {reduction.column.name!r} has no rows")
    table = pa.Table.from_batches(batches)
    ok = table.column("ok").combine_chunks()
    nothing = pa.scalar(None, table.schema.field("v").type)
    counts = as_arrow(as_numpy(ok).astype(np.int64))
    columns = {"v": pc.if_else(ok, table.column("v").combine_chunks(), nothing)}
    if "g" in table.column_names:
        columns["g"] = pc.if_else(
            ok, table.column("g").combine_chunks(), pa.scalar(None, pa.int64())
        )
    ones = as_arrow(np.ones(len(counts), np.int64))
    return reduction.finish(pa.table({**columns, "c": counts, "m": ones}))
