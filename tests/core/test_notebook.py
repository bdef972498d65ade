"""What notebooks show: intervals, bars to both sides, dots between limits; nothing but text gets in."""

import html.parser
import re

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.display import Number, Picture
from shuffledp.core.notebook import as_html, list_facts, make_table, say
from shuffledp.questions import QuestionAnswer
from support import any_protocol

EVIL = '<img src=x onerror="alert(1)">&amp;'
ALLOWED = {
    "b", "circle", "code", "details", "div", "h1", "h2", "p", "path", "rect", "small", "summary", "svg", "table",
    "tbody", "td", "th", "thead", "tr",
}  # fmt: skip
ATTRIBUTES = {
    "aria-hidden", "cx", "cy", "d", "fill", "height", "opacity", "r", "stroke", "stroke-width", "style",
    "width", "x", "y",
}  # fmt: skip


class Page(html.parser.HTMLParser):
    """The tags of some HTML; refuses what is not allowed, and tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.shapes = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in ALLOWED, tag
        self.shapes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def row(value, low, high, label="a"):
    return Number(label, value, 1.0, low, high)


def bars(*rows):
    return [
        each for tag, each in Page(as_html(Picture(rows=rows, level=0.95))).shapes if tag == "rect"
    ]


class TestBars:
    def test_negative_ones_are_on_the_left_of_zero(self):
        up, down = bars(row(6.0, 5.0, 7.0), row(-3.0, -4.0, -2.0))
        zero = int(up["x"])
        assert int(down["x"]) + int(down["width"]) == zero
        assert int(up["width"]) == pytest.approx(2 * int(down["width"]), abs=1)
        assert float(down["fill-opacity"]) < 1
        assert "fill-opacity" not in up

    def test_nothing_but_zero_starts_at_the_left(self):
        (bar,) = bars(row(0.0, 0.0, 0.0))
        assert int(bar["x"]) == 2  # the margin

    def test_intervals_stay_inside(self):
        shown = Page(as_html(Picture(rows=(row(1.0, -5.0, 9.0), row(2.0, 1.0, 3.0)), level=0.95)))
        places = [int(x) for _, each in shown.shapes if "stroke-width" in each for x in re.findall(r"M(\d+)|H(\d+)", each["d"])[0] if x]  # fmt: skip
        assert all(0 <= x <= 180 for x in places)

    @pytest.mark.parametrize("value", [0.0, float("inf"), float("nan"), -1e300, 1e300])
    def test_extreme_numbers_can_be_drawn(self, value):
        (bar,) = bars(row(value, -abs(value), abs(value)))
        assert 0 <= int(bar["width"]) <= 180

    def test_colours_are_seen_on_white_and_on_black(self):
        for each in bars(row(6.0, 5.0, 7.0), row(-3.0, -4.0, -2.0)):
            light = luminance(each["fill"])
            assert (1.05) / (light + 0.05) >= 3  # the contrast of WCAG for pictures
            assert (light + 0.05) / 0.05 >= 3


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_mean_is_a_dot_between_its_limits():
    one = Estimate(value=30.0, error=NormalError(stderr=2.0), limits=(0, 120))
    page = Page(one._repr_html_())
    (dot,) = [each for tag, each in page.shapes if tag == "circle"]
    assert int(dot["cx"]) == pytest.approx(2 + 176 / 4, abs=1)
    assert "0 .. 120" in page.texts
    assert not [tag for tag, _ in page.shapes if tag == "rect"]


def test_nothing_has_a_background_or_an_ink_of_its_own():
    shown = Estimate(value=np.array([1.0, -2.0]), error=NormalError(stderr=2.0), limits=(0, 9))
    assert not re.search("background|color:|black|white", shown._repr_html_())


@pytest.mark.parametrize(
    "shown",
    [say(EVIL), list_facts([(EVIL, EVIL)]), make_table([EVIL], [[EVIL]]), say(EVIL, bold=True, small=True)],
    ids=["say", "facts", "table", "bold"],
)  # fmt: skip
def test_all_text_is_escaped(shown):
    assert EVIL in Page(shown).texts


def everything():
    """All that has a picture of its own in a notebook."""
    codes = np.arange(3000) % 4
    common = {"epsilon": 1.0, "delta": 1e-6}
    rng = sdp.SeededWords(1)
    names = sdp.Categories(k=4, names=(EVIL, "b", "c", "d"))
    krr = sdp.protocols.krr.KRR(k=3, epsilon0=1.0)
    survey = sdp.Survey.loads("epsilon = 1.0\ndelta = 1e-8\n[questions.home]\ntask = 'count'\n")
    learned = sdp.learn(codes, k=4, rng=rng, **common).label(names)
    yield "estimate", learned.raw
    yield "processed", learned.processed
    yield "learned", learned
    yield "nothing promised", sdp.learn(codes, k=4, model="none").label(names)
    yield "test", sdp.uniformity_test(codes, k=4, alpha=0.3, rng=rng, **common)
    yield "guarantee", learned.guarantee
    yield "plan", sdp.plan("count", n=1000, **common)
    yield "no plan", sdp.plan("count", n=1000, epsilon=1e-9, delta=0.0, models="shuffle")
    yield "survey plan", survey.plan(1000)
    answer = sdp.ask([EVIL, "b"] * 500, "histogram", categories=[EVIL, "b"], rng=rng, **common)
    yield "answer", answer
    question = QuestionAnswer(
        name="way",
        task="histogram",
        protocol=answer.protocol,
        estimate=answer.estimate,
    )
    yield "question", question
    yield "survey", sdp.SurveyAnswer(name=EVIL, protocol=answer.protocol, answers=(question,), n=9)
    asked = sdp.questions.Question(name=EVIL, task="count", column="home")
    yield "questions", sdp.Survey(epsilon=1.00000049, delta=1e-6, questions=(asked,))
    yield "exact audit", sdp.audit.exact(krr, n=4, epsilon=0.5)
    yield "sampled audit", sdp.audit.empirical(krr, [0], [1], delta=0.0, samples=1000, rng=rng)


def test_all_of_it_is_plain_and_closed():
    for name, shown in everything():
        page = Page(shown._repr_html_())
        assert any(text.strip() for text in page.texts), name
        assert not re.search(r"<h\d", shown._repr_html_()), name  # headings are the notebook's own
        if name in ("estimate", "learned", "survey", "questions", "question", "answer"):
            assert any(text.startswith("<img src=x onerror") for text in page.texts), name


@pytest.mark.parametrize(
    "name", ["krr", "rr", "piecewise", "correlated_count", "zsum", "unary_sum"]
)
def test_protocols(name):
    protocol = any_protocol(sdp.protocols.spec(name))
    page = Page(protocol._repr_html_())
    assert protocol.name in page.texts
    assert str(protocol.guarantee) in page.texts
    assert len(protocol._repr_html_()) < 5000


def test_a_promise_is_never_shown_smaller():
    promise = sdp.Guarantee(epsilon=1.00000049, delta=1.0004e-8, model=sdp.Model.LOCAL, proof="p")
    assert "epsilon = 1.00001, delta = 1.01e-08" in promise._repr_html_()
    assert "epsilon = 1.00001" in dict(everything())["questions"]._repr_html_()
