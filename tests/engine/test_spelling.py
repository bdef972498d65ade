"""Numbers and dates as they are declared to be written: what is respelt, and what must stay as it is."""

import pyarrow as pa
import pytest

from shuffledp.core.errors import ParameterError
from shuffledp.engine.spelling import Spelling, name_marks


def respell(text: str, **said: str) -> str:
    (found,) = Spelling(**said).respell(pa.array([text])).to_pylist()
    return str(found)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1.234", "1234"),
        ("+123.456", "+123456"),
        ("12.345.678,9", "12345678.9"),
        ("1'234,5", "1234.5"),
        ("1\u00a0234,25", "1234.25"),
        ("1\u202f234", "1234"),
        ("1\u2019234", "1234"),
        (",5", ".5"),
        ("-,5", "-.5"),
        ("\t1,5\t", "\t1.5\t"),
        ("\t1.234,5\t", "\t1234.5\t"),
        ("1234,5", "1234.5"),
        ("1,5E-3", "1.5E-3"),
        ("1,5e+12", "1.5e+12"),
    ],
)
def test_decimal_commas_become_points_and_thousands_are_joined(text: str, wanted: str) -> None:
    assert respell(text, decimal=",") == wanted
    assert respell(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "0.234",  # no thousands begin with 0
        "1234.567",  # nor with four digits
        "1.23",
        "1.2345",
        "1.234.56",
        "1,5,5",
        "1,",
        "1.5,x",
        "x 1.234",
        "1.234 x",
        "",
    ],
)
def test_what_is_no_number_with_a_comma_stays(text: str) -> None:
    assert respell(text, decimal=",") == text


@pytest.mark.parametrize(
    ("text", "strip", "wanted"),
    [
        ("$1,234.50", "$,", "1234.50"),
        ("[1]^2\\", "]^\\", "[1]^2\\"),  # [12 is no number
        ("]1^2\\", "]^\\", "12"),
        ("12 kg", "kg", "12 "),
        ("1e5 %", "%", "1e5 "),
        ("1e %", "%", "1e %"),
        ("%", "%", "%"),
        ("- %", "%", "- %"),
        ("3k4", "kg", "34"),
        ("3 k apples", "k", "3 k apples"),
    ],
)
def test_units_are_left_out_of_numbers_alone(text: str, strip: str, wanted: str) -> None:
    assert respell(text, strip=strip) == wanted


@pytest.mark.parametrize(
    ("text", "order", "wanted"),
    [
        ("31.12.2024", "dmy", "2024-12-31"),
        ("3-4-2024", "dmy", "2024-04-03"),
        ("3/14/2024", "mdy", "2024-03-14"),
        ("11/4/2024", "mdy", "2024-11-04"),
        (" 2024.3.14 ", "ymd", "2024-03-14 "),
        ("2024/11/4T8:30", "ymd", "2024-11-04T8:30"),
        ("1.2.2024 noon", "dmy", "2024-02-01 noon"),
        ("1/2/2024 08:30 -5", "dmy", "2024-02-01 08:30 -5"),  # what follows is no day
        ("31/12/2024 08:30 -5", "dmy", "2024-12-31 08:30 -5"),
        ("2024-1-2", "dmy", "2024-1-2"),
        ("1/2/2024", "ymd", "1/2/2024"),
        ("2024/1/2", "iso", "2024/1/2"),
        ("1.2.24", "mdy", "1.2.24"),
        ("1.2.20245", "mdy", "1.2.20245"),
        ("111.2.2024", "dmy", "111.2.2024"),
        ("x 1.2.2024", "dmy", "x 1.2.2024"),
        ("1.2.2024x", "dmy", "1.2.2024x"),
    ],
)
def test_dates_of_the_declared_order_alone_are_turned_round(
    text: str, order: str, wanted: str
) -> None:
    assert respell(text, dates=order) == wanted


def test_units_go_before_decimals_and_both_before_dates() -> None:
    said = {"decimal": ",", "strip": "€ ", "dates": "dmy"}
    texts = pa.array(["€ 1.234,5", "1 234 567", "3.4.2024", None, "€"])
    wanted = ["1234.5", "1234567", "2024-04-03", None, "€"]
    assert Spelling(**said).respell(texts).to_pylist() == wanted


def test_only_the_default_is_plain() -> None:
    assert Spelling().plain
    changes = [("decimal", ","), ("strip", "$"), ("dates", "dmy")]
    assert not any(Spelling(**{name: text}).plain for name, text in changes)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"decimal": ";"}, r"decimal=';' must be a point or a comma"),
        ({"strip": "$5"}, r"strip='\$5' must have no digits"),
        ({"strip": "+"}, "signs, parentheses"),
        ({"strip": "$-"}, "signs, parentheses"),
        ({"strip": "."}, "signs, parentheses"),
        ({"strip": "()"}, "signs, parentheses"),
        ({"strip": ",", "decimal": ","}, "signs, parentheses"),
        ({"dates": "DMY"}, "dates='DMY' must be one of iso, ymd, dmy, mdy"),
    ],
)
def test_marks_that_are_part_of_the_number_are_refused(said: dict[str, str], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        Spelling(**said)
    assert Spelling(strip=".", decimal=",").strip == "."


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("12", ""),
        ("-1.5", ""),
        ("1,234", ""),  # a decimal comma, maybe
        ("1,234,567", ","),
        ("1,234.5", ","),
        ("%%12%", "%"),
        ("kg 12 g", "kg"),
        ("€ 4", "€"),
        ("1 234 €", "€ "),
        ("$-4", "$"),
        ("(4.50)", ""),  # a loss
        ("4.50-", ""),
        ("18-24", ""),
        ("12:30", ""),
        ("<5", ""),
    ],
)
def test_the_marks_beside_a_number_are_named_once(text: str, marks: str) -> None:
    assert name_marks(text) == marks
