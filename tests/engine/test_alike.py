"""One table of (format x type x literal): the same people give the same answer, however they are written down."""

import json
from datetime import date

import pytest

import shuffledp as sdp

pa = pytest.importorskip("pyarrow")

ROWS = 120
TYPES = {
    "int": ([(65 + i % 3) for i in range(ROWS)], pa.int64()),
    "gaps": ([None if i % 5 == 0 else 65.0 + i % 3 for i in range(ROWS)], pa.float64()),
    "real": ([2.5 + i % 4 / 4 for i in range(ROWS)], pa.float64()),
    "text": ([("north", "NA", "south east")[i % 3] for i in range(ROWS)], pa.string()),
    "bool": ([i % 4 == 0 for i in range(ROWS)], pa.bool_()),
    "day": ([date(2012, 1, 1 + i % 20) for i in range(ROWS)], pa.date32()),
}
FORMATS = ("csv", "euro", "jsonl", "parquet", "arrow", "pandas", "memory")
COLUMNS = {name: values for name, (values, _) in TYPES.items()}


def write(form, folder):
    """The people in one format, as pandas and its like write them."""
    if form == "memory":
        return COLUMNS
    table = pa.table({name: pa.array(values, kind) for name, (values, kind) in TYPES.items()})
    frame = table.to_pandas()
    if form == "pandas":
        return frame
    path = folder / f"people.{form}"
    if form == "euro":
        path = folder / "people.csv"
        frame.to_csv(path, index=False, sep=";", decimal=",", encoding="latin-1")
        return sdp.Files(path, decimal=",", encoding="latin-1")
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "jsonl":
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    elif form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    else:
        import pyarrow.feather as feather

        feather.write_feather(table, str(path), compression="uncompressed")
    return str(path)


@pytest.fixture(scope="module", params=FORMATS)
def people(request, tmp_path_factory):
    return write(request.param, tmp_path_factory.mktemp(request.param))


def count(wanted):
    return sum(wanted(row) for row in zip(*COLUMNS.values(), strict=True))


INT, GAPS, REAL, TEXT, BOOL, DAY = range(6)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("int = 65", lambda row: row[INT] == 65),
        ("int = '65'", lambda row: row[INT] == 65),
        ("int = '65.0'", lambda row: row[INT] == 65),
        ("int > '100'", lambda _: False),
        ("int >= '66'", lambda row: row[INT] >= 66),
        ("int < '100'", lambda _: True),
        ("int in ('65', '66')", lambda row: row[INT] in (65, 66)),
        ("gaps = '65'", lambda row: row[GAPS] == 65),
        ("gaps != '65'", lambda row: row[GAPS] not in (65, None)),
        ("gaps = 65.0", lambda row: row[GAPS] == 65),
        ("gaps > '9'", lambda row: row[GAPS] is not None),
        ("gaps is null", lambda row: row[GAPS] is None),
        ("real = '2.50'", lambda row: row[REAL] == 2.5),
        ("real between '2.6' and 3", lambda row: 2.6 <= row[REAL] <= 3),
        ("text = 'NA'", lambda row: row[TEXT] == "NA"),
        ("text != 'north'", lambda row: row[TEXT] == "south east"),
        ("text is null", lambda row: row[TEXT] == "NA"),
        ("text is not null", lambda row: row[TEXT] != "NA"),
        ("bool", lambda row: row[BOOL]),
        ("bool = 'true'", lambda row: row[BOOL]),
        ("bool = 'True'", lambda row: row[BOOL]),
        ("bool = 1", lambda row: row[BOOL]),
        ("not bool", lambda row: not row[BOOL]),
        ("day >= '2012-01-10'", lambda row: row[DAY] >= date(2012, 1, 10)),
        ("day = '2012-01-10'", lambda row: row[DAY] == date(2012, 1, 10)),
        ("int = gaps", lambda row: row[INT] == row[GAPS]),
        ("int > real", lambda _: True),
        ("gaps < int", lambda _: False),
        ("real != gaps", lambda row: row[GAPS] is not None),
        ("day <= day and text = text", lambda row: row[TEXT] != "NA"),
        ("bool = bool", lambda _: True),
        ("text like '%th%'", lambda row: row[TEXT] != "NA"),
        ("text not like 'n%'", lambda row: row[TEXT] == "south east"),
    ],
)
def test_a_filter_takes_the_same_people(people, where, wanted):
    exact = count(wanted)
    given = {"column": "bool", "epsilon": 1.0, "model": "central", "where": where}
    if exact == 0:
        with pytest.raises(sdp.DataError):
            sdp.ask(people, "count", **given)
        return
    assert sdp.ask(people, "count", **given).n == exact


def ask_exactly(people, task, **given):
    """An answer without visible noise."""
    found = sdp.ask(people, task, epsilon=60.0, model="central", rng=sdp.SeededWords(1), **given)
    return found.n, [round(float(each["value"])) for each in found.to_dict()["estimate"]]


@pytest.mark.parametrize(
    ("column", "literal", "wanted"),
    [
        ("int", "65", lambda row: row[INT] == 65),
        ("int", "65.0", lambda row: row[INT] == 65),
        ("gaps", "65", lambda row: row[GAPS] == 65),
        ("gaps", "65.0", lambda row: row[GAPS] == 65),
        ("real", "2.50", lambda row: row[REAL] == 2.5),
        ("text", "NA", lambda row: row[TEXT] == "NA"),
        ("text", "north", lambda row: row[TEXT] == "north"),
        ("bool", "true", lambda row: row[BOOL]),
        ("bool", "True", lambda row: row[BOOL]),
        ("bool", "1", lambda row: row[BOOL]),
        ("day", "2012-01-10", lambda row: row[DAY] == date(2012, 1, 10)),
    ],
)
def test_a_true_value_means_the_same(people, column, literal, wanted):
    missing = {"gaps": lambda row: row[GAPS] is None, "text": lambda row: row[TEXT] == "NA"}
    gone = 0 if literal == "NA" else count(missing.get(column, lambda _: False))
    given = {"column": column, "true_value": literal}
    if gone:
        with pytest.raises(sdp.DataError, match="is missing"):
            ask_exactly(people, "count", **given)
        given["on_invalid"] = "null=drop"
    assert ask_exactly(people, "count", **given) == (ROWS - gone, [count(wanted)])


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("int", ["65", "66", "67"]),
        ("gaps", ["65", "66.0", "67"]),
        ("text", ["north", "south east"]),
        ("text", ["north", "south east", "NA"]),
        ("bool", ["False", "true"]),
    ],
)
def test_categories_are_the_same(people, column, names):
    values = [row[list(COLUMNS).index(column)] for row in zip(*COLUMNS.values(), strict=True)]
    texts = [
        None if each is None else f"{each:g}" if isinstance(each, float) else str(each).lower()
        for each in values
    ]
    wanted = [texts.count(name.lower().removesuffix(".0")) for name in names]
    given = {"column": column, "categories": names, "on_invalid": "null=drop"}
    assert ask_exactly(people, "histogram", **given) == (sum(wanted), wanted)


@pytest.mark.parametrize(
    ("column", "missing"), [("int", "65"), ("gaps", "65"), ("gaps", "65.0,NA")]
)
def test_a_number_can_be_declared_missing(people, column, missing):
    """-9 and its like: in a mean, in a filter and beside a true value."""
    place = list(COLUMNS).index(column)
    kept = count(lambda row: row[place] not in (65, None))
    given = {"column": column, "missing": missing, "on_invalid": "null=drop"}
    assert ask_exactly(people, "mean", lower=0, upper=100, **given)[0] == kept
    assert ask_exactly(people, "count", true_value="66", **given)[0] == kept
    found = ask_exactly(
        people, "count", **given | {"column": "bool"}, where=f"{column} is not null"
    )
    assert found[0] == kept


def test_nothing_but_gaps_is_missing_if_so_declared(people):
    names = ["north", "south east", "other"]
    given = {"column": "text", "categories": names, "on_invalid": "unknown=other", "missing": []}
    assert ask_exactly(people, "histogram", **given) == (ROWS, [ROWS // 3] * 3)
    with pytest.raises(sdp.DataError, match="is missing"):
        ask_exactly(people, "histogram", **given | {"missing": None})


@pytest.mark.parametrize(
    ("task", "column", "given"),
    [
        ("mean", "int", {"lower": 60, "upper": 70}),
        ("mean", "real", {"lower": 0.0, "upper": 10.0}),
        ("median", "gaps", {"lower": 60.0, "upper": 70.0, "on_invalid": "null=drop"}),
        ("sum", "gaps", {"lower": 0.0, "upper": 100.0, "on_invalid": "null=drop"}),
        ("bins", "day", {"edges": ["2012-01-01", "2012-01-11", "2012-01-21"]}),
        ("mean", "int", {"lower": 60, "upper": 70, "by": "text", "groups": ["north", "south east"],
                         "on_invalid": "drop"}),
    ],
)  # fmt: skip
def test_numbers_are_the_same(people, task, column, given):
    found = sdp.ask(
        people, task, column=column, epsilon=60.0, model="central", rng=sdp.SeededWords(1), **given
    )
    in_memory = sdp.ask(
        COLUMNS, task, column=column, epsilon=60.0, model="central", rng=sdp.SeededWords(1), **given
    )
    assert found.n == in_memory.n
    near = pytest.approx([row.value for row in in_memory.picture.rows], rel=0.02)
    assert [row.value for row in found.picture.rows] == near
