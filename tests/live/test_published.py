"""Published answers, read back: numbers, labels, limits and the level of their intervals."""

import io
import math
import re
import zipfile

import numpy as np
import pytest

import live_support as live
from shuffledp.core.errors import UnsupportedError
from shuffledp.live import results

COUNT = {"task": "count"}
ENDS = {"lower": -2, "upper": 6}
LARGE = {"lower": 2, "upper": 6}
NEGATIVE = {"lower": -6, "upper": -2}
GROUPS = {"by": "way", "groups": ["car", "bus"]}
ROW = {"value": 3.0, "stderr": 1.5, "low": 0.5, "high": 5.5}

ASKED = {
    "count": (COUNT, (0.0, 70.0)),
    "histogram": ({"task": "histogram", "categories": ["a", "b"]}, (0.0, 70.0)),
    "mean": ({"task": "mean", **ENDS}, (-2.0, 6.0)),
    "sum": ({"task": "sum", **ENDS}, (-140.0, 420.0)),
    "median": ({"task": "median", **ENDS}, (-2.0, 6.0)),
    "variance": ({"task": "variance", **ENDS}, (-math.inf, math.inf)),
    "sum by group": ({"task": "sum", **ENDS, **GROUPS}, (-140.0, 420.0)),
    "sum of large numbers": ({"task": "sum", **LARGE}, (140.0, 420.0)),
    "sum of large numbers by group": ({"task": "sum", **LARGE, **GROUPS}, (0.0, 420.0)),
    "sum of negative numbers by group": ({"task": "sum", **NEGATIVE, **GROUPS}, (-420.0, 0.0)),
    "mean by group": ({"task": "mean", **ENDS, **GROUPS}, (-2.0, 6.0)),
}  # fmt: skip


def plan(asked):
    content = {"epsilon": 1.0, "delta": 1e-6, "questions": {"q": asked}}
    collection = {"people": 500, "noise": "devices"}
    return live.plan({**content, "collection": collection}).questions[0]


def read(question, answer, level):
    return results.read_estimate(question, {"questions": {"q": answer}, "level": level})


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_lies_between_what_is_publicly_known(name):
    asked, limits = ASKED[name]
    question = plan(asked)
    answer = {"people": 40, "of": 70, "estimate": [{"label": "x", **ROW}, {"label": "y", **ROW}]}
    found = read(question, answer, 0.9)
    assert found.limits == limits
    assert found.labels == ("x", "y")
    assert found.value.tolist() == [3.0, 3.0]
    assert found.value.dtype == np.float64
    low, high = found.interval(0.9)
    assert (np.asarray(low).tolist(), np.asarray(high).tolist()) == ([0.5, 0.5], [5.5, 5.5])
    without = {name: each for name, each in answer.items() if name != "of"}
    narrower = read(question, without, 0.9).limits
    if math.isfinite(limits[1]) and max(map(abs, limits)) > 6:
        assert narrower == (limits[0] * 40 / 70, limits[1] * 40 / 70)
    with pytest.raises(UnsupportedError, match=r"^intervals were published with level 0\.9 only$"):
        found.error.interval(found.value, 0.95)
    with pytest.raises(UnsupportedError, match="no exact interval was published"):
        found.error.exact_interval(found.value, 0.9)


def test_one_number_is_a_number():
    question = plan({"task": "mean", **ENDS})
    answer = {"people": 40, "estimate": [{"label": "mean", **ROW}]}
    found = read(question, answer, 0.95)
    assert (found.value, found.error.stderr, found.labels) == (3.0, 1.5, ("mean",))
    assert isinstance(found.value, float)
    whole = {**ROW, "value": 3, "stderr": 2, "low": 0, "high": 5}
    again = read(question, {"people": 40, "estimate": [{"label": "mean", **whole}]}, 0.95)  # fmt: skip
    assert all(type(each) is float for each in (again.value, again.error.stderr))
    assert tuple(again.interval(0.95)) == (0.0, 5.0)


def test_a_word_that_is_called_like_its_task_is_one_of_the_words():
    question = plan({"task": "words", "alphabet": "letters", "max_length": 5})
    answer = {"people": 40, "estimate": [{"label": "words", **ROW}]}
    found = read(question, answer, 0.95)
    assert (found.value.tolist(), found.labels) == ([3.0], ("words",))


def test_tables_for_spreadsheets_have_a_row_for_each_label_and_say_who_was_asked():
    row = {"label": "=1", **ROW}
    answers = {"q": {"people": 40, "of": 70, "estimate": [row]}, "r": {"people": 40, "estimate": [{**row, "label": "b"}]}}  # fmt: skip
    lines = results.write_csv([{"window": 3, "questions": answers}]).splitlines()
    assert lines == [
        "window,question,people,of,label,value,stderr,low,high,level,"
        "epsilon,delta,composed,reports_per_device,noise,honest,min_batch,title",
        "3,q,40,70,'=1,3.0,1.5,0.5,5.5,0.95,,,,,,,,",
        "3,r,40,40,b,3.0,1.5,0.5,5.5,0.95,,,,,,,,",
    ]
    assert results.write_csv([]) == f"{lines[0]}\r\n"
    promise = live.make_collection().pledge.to_dict() | {"epsilon": 1.0, "delta": 1e-08}
    asked = {"title": "-Pets", "level": 0.9, "promise": {**promise, "composed": False}}
    (_, line, _) = results.write_csv([{"window": 0, "questions": answers, **asked}]).splitlines()
    assert line == "0,q,40,70,'=1,3.0,1.5,0.5,5.5,0.9,1.0,1e-08,no,1,devices,1.0,20,'-Pets"
    for sign in "=+-@\t\r":
        answers["r"]["estimate"][0]["label"] = f"{sign}x"
        assert f"'{sign}x" in results.write_csv([{"window": 3, "questions": answers}])


def test_workbooks_have_a_sheet_about_the_promise():
    answers = {"q": {"people": 40, "estimate": [{"label": "x", **ROW}]}}
    promise = {
        "epsilon": 1.0,
        "delta": 1e-08,
        "noise": "devices",
        "composed": True,
        "one_question": False,
    }
    about = {
        "title": "=Pets",
        "collection": "ab",
        "level": 0.9,
        "promise": promise,
        "not_private": ["how many came"],
    }
    result = {"window": 0, "questions": answers, "one_operator": False, "version": "1", **about}  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(results.write_xlsx([result]))) as book:
        names = re.findall(r'<sheet name="(\w+)"', book.read("xl/workbook.xml").decode())
        first, second = (
            book.read(f"xl/worksheets/sheet{number}.xml").decode() for number in (1, 2)
        )
        related = book.read("xl/_rels/workbook.xml.rels").decode()
    assert names == ["results", "about"]
    assert re.findall(r'Id="(\w+)" .*?Target="([^"]+)"', related) == [
        ("rId1", "worksheets/sheet1.xml"),
        ("rId2", "worksheets/sheet2.xml"),
    ]
    head = re.findall(r">([^<>]+)<", first.partition("</row>")[0])
    assert head == ["window", "question", "people", "of", "label", "value", "stderr", "low", "high"]
    rows = [re.findall(r">([^<>]+)<", row) for row in second.split("</row>")[:-1]]
    assert rows == [
        ["title", "=Pets"],
        ["collection", "ab"],
        ["level", "0.9"],
        ["epsilon", "1.0"],
        ["delta", "1e-08"],
        ["noise", "devices"],
        ["composed", "yes"],
        ["one_question", "no"],
        ["one_operator", "no"],
        ["version", "1"],
        ["not_private", "how many came"],
    ]
    with zipfile.ZipFile(io.BytesIO(results.write_xlsx([]))) as book:
        assert b"<sheetData></sheetData>" in book.read("xl/worksheets/sheet2.xml")
