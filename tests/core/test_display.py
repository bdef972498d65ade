"""How an estimate and a promise look: correct numbers, harmless labels."""

import html.parser
import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.display import (
    Instant,
    Number,
    as_text,
    count_decimals,
    format_bracket,
    format_ends,
    format_number,
    format_rows,
    keep_largest,
    list_numbers,
    make_picture,
    shorten_label,
)
from shuffledp.core.privacy import round_up
from shuffledp.protocols import PROTOCOLS
from support import any_protocol


def estimate(*values, labels=None, stderr=2.0):
    value = np.array(values, dtype=np.float64)
    return Estimate(value=value, error=NormalError(stderr=stderr), limits=(0, 99), labels=labels)


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_text_of_one_number():
    one = Estimate(value=1234.56, error=NormalError(stderr=0.123), limits=(0, 9))
    assert "1,234.56" in str(one)
    assert "1,234.31 .. 1,234.81" in str(one)  # 1,234.3189 and 1,234.8011
    assert len(str(one).splitlines()) == 2


def test_what_is_in_an_interval_is_between_what_is_written():
    """Ends are rounded outwards, by less than a unit of the last digit; rounded to the nearest, half of them are inside."""
    rng, nearest = np.random.default_rng(1), 0
    for _ in range(300):
        low = float(rng.normal() * 10.0 ** rng.integers(-6, 13))
        high = low + float(abs(rng.normal()) * 10.0 ** rng.integers(-6, 6))
        places = int(rng.integers(0, 9))
        for written, unit in (
            (format_ends(low, high, places), 10.0**-places),
            (format_bracket(low, high, 6), 1e-5 * max(abs(low), abs(high))),
        ):
            least, most = (float(end.replace(",", "")) for end in written)
            room = 1e-14 * max(abs(low), abs(high))
            assert low - unit - room <= least <= low + room
            assert high - room <= most <= high + unit + room
        nearest += float(f"{low:.{places}f}") > low or float(f"{high:.{places}f}") < high
    assert nearest > 100


def test_ends_of_intervals_in_their_rows():
    thirds = Number("a", 1 / 3, 0.0, 1 / 3, 1 / 3)
    assert format_rows([thirds])[0][-1] == "0.3333 .. 0.3334"
    assert format_ends(0.1 + 0.2, 0.1 + 0.2, 1) == ("0.3", "0.3")
    assert format_ends(-0.04, 0.04, 1) == ("-0.1", "0.1")
    assert format_ends(-math.inf, math.inf, 2) == ("-inf", "inf")
    assert format_ends(1.23456789049e15, -1.23456789049e15, 0) == (
        "1.23456789e+15",
        "-1.23456789e+15",
    )
    assert format_ends(Instant(0.5), Instant(1.5), 0) == (f"{Instant(0)}", f"{Instant(2)}")
    assert format_bracket(Instant(0.5), math.nan) == (f"{Instant(0)}", "nan")


def test_the_largest_of_equal_rows_are_the_first():
    table = list_numbers(estimate(1.0, 7.0, 3.0, 7.0, 7.0, -2.0))
    assert [row.label for row in keep_largest(table, 2)] == ["1", "3"]
    assert keep_largest(table, 6) == table


@pytest.mark.parametrize("field", ["value", "stderr", "low", "high"])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_json_has_no_infinity_in_any_place(field, number):
    row = Number("a", 3.0, 1.0, 1.0, 5.0)
    assert row.to_dict() == {"label": "a", "value": 3.0, "stderr": 1.0, "low": 1.0, "high": 5.0}
    assert row._replace(**{field: number}).to_dict() == {**row.to_dict(), field: None}


def test_json_has_dates_as_they_are_read():
    day = Instant(86400.0)
    row = Number("a", day, 1.0, day, day)
    assert row.to_dict() == {
        **dict.fromkeys(("value", "low", "high"), f"{day}"),
        "label": "a",
        "stderr": 1.0,
    }


def test_text_of_many_shows_the_largest_and_says_how_many_more():
    text = str(estimate(*range(100)))
    assert len(text.splitlines()) == 22
    assert text.splitlines()[-1] == "… and 80 smaller ones"
    assert text.splitlines()[1].split()[0] == "80"


def test_columns_line_up():
    lines = str(estimate(5, -70000, labels=("a", "a long label"))).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_rows_hold_the_interval_of_the_estimate():
    shown_rows = list_numbers(estimate(5.0, 7.0, labels=("a", "b")), 0.8)
    low, high = estimate(5.0, 7.0).interval(0.8)
    assert [(row.low, row.high) for row in shown_rows] == list(zip(low, high, strict=True))
    assert [row.label for row in list_numbers(estimate(1.0, 2.0))] == ["0", "1"]


@pytest.mark.parametrize(
    "label", ["<script>alert(1)</script>", "<img src=x onerror=y>", '"><b>', "&lt;"]
)
def test_a_label_is_text_in_html(label):
    parsed = Tags(estimate(1.0, 2.0, labels=(label, "b"))._repr_html_())
    plain = {"table", "thead", "tbody", "tr", "th", "td", "div"}
    assert parsed.tags <= plain | {"svg", "rect", "path"}
    assert label in parsed.texts


def test_html_of_many_is_short():
    text = estimate(*range(5000))._repr_html_()
    assert len(text) < 20_000
    assert "4,950 smaller ones" in text


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("größe 東京 🙂", "größe 東京 🙂"),
        ("a\x1b[31mred\a", "a\ufffd[31mred\ufffd"),
        ("a\u202eb", "a\ufffdb"),
        ("x" * 10_000_000, "x" * 39 + "…"),
    ],
)
def test_labels_cannot_disturb_a_terminal(label, expected):
    assert shorten_label(label) == expected


def test_numbers():
    assert format_number(-0.2, 0) == "0"
    assert format_number(-0.25, 2) == "-0.25"
    assert count_decimals([]) == 0
    assert count_decimals(list_numbers(estimate(1.0, stderr=0.0))) == 0
    assert [row.value for row in keep_largest(list_numbers(estimate(3.0, 9.0, 5.0)), 2)] == [
        9.0,
        5.0,
    ]


def test_level_is_named():
    assert "99.9% interval" in as_text(make_picture(estimate(1.0), 0.999))


class TestExplain:
    def test_local_needs_nobody(self):
        text = sdp.explain(sdp.protocols.krr.make_local(k=3, epsilon=1.0))
        assert "factor of 2.72" in text
        assert "Nobody: each person's own device" in text
        assert "delta" not in text

    def test_shuffle_says_what_it_rests_on(self):
        protocol = sdp.count(n=10_000, epsilon=1.0, delta=1e-6, honest=0.8)
        text = sdp.explain(protocol)
        assert "At least 8,000 of the 10,000 people" in text
        assert "this protocol promises nothing" in text
        assert "one in 1,000,000" in text
        assert "can exceed what the factor allows by up to delta" in text
        assert "may fail" not in text  # delta is a slack of probabilities, not that of a failure

    def test_local_floor_is_told(self):
        protocol = sdp.protocols.krr.make(n=10_000, k=4, epsilon=1.0, delta=1e-6)
        assert f"epsilon = {round_up(protocol.local_floor.epsilon, 6)}" in sdp.explain(protocol)

    def test_factor_is_rounded_up(self):
        text = sdp.explain(sdp.protocols.krr.make_local(k=3, epsilon=0.5))
        assert "factor of 1.65 " in text  # e^0.5 = 1.6487...

    def test_one_in_is_rounded_down(self):
        text = sdp.explain(sdp.count(n=10_000, epsilon=1.0, delta=1.3e-6))
        assert "one in 700,000." in text  # 769,230.8
        assert "one in 100,000." in sdp.explain(sdp.count(n=10_000, epsilon=1.0, delta=1e-5))

    @pytest.mark.parametrize("spec", PROTOCOLS, ids=lambda spec: spec.name)
    def test_every_protocol_can_be_explained(self, spec):
        protocol = any_protocol(spec)
        text = sdp.explain(protocol)
        assert text.count("\n\n") == 4
        assert protocol.guarantee.proof in text
        hides = "the network must not show that number" in text
        assert hides == protocol.cost.count_depends_on_value
