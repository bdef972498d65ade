"""Plans with noise of the servers: bins, laws and floors; the document; and what comes out of simulated people."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.core.errors import ParameterError, UnsupportedError, WireError
from shuffledp.live.analyzer import answer_question
from shuffledp.live.design import (
    Design,
    Settings,
    choose_other,
    choose_protocols,
    foresee_error,
)
from shuffledp.live.serve import try_survey
from shuffledp.live.servers import _choose_cells, add_noise, describe_dummies
from shuffledp.live.wire.noise import DummyKind
from shuffledp.live.wire.promise import Noise, compute_guarantee
from shuffledp.live.wire.question import read_questions
from shuffledp.numerics.intervals.counts import TwoBinomialsError

FIVE = {"way": {"task": "histogram", "categories": ["a", "b", "c", "d", "e"]}}
TWO = {
    "way": {"task": "histogram", "categories": [str(each) for each in range(10)]},
    "home": {"task": "count"},
}
ALL = {
    **FIVE,
    "home": {"task": "count"},
    "age": {"task": "mean", "lower": 0, "upper": 120},
    "gifts": {"task": "sum", "lower": 0, "upper": 10},
    "half": {"task": "quantiles", "lower": 0, "upper": 30},
    "by": {"task": "mean", "lower": 0, "upper": 10, "column": "age", "by": "way"},
}
TRUSTED = {"local_epsilon": "none", "trust_the_shuffler": True}


def survey(
    questions: dict, *, delta: float = 1e-8, **collection: object
) -> tuple[sdp.Survey, Settings]:
    content = {"epsilon": 1.0, "delta": delta, "questions": questions, "collection": collection}
    return live.read_tables(content)


def plan(questions: dict, **more: object) -> Design:
    return choose_protocols(*survey(questions, **more))


@pytest.mark.parametrize("people", [30, 80, 1000, 100_000])
def test_a_histogram_without_a_floor_errs_by_four_people_whoever_takes_part(people: int) -> None:
    design = plan(FIVE, people=people, **TRUSTED)
    (question,) = design.questions
    assert design.pledge.noise is Noise.SERVERS
    assert question.noise == describe_dummies(question.protocol)
    assert (question.noise.kind, question.noise.bins) == (DummyKind.BINS, 5)
    assert (question.noise.rate, question.noise.most) == (0.5, 36)
    assert people * foresee_error(design, people) < 4.1


def test_a_count_has_one_draw_and_half_the_error() -> None:
    design = plan({"home": {"task": "count"}}, people=80, **TRUSTED)
    assert design.questions[0].noise is not None
    assert design.questions[0].noise.kind is DummyKind.COUNT
    assert 80 * foresee_error(design, 80) < 2.0


def test_a_floor_of_three_among_eighty() -> None:
    design = plan(FIVE, people=80, delta=1e-6, noise="servers")
    (question,) = design.questions
    rare = np.array([40, 30, 10, 0, 0])
    assert math.sqrt(question.protocol.analyzer.variance(rare)[-1]) < 5.2
    assert design.pledge.local_epsilon == 3.0
    assert question.epsilon0 <= 3.0


def test_the_survey_of_the_tutorial_errs_by_a_tenth_of_before() -> None:
    design = plan(TWO, people=3005, **TRUSTED)
    way = design.questions[0]
    counts = np.array([1036, 800, 400, 300, 200, 100, 80, 50, 30, 9])
    assert way.protocol.offers.deal is not None
    found = way.protocol.analyzer.estimate(way.protocol.offers.deal(counts, sdp.SeededWords(1)))
    low, high = found.exact_interval(0.95)
    assert (np.asarray(high) - np.asarray(low)).max() / 2 <= 20


def test_questions_of_equal_weight_have_one_law_and_a_weight_moves_it() -> None:
    way, home = plan(TWO, people=1000, **TRUSTED).questions
    assert way.noise is not None
    assert home.noise is not None
    assert (way.noise.rate, way.noise.most) == (home.noise.rate, home.noise.most)
    heavy = {**TWO, "way": {**TWO["way"], "weight": 3}}
    way, home = plan(heavy, people=1000, **TRUSTED).questions
    assert way.noise is not None
    assert home.noise is not None
    assert way.noise.rate == pytest.approx(3 * home.noise.rate)


@pytest.mark.parametrize(("people", "points"), [(10, 2), (1000, 8), (100_000, 32)])
def test_few_people_have_few_points(people: int, points: int) -> None:
    design = plan({"age": ALL["age"]}, people=people, **TRUSTED)
    assert design.questions[0].noise is not None
    assert design.questions[0].noise.bins == points


def test_a_mean_errs_little_more_than_a_curator() -> None:
    design = plan({"age": ALL["age"]}, people=1000, **TRUSTED)
    analyzer = design.questions[0].protocol.analyzer
    step = 120 / 7
    rounding = step / 2 / math.sqrt(1000)
    central = 120 * math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1)) / 1000
    error = math.sqrt(analyzer.variance(np.full(8, 125)))
    assert error <= 3 * central + rounding


@pytest.mark.parametrize("more", [TRUSTED, {"noise": "servers"}])
def test_every_kind_of_question_keeps_the_promise_and_is_read_back(more: dict) -> None:
    design = plan(ALL, people=2000, **more)
    found = compute_guarantee(design.questions, design.pledge)
    assert (found.epsilon, found.delta, found.honest) == (1.0, 1e-8, 1)
    louder = replace(design.pledge, epsilon=0.98)
    assert compute_guarantee(design.questions, louder).epsilon > 0.98
    again = read_questions([each.to_dict() for each in design.questions], 2)
    assert again == design.questions
    assert [each.protocol.analyzer for each in again] == [
        each.protocol.analyzer for each in design.questions
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"noise": None}, "only of it"),
        ({"protocol": "krr"}, "only of it"),
        ({"noise": {"kind": "bins", "bins": 4, "rate": "0.5", "most": 36}}, "does not fit 5"),
        ({"parameters": {"k": 5, "parts": 1, "word_bits": 8}}, "no protocol of this version"),
        ({"parameters": {"k": 5, "parts": 65}}, "at most 64"),
    ],
)
def test_laws_that_do_not_fit_are_refused(change: dict, complaint: str) -> None:
    (question,) = plan(FIVE, people=100, **TRUSTED).questions
    with pytest.raises(WireError, match=complaint):
        read_questions([{**question.to_dict(), **change}], 2)


def test_windows_of_one_device_are_composed() -> None:
    once = plan(FIVE, people=100, **TRUSTED)
    often = plan(FIVE, people=100, windows=52, reports_per_device=52, **TRUSTED)
    apart = plan(FIVE, people=100, windows=52, reports_per_device=52, composed=False, **TRUSTED)
    laws = [design.questions[0].noise for design in (once, often, apart)]
    assert laws[0] == laws[2]
    assert laws[0] is not None
    assert laws[1] is not None
    assert laws[0].rate / 52 < laws[1].rate < laws[0].rate / 20
    assert compute_guarantee(often.questions, often.pledge).epsilon == 1.0


def test_one_random_question_has_the_whole_promise_and_the_whole_floor() -> None:
    design = plan(TWO, people=3000, noise="servers", one_question=True)
    assert [each.protocol.parameters["parts"] for each in design.questions] == [2, 2]
    assert [each.epsilon0 for each in design.questions] == [3.0, 3.0]
    assert compute_guarantee(design.questions, design.pledge).epsilon == 1.0
    way = design.questions[0]
    error = way.protocol.analyzer.estimate(way.protocol.analyzer.tally(_nothing(100))).error
    assert isinstance(error, TwoBinomialsError)
    assert error.p == pytest.approx(float(way.protocol.randomizer.p) / 2)


def _nothing(users: int):
    return sdp.core.randomizer.Shuffled(payload=np.zeros(0, dtype=np.int64), users=users)


@pytest.mark.parametrize(
    ("collection", "error", "complaint"),
    [
        ({"local_epsilon": "none"}, ParameterError, "must be a number: without,"),
        ({"local_epsilon": "few"}, ParameterError, 'must be a number, or "none"'),
        ({"noise": "people"}, ParameterError, 'noise=\'people\' must be "devices" or "servers"'),
        ({**TRUSTED, "noise": "devices"}, ParameterError, 'must be a number if noise = "devices"'),
        ({"noise": "servers", "local_epsilon": 0.9}, UnsupportedError, "without any dummies"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    collection: dict, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        plan(FIVE, people=100, **collection)


@pytest.mark.parametrize(
    ("questions", "more", "complaint"),
    [
        ({"w": {"task": "words", "alphabet": "letters", "max_length": 5}}, {}, "nobody can list"),
        (
            {"half": ALL["half"], "home": ALL["home"]},
            {"one_question": True},
            "answered by everybody",
        ),
        ({"way": {**FIVE["way"], "protocol": "unary"}}, {}, "protocol"),
    ],
)
def test_what_has_no_noise_of_the_servers_yet_says_so(
    questions: dict, more: dict, complaint: str
) -> None:
    with pytest.raises(sdp.ShuffledpError, match=complaint):
        plan(questions, people=100, noise="servers", **more)


def test_the_other_noise_is_planned_for_comparison() -> None:
    file = survey(FIVE, people=80, noise="servers")
    design = choose_protocols(*file)
    other = choose_other(*file, design)
    assert not other.served
    assert foresee_error(other, 80) > 1.5 * foresee_error(design, 80)
    assert choose_other(*file, other).questions == design.questions
    trusted = survey(FIVE, people=80, **TRUSTED)
    assert choose_other(*trusted, choose_protocols(*trusted)).pledge.local_epsilon <= 3.0
    strict = survey(FIVE, people=5_000, noise="servers", local_epsilon=2.0)
    assert choose_other(*strict, choose_protocols(*strict)).pledge.local_epsilon <= 2.0


@pytest.mark.parametrize(("people", "noise"), [(80, Noise.SERVERS), (100_000, Noise.DEVICES)])
def test_unless_it_is_said_the_noise_is_that_of_the_smaller_error(
    people: int, noise: Noise
) -> None:
    """Where the crowd's own bound keeps the promise with less noise, no dummies are added."""
    chosen = plan(FIVE, people=people)
    assert chosen.pledge.noise is noise
    errors = {
        each: foresee_error(plan(FIVE, people=people, noise=each), people)
        for each in ("devices", "servers")
    }
    assert foresee_error(chosen, people) == min(errors.values()) == errors[noise.value]


def test_what_the_servers_cannot_hide_is_left_to_the_devices() -> None:
    words = {"w": {"task": "words", "alphabet": "letters", "max_length": 5}}
    assert plan(words, people=5000).pledge.noise is Noise.DEVICES
    both = {**words, "home": ALL["home"]}
    assert plan(both, people=5000).pledge.noise is Noise.DEVICES


LIVE = {
    "count": {},
    "histogram": {"categories": ["a", "b", "c"]},
    "bins": {"edges": [0, 18, 65, 120]},
    **{
        task: {"lower": 0, "upper": 120}
        for task in ("mean", "sum", "median", "quantiles", "cdf", "variance", "std")
    },
    "range": {"lower": 0, "upper": 120, "at": [20, 40]},
}


def test_all_that_devices_can_be_asked_is_listed_here() -> None:
    assert {*LIVE, "words"} == {name for name, task in sdp.tasks.TASKS.items() if task.live}


@pytest.mark.parametrize("more", [TRUSTED, {"noise": "servers"}], ids=["no floor", "floor"])
@pytest.mark.parametrize("task", LIVE)
def test_every_live_question_has_noise_of_the_servers(task: str, more: dict) -> None:
    """With and without a floor: it is planned, written, read back, and answered from what both servers add."""
    design = plan({"q": {"task": task, "column": "q", **LIVE[task]}}, people=300, **more)
    (question,) = design.questions
    assert design.served
    assert (question.epsilon0 <= 3.0) == (more is not TRUSTED)
    (again,) = read_questions([question.to_dict()], 2)
    assert again == question
    assert question.noise is not None
    deal, size = again.protocol.offers.deal, question.noise.bins
    assert deal is not None
    counts = np.full(size, 300 // size)
    shown = answer_question(again, deal(counts, sdp.SeededWords(3)))
    for row in shown["estimate"]:
        assert row["low"] <= row["value"] <= row["high"]
    assert max(row["stderr"] for row in shown["estimate"]) > 0


def test_few_people_have_few_cells_and_points_of_a_range_keep_their_own() -> None:
    cells = {
        people: plan(
            {"q": {"task": "median", "column": "q", **LIVE["median"]}},
            people=people,
            noise="servers",
        )
        .questions[0]
        .protocol.randomizer.domain.size
        for people in (80, 1000, 20_000)
    }
    assert cells == {80: 4, 1000: 16, 20_000: 32}
    exact = plan({"q": {"task": "range", **LIVE["range"]}}, people=1000, **TRUSTED).questions[0]
    assert exact.protocol.randomizer.domain.size == 121


def test_cells_of_hopeless_questions_are_few() -> None:
    """A fifth of a floor of 3 leaves nothing of a distribution function: every interval is all of it."""
    given = {"task": "cdf", "lower": 0, "upper": 120, "epsilon": 0.6, "parts": 1}
    whole = sdp.Integers(lower=0, upper=120)
    assert _choose_cells(given, whole, 100, 0.2, 2e-7)["steps"] == 4
    # A floor that keeps the promise alone needs no noise, so no number of cells is better than another.
    assert _choose_cells(given, whole, 100, 0.7, 2e-7)["steps"] == 4


def test_errors_of_shares_and_spreads_are_shares() -> None:
    """Of a distribution function they are shares already, of a variance parts of the squared range."""
    for task in ("cdf", "std", "variance"):
        made = plan({"q": {"task": task, **LIVE[task]}}, people=1000, **TRUSTED)
        (question,) = made.questions
        own = math.sqrt(float(np.max(question.protocol.analyzer.variance(np.array([1000])))))
        unit = {"cdf": 1, "std": 120, "variance": 120**2}[task]
        assert foresee_error(made, 1000) == pytest.approx(own / unit)


def test_answers_are_functions_of_the_noised_tally_alone() -> None:
    """Two exact tallies that the noise makes equal have equal answers; people come from the manifest."""
    design = plan(ALL, people=500, **TRUSTED)
    source = sdp.SeededWords(7)
    tallies = []
    for question in design.questions:
        assert question.noise is not None
        counts = np.zeros(question.noise.bins, dtype=np.int64)
        counts[0] = 500
        shuffled = counts + question.noise.draw(source)
        tallies.append(sdp.core.analyzer.Tally(counts=shuffled, users=int(shuffled.sum())))
    noisy = add_noise(design.questions, tallies, 500, source)
    for question, tally in zip(design.questions, noisy, strict=True):
        shown = answer_question(question, tally)
        assert (shown["people"], shown["of"]) == (500, 500)
        assert shown["estimate"]
    assert all(tally.users == 500 for tally in noisy)


def test_settings_have_both_numbers() -> None:
    assert math.isinf(Settings(local_epsilon="none").floor)
    assert Settings(local_epsilon=2).floor == 2.0


@pytest.mark.parametrize("more", [TRUSTED, {"noise": "servers"}, {"noise": "devices"}])
def test_a_plan_is_tried_on_the_people_of_a_file(tmp_path: Path, more: dict) -> None:
    """Every number is near the truth: within what its own interval at the level 1 - 1e-4 says, about."""
    people = [
        (["car", "bus"][row % 4 == 0], ["no", "yes"][row % 3 == 0], row % 50) for row in range(4000)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["way,home,years", *(f"{a},{b},{c}" for a, b, c in people)]))
    asked = {
        "way": {"task": "histogram", "categories": ["car", "bus", "foot"]},
        "home": {"task": "count"},
        "age": {"task": "mean", "lower": 0, "upper": 50},
    }
    planned = survey(asked, people=10, **more)
    collection, result, _ = try_survey(*planned, path, {"age": "years"}, sdp.SeededWords(11))
    assert collection.pledge.noise.value == more.get("noise", "servers")
    rows = {name: answer["estimate"] for name, answer in result["questions"].items()}
    truth = {"way": [3000, 1000, 0], "home": [1334], "age": [24.5]}
    for name, wanted in truth.items():
        assert result["questions"][name]["of"] == 4000
        for row, value in zip(rows[name], wanted, strict=True):
            assert abs(row["value"] - value) < 5 * row["stderr"], (name, row)


def test_values_that_no_device_sends_are_told_or_left_out(tmp_path: Path) -> None:
    """Whoever is left out of one question is left out of all; what was moved is said to the operator alone."""
    path = tmp_path / "people.csv"
    path.write_text("home,age\n" + "yes,99\nno,7\n,7\n" * 200)
    asked = {"home": {"task": "count"}, "age": {"task": "mean", "lower": 0, "upper": 50}}
    planned = survey(asked, people=10, noise="servers")
    with pytest.raises(sdp.DataError, match="is missing; to go on: on_invalid null=drop"):
        try_survey(*planned, path)
    policy = "null=drop,out_of_range=clamp"
    _, result, read = try_survey(*planned, path, source=sdp.SeededWords(3), on_invalid=policy)
    assert (read.people, read.left_out) == (400, 200)
    moved = "column 'age': 200 invalid values (out_of_range 200) were moved to the nearest end"
    assert read.recoded == (moved,)
    assert result["questions"]["age"]["of"] == 400
    _, few, _ = try_survey(*planned, path, source=sdp.SeededWords(3), where="home = 'no'")
    assert few["questions"]["home"]["of"] == 200
