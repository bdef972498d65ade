"""Rows become people: every reduction on every engine, and one person's rows never move another's value."""

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

import shuffledp as sdp
from file_support import write
from shuffledp.engine import OnInvalid, People, Reduce, open_column, take_column
from shuffledp.engine.reducing import Reduction, make_run_key, reduce_here

WAYS = sdp.Categories(k=3, names=("bus", "car", "walk"))
KM = sdp.Integers(lower=0, upper=50)
HOURS = sdp.Reals(lower=0.0, upper=8.0, steps=8)
HOWS = [each.value for each in Reduce if each not in (Reduce.ANY, Reduce.ALL)]


def trips(people=40, seed=3):
    """One row for some people, and many for others, in no order."""
    rng = np.random.default_rng(seed)
    rows = rng.geometric(0.3, size=people)
    rows[:5], rows[5] = 1, 200
    who = rng.permutation(np.repeat(np.arange(people), rows))
    count = len(who)
    return {
        "who": who.tolist(),
        "km": rng.integers(-5, 60, size=count).tolist(),
        "hours": rng.uniform(-1, 9, size=count).round(3).tolist(),
        "way": rng.choice(WAYS.names, size=count).tolist(),
        "late": rng.integers(2, size=count).astype(bool).tolist(),
        "day": rng.permutation(count).tolist(),
    }


TRIPS = trips()


def reduce(table, column, how, domain, *, policy="error", key="key", engine=None, **people):
    order = " by day" if how in ("first", "last") else ""
    said = {"reduce": how + order} if "of" not in people else {}
    named = People.read("who", **said, **people)
    opened = (take_column if isinstance(table, dict) else open_column)(table, column, people=named)
    reduction = Reduction(
        column=opened, how=Reduce(how), domain=domain, policy=OnInvalid.read(policy), key=key
    )
    return reduce_here(reduction) if engine is None else engine.reduce(reduction)


def values(*given, **named):
    return reduce(*given, **named).column.array.to_pylist()


def by_person(table, column):
    rows = defaultdict(list)
    for who, value, day in zip(table["who"], table[column], table["day"], strict=True):
        rows[str(who)].append((day, value))
    return [rows[who] for who in sorted(rows)]


def coin(text):
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:15], 16)


def pick(rows, who, key="key"):
    """The row with a rank, by content, that the coin of the person says."""
    ordered = sorted(rows)
    return ordered[coin(f"{key}\x1f{who}") % len(ordered)]


BY_HAND = {
    "sum": sum,
    "mean": lambda found: sum(found) / len(found),
    "min": min,
    "max": max,
    "rows": len,
}


def expect(table, column, how):
    found = []
    people = sorted({str(who) for who in table["who"]})
    for who, rows in zip(people, by_person(table, column), strict=True):
        if how in BY_HAND:
            found.append(BY_HAND[how]([value for _, value in rows]))
        elif how == "one":
            found.append(pick([value for _, value in rows], who))
        else:
            found.append((min if how == "first" else max)(rows)[1])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("trips")
    for suffix in ("parquet", "csv", "arrow", "jsonl"):
        write(TRIPS, place / f"trips.{suffix}")
    return place


def sort_numbers(found, kind):
    """People in the order of their names as texts, as `expect` has them."""
    people = sorted({*TRIPS["who"]}) if kind in ("parquet", "arrow") else None
    if people is None:
        return found
    named = dict(zip(map(str, people), found, strict=True))
    return [named[who] for who in sorted(named)]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["memory", "parquet", "csv", "arrow", "jsonl"])
def test_every_reduction_of_whole_numbers(folder, kind, how):
    table = TRIPS if kind == "memory" else folder / f"trips.{kind}"
    found = values(table, "km", how, KM)
    if how == "mean":
        assert sort_numbers(found, kind) == pytest.approx(expect(TRIPS, "km", how), abs=1e-9)
    else:
        assert sort_numbers(found, kind) == expect(TRIPS, "km", how)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["memory", "parquet", "csv"])
def test_every_reduction_of_real_numbers(folder, kind, how):
    """Fixed-point numbers are off by 2^-42 of the larger end for each row."""
    table = TRIPS if kind == "memory" else folder / f"trips.{kind}"
    found = sort_numbers(values(table, "hours", how, HOURS), kind)
    assert found == pytest.approx(expect(TRIPS, "hours", how), abs=200 * 8 * 2.0**-42)


@pytest.mark.parametrize("how", ["one", "first", "last"])
@pytest.mark.parametrize("kind", ["memory", "parquet", "csv"])
def test_every_reduction_of_categories(folder, kind, how):
    table = TRIPS if kind == "memory" else folder / f"trips.{kind}"
    assert sort_numbers(values(table, "way", how, WAYS), kind) == expect(TRIPS, "way", how)


@pytest.mark.parametrize("how", ["any", "all"])
def test_yes_and_no(how):
    asked = sdp.Bits(true_value="bus")
    found = values(TRIPS, "way", how, asked)
    check = {"any": any, "all": all}[how]
    wanted = [check(value == "bus" for _, value in rows) for rows in by_person(TRIPS, "way")]
    assert found == wanted
    assert {*wanted} == {False, True}


def test_the_database_agrees(folder):
    """DuckDB's own group-by of the file, without this code."""
    import duckdb

    rows = duckdb.read_parquet(f"{folder}/trips.parquet")
    grouped = rows.aggregate("who, sum(km), min(km), max(km), avg(km), count(*)", "who")
    expected = np.array(grouped.order("who").fetchall(), dtype=float).T[1:]
    for how, column in zip(("sum", "min", "max", "mean", "rows"), expected, strict=True):
        found = values(folder / "trips.parquet", "km", how, KM)
        np.testing.assert_allclose(np.array(found, float), column, rtol=1e-12)


EVENTS = {
    "another value": [7],
    "no valid value": [None],
    "a thousand": [*range(1000)],
    "equal rows": [7] * 30,
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("rows", EVENTS.values(), ids=EVENTS)
def test_one_persons_rows_never_move_another(how, rows):
    """With one key: everybody else's value is the same, and so is the number of people."""
    keep = [place for place, who in enumerate(TRIPS["who"]) if who != 5]
    rest = {name: [column[place] for place in keep] for name, column in TRIPS.items()}
    changed = {
        "who": [*([5] * len(rows)), *rest["who"]],
        "km": [*rows, *rest["km"]],
        "day": [*range(-len(rows), 0), *rest["day"]],
    }
    before = values(TRIPS, "km", how, KM, policy="drop")
    after = values(changed, "km", how, KM, policy="drop")
    place = sorted({str(who) for who in TRIPS["who"]}).index("5")
    assert len(after) == len(before)
    del before[place], after[place]
    assert after == before


def test_the_order_of_rows_and_files_changes_nothing(tmp_path):
    turned = {name: column[::-1] for name, column in TRIPS.items()}
    for how in HOWS:
        assert values(turned, "km", how, KM) == values(TRIPS, "km", how, KM)
        assert values(turned, "hours", how, HOURS) == values(TRIPS, "hours", how, HOURS)
    half = len(TRIPS["who"]) // 2
    cut = [
        {name: column[part] for name, column in TRIPS.items()}
        for part in (slice(half), slice(half, None))
    ]
    paths = [write(part, tmp_path / f"{place}.csv") for place, part in enumerate(cut)]
    assert values(paths, "km", "one", KM) == values(TRIPS, "km", "one", KM)
    assert values(paths, "hours", "sum", HOURS) == values(TRIPS, "hours", "sum", HOURS)


def test_one_row_is_chosen_evenly():
    """Over many people with the same four rows, each is chosen about as often."""
    people = 4000
    table = {
        "who": [*range(people)] * 4,
        "km": [v for v in (1, 2, 3, 3) for _ in range(people)],
        "day": [0] * 4 * people,
    }
    found = Counter(values(table, "km", "one", KM))
    expected = {1: people / 4, 2: people / 4, 3: people / 2}
    for value, mean in expected.items():
        assert abs(found[value] - mean) < 6.2 * math.sqrt(people / 4)  # 1e-9 of both tails


@pytest.mark.parametrize("seed", [1, None])
def test_the_key_of_a_run(seed):
    keys = [make_run_key(None if seed is None else sdp.SeededWords(seed)) for _ in range(2)]
    assert (keys[0] == keys[1]) is (seed is not None)
    assert make_run_key(sdp.SeededWords(2)) not in keys
    assert values(TRIPS, "km", "one", KM, key="a") != values(TRIPS, "km", "one", KM, key="b")


def test_of_rows_all_of_them_if_they_are_few_enough():
    found = reduce(TRIPS, "km", "sum", KM, of="rows", max_rows=1000)
    limited = [sum(min(max(value, 0), 50) for _, value in rows) for rows in by_person(TRIPS, "km")]
    assert found.column.array.to_pylist() == limited
    assert found.counts.tolist() == [len(rows) for rows in by_person(TRIPS, "km")]
    assert found.rows == found.taken == len(TRIPS["who"])


@pytest.mark.parametrize("most", [1, 2, 7])
def test_of_rows_at_most_so_many_by_their_ranks(most):
    """Those with the smallest coins of (key, person, rank by content)."""
    found = reduce(TRIPS, "km", "sum", KM, of="rows", max_rows=most)
    people = sorted({str(who) for who in TRIPS["who"]})
    for who, rows, total, count in zip(
        people, by_person(TRIPS, "km"), found.column.array.to_pylist(), found.counts, strict=True
    ):
        ordered = sorted(min(max(value, 0), 50) for _, value in rows)
        places = range(len(ordered))
        if len(ordered) > most:
            places = sorted(places, key=lambda place: coin(f"key\x1f{who}\x1f{place}"))[:most]
        assert total == sum(ordered[place] for place in places)
        assert count == min(most, len(ordered))
    assert found.rows == len(TRIPS["who"])


def test_of_rows_real_numbers_are_limited_row_by_row():
    found = reduce(TRIPS, "hours", "sum", HOURS, of="rows", max_rows=1000)
    wanted = [sum(min(max(value, 0), 8) for _, value in rows) for rows in by_person(TRIPS, "hours")]
    assert found.column.array.to_pylist() == pytest.approx(wanted, abs=1e-8)


def test_whoever_has_no_valid_row_has_no_value():
    table = {"who": [1, 1, 2, 3], "km": [4, None, None, 6], "day": [1, 2, 1, 1]}
    for how in HOWS:
        found = reduce(table, "km", how, KM, policy="drop")
        got = found.column.array.to_pylist()
        assert got[1] == (1 if how == "rows" else None)
        assert len(got) == 3
    with pytest.raises(sdp.DataError, match="position 1 is missing"):
        reduce(table, "km", "sum", KM)


def test_errors_name_the_row(folder, tmp_path):
    bad = {"who": [1, 2, 3], "km": [4, "far", 5], "day": [1, 1, 1]}
    with pytest.raises(sdp.DataError, match=r"'far' in row 2 of .*bad.csv is not a number"):
        reduce(write(bad, tmp_path / "bad.csv"), "km", "sum", KM)
    gaps = {"who": [1, 2, 3], "km": [4, None, 5], "day": [1, 1, 1]}
    with pytest.raises(sdp.DataError, match=r"in row 2 of .*gaps.parquet is missing"):
        reduce(write(gaps, tmp_path / "gaps.parquet"), "km", "sum", KM)
    assert values(tmp_path / "gaps.parquet", "km", "sum", KM, policy="drop") == [4, None, 5]


NOBODY = {"who": [1, None, 2, None], "km": [4, 5, 6, 7], "day": [1, 1, 1, 1]}


@pytest.mark.parametrize("kind", ["memory", "csv", "parquet"])
@pytest.mark.parametrize(("policy", "wanted"), [("drop", [4, 6]), ("own", [5, 7, 4, 6])])
def test_rows_that_name_nobody(tmp_path, kind, policy, wanted):
    table = NOBODY if kind == "memory" else write(NOBODY, tmp_path / f"t.{kind}")
    assert values(table, "km", "sum", KM, missing_person=policy) == wanted
    with pytest.raises(
        sdp.DataError, match=r"names no person .who.; to go on: missing_person drop"
    ):
        reduce(table, "km", "sum", KM)


def test_a_person_is_one_person_however_a_tool_writes_the_name(tmp_path):
    """A column of ids with a gap becomes floats in pandas: 17 and 17.0, and 1e+10 in an Arrow text, are one name."""
    ids = [17, 12_345_678_901, 9]
    for name, who in (
        ("a.parquet", ids),
        ("b.parquet", [float(each) for each in ids]),
        ("c.csv", [f"{each}.0" for each in ids]),
        ("d.csv", [f" {each}" for each in ids]),
    ):
        write({"who": who, "km": [1, 2, 4]}, tmp_path / name)
    assert sorted(values(f"{tmp_path}/*", "km", "sum", KM)) == [4, 8, 16]
    assert sorted(values(f"{tmp_path}/*.parquet", "km", "sum", KM)) == [2, 4, 8]
    apart = {"who": ["017", "17", "1.7", "17.5", "17a.0"], "km": [1, 2, 4, 8, 16]}
    assert sorted(values(apart, "km", "sum", KM)) == [1, 2, 4, 8, 16]


def test_two_columns_name_a_person():
    table = {"home": [1, 1, 2, 1], "who": ["a", "b", "a", "a"], "km": [1, 2, 4, 8]}
    people = People.read(["home", "who"])
    column = take_column(table, "km", people=people)
    reduction = Reduction(column=column, how=Reduce.SUM, domain=KM, policy=OnInvalid.ERROR, key="")
    assert reduce_here(reduction).column.array.to_pylist() == [9, 2, 4]


def test_a_filter_of_rows_that_everybody_stays_in(folder):
    """Private: whoever has no row with it has no value. Otherwise they are not there."""
    for private in (True, False):
        where = replace(sdp.engine.Filter.read("way = 'bus'"), private=private)
        column = take_column(TRIPS, "km", where=where, people=People.read("who"))
        reduction = Reduction(
            column=column, how=Reduce.SUM, domain=KM, policy=OnInvalid.ERROR, key=""
        )
        found = reduce_here(reduction).column.array.to_pylist()
        table = {"who": [], "km": [], "day": []}
        for who, km, way in zip(TRIPS["who"], TRIPS["km"], TRIPS["way"], strict=True):
            if way == "bus":
                table["who"].append(who)
                table["km"].append(km)
                table["day"].append(0)
        taken = dict(
            zip(sorted({*map(str, table["who"])}), expect(table, "km", "sum"), strict=True)
        )
        everybody = sorted({*map(str, TRIPS["who"])})
        assert len(taken) < len(everybody)
        wanted = [taken.get(who) for who in everybody] if private else [*taken.values()]
        assert found == wanted


def test_a_private_filter_without_a_person_keeps_every_row():
    where = replace(sdp.engine.Filter.read("way = 'bus'"), private=True)
    column = take_column(TRIPS, "km", where=where)
    wide = sdp.Integers(lower=-5, upper=60)
    reduction = Reduction(
        column=column, how=Reduce.ONE, domain=wide, policy=OnInvalid.ERROR, key=""
    )
    found = reduce_here(reduction).column.array.to_pylist()
    assert found == [
        km if way == "bus" else None for km, way in zip(TRIPS["km"], TRIPS["way"], strict=True)
    ]


@pytest.mark.parametrize("how", ["sum", "one", "first"])
def test_a_group_beside_the_value(how):
    """The group of the chosen row; beside a value of all rows, that of one at random."""
    order = " by day" if how == "first" else ""
    column = take_column(TRIPS, "km", people=People.read("who", reduce=how + order), also=("way",))
    reduction = Reduction(
        column=column,
        how=Reduce(how),
        domain=KM,
        policy=OnInvalid.ERROR,
        key="key",
        by="way",
        groups=WAYS,
    )
    found = reduce_here(reduction)
    people = sorted({*map(str, TRIPS["who"])})
    rows = defaultdict(list)
    for who, km, way, day in zip(
        TRIPS["who"], TRIPS["km"], TRIPS["way"], TRIPS["day"], strict=True
    ):
        rows[str(who)].append((day, km, way))
    for who, km, way in zip(
        people, found.column.array.to_pylist(), found.groups.array.to_pylist(), strict=True
    ):
        chosen = pick([(km, way) for _, km, way in rows[who]], who)
        if how == "sum":
            assert (km, way) == (sum(km for _, km, _ in rows[who]), chosen[1])
        else:
            assert (km, way) == (chosen if how == "one" else min(rows[who])[1:])


def test_rows_are_never_taken_for_people():
    """A column whose rows were not reduced cannot be read in any other way."""
    column = take_column(TRIPS, "way", people=People.read("who"))
    for read in (
        lambda: sdp.engine.headcount(column, WAYS, engine="memory"),
        lambda: sdp.engine.read_codes(column, WAYS),
        lambda: [*sdp.engine.group_values(column)],
    ):
        with pytest.raises(
            sdp.MismatchError, match=r"has rows: engine.reducing makes people of them"
        ):
            read()


def test_extremes():
    """Sums beyond 64 bits, infinities and a single huge row stay what they are or at the end."""
    huge = {"who": [1] * 4 + [2], "km": [2**62] * 4 + [3], "day": [1] * 5}
    assert values(pa_table(huge), "km", "sum", KM) == [2**62, 3]
    wild = {"who": [1, 1, 2], "hours": [math.inf, 1.0, 2.0], "day": [1, 1, 1]}
    found = values(pa_table(wild), "hours", "max", HOURS)
    assert found[0] >= 8 * 1024
    assert found[1] == 2.0


def pa_table(table):
    return {name: np.array(column) for name, column in table.items()}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"reduce": "median"}, "reduce='median' must be one of sum, mean"),
        ({"reduce": "first"}, "reduce='first' must be clear: first and last need another column"),
        ({"reduce": "sum by day"}, "reduce='sum by day' must be clear"),
        ({"of": "rows"}, "needs max_rows"),
        ({"of": "cows", "max_rows": 1}, "of='cows' must be one of people, rows"),
        ({"max_rows": 2}, "max_rows is for answers about rows"),
        ({"of": "rows", "max_rows": 0}, "max_rows=0 must be"),
        ({"of": "rows", "max_rows": 2, "reduce": "sum"}, "reduce is for answers about people"),
        ({"missing_person": "guess"}, "missing_person='guess' must be one of error, drop, own"),
    ],
)
def test_what_is_refused(said, complaint):
    with pytest.raises(sdp.ShuffledpError, match=complaint):
        People.read("who", **said)


def test_a_person_must_be_a_column():
    with pytest.raises(sdp.DataError, match=r"has no column 'wo'; .*did you mean 'who'"):
        take_column(TRIPS, "km", people=People.read("wo"))
    with pytest.raises(sdp.ParameterError, match="names a column twice"):
        People.read(["who", "who"])


@pytest.mark.parametrize(
    ("days", "first", "last"),
    [
        ([None, -5, -7], 2, 1),
        ([-5, None, -7], 2, 0),
        ([-5, -7, None], 1, 0),
        ([5, None, 7], 0, 2),
        ([None, None, 0], 2, 2),
        (["-5", "x", "", "a"], 0, 1),
        (["x", "", "7", "-7"], 3, 0),
        (["", "b", "", "a"], 3, 1),
        ([math.nan, -1.5, -2.5], 2, 1),
        ([5e-324, 0.0, -5e-324], 2, 0),
    ],
)
def test_numbers_come_before_texts_and_what_is_missing_is_neither_first_nor_last(days, first, last):
    rows = {"who": [7] * len(days), "km": list(range(len(days))), "day": days}
    for how, place in (("first", first), ("last", last)):
        column = take_column(rows, "km", people=People.read("who", reduce=f"{how} by day"))
        given = {"how": Reduce(how), "domain": KM, "policy": OnInvalid.ERROR, "key": "key"}
        assert reduce_here(Reduction(column=column, **given)).column.array.to_pylist() == [place]
