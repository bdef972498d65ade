"""Bounds that nobody knows: where they lie, what they cost, and when they are refused."""

import datetime
import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.mechanisms.geometric import Geometric
from shuffledp.numerics.intervals import Difference
from shuffledp.questions.bounds import (
    ALL,
    BETA,
    OF_PEOPLE,
    _add_noise,
    _add_up,
    _split,
    choose_bounds,
    find_threshold,
)
from shuffledp.questions.prepared import Prepared

MODELS = {"central": {}, "shuffle": {"delta": 1e-8}}
BOTH = pytest.mark.parametrize("model", MODELS)
AUTO = {"lower": "auto", "upper": "auto"}
ZERO, EDGES, _ENDS = 83, ALL.edges, ALL.ends


def ask(values, task="mean", *, model="central", seed=1, epsilon=1.0, **more):
    given = {**AUTO, **MODELS[model], "rng": sdp.SeededWords(seed), **more}
    return sdp.ask(values, task, epsilon=epsilon, model=model, **given)


def ends(answer):
    return answer.bounds.lower, answer.bounds.upper


class TestThreshold:
    def test_it_is_the_formula_of_discrete_laplace_noise(self):
        for epsilon in (0.01, 0.1, 1.0):
            rate = epsilon / 2
            expected = math.ceil(math.log(167 / (BETA * (1 + math.exp(-rate)))) / rate)
            counted = Geometric(epsilon=epsilon, sensitivity=2, k=167)
            release = counted.release(np.zeros(167, dtype=np.int64), sdp.SeededWords(1))
            assert find_threshold(release) == expected
        assert expected < 182

    def test_noise_of_a_shuffler_reaches_it_as_rarely_and_no_rarer(self):
        answer = ask(np.full(10_000, 5.0), model="shuffle")
        made = sdp.protocols.correlated_histogram.make(
            n=10_000, k=167, epsilon=0.1, delta=_split(1e-8, 0.1)[0], honest=0.9
        )
        device = made.randomizer
        noise = Difference(r=float(10_000 * device.noise.share), p=device.noise.p)
        t = answer.bounds.threshold
        assert noise.tail(t - 1) / 2 <= BETA / 167 < noise.tail(t - 2) / 2

    def test_a_false_band_has_probability_one_percent_at_most(self):
        """Exactly, for 167 empty bands: nearly the 1 %, and with a smaller t more."""
        rate = 0.05

        def chance(t):
            return 1 - (1 - math.exp(-rate * t) / (1 + math.exp(-rate))) ** 167

        assert 0.9 * BETA < chance(182) <= BETA < chance(181 - 20)

    def test_noise_alone_is_refused_as_often_as_it_should(self):
        counted = Geometric(epsilon=0.1, sensitivity=2, k=167)
        words = sdp.SeededWords(3)
        released = [counted.release(np.zeros(167, dtype=np.int64), words) for _ in range(300)]
        reached = sum(bool(np.any(np.asarray(each.value) >= 182)) for each in released)
        assert reached <= 15  # binomial(300, 1 %): more in one of 10^6 tests
        early = sum(bool(np.any(np.asarray(each.value) >= 100)) for each in released)
        assert early > 100  # a mutant's t


class TestBands:
    def test_there_are_167(self):
        assert len(EDGES) - 1 == 167
        assert EDGES[ZERO : ZERO + 2] == (-(2.0**-20), 2.0**-20)
        assert len(_ENDS) == 171
        assert sorted(_ENDS) == list(_ENDS)

    @pytest.mark.parametrize("power", [-20, -19, 0, 9, 61, 62])
    def test_an_end_is_one_band_beyond(self, power):
        reached = np.zeros(167, dtype=np.bool_)
        reached[ZERO + 21 + power] = True
        low, high = (_ENDS[place] for place in choose_bounds(reached))
        assert EDGES[ZERO + 21 + power] == 2.0**power
        assert (low, high) == (0.0 if power == -20 else 2.0 ** (power - 1), 2.0 ** (power + 2))
        mirrored = [_ENDS[place] for place in choose_bounds(reached[::-1])]
        assert mirrored == [-high, -low]

    def test_beyond_zero_a_band_ends_at_the_smallest_magnitude(self):
        reached = np.zeros(167, dtype=np.bool_)
        assert choose_bounds(reached) is None
        reached[ZERO] = True
        assert [_ENDS[place] for place in choose_bounds(reached)] == [-(2.0**-20), 2.0**-20]

    def test_public_points_are_inside(self):
        reached = np.zeros(167, dtype=np.bool_)
        reached[ZERO + 30] = True
        places = choose_bounds(reached, points=(-3.0, 1e300))
        assert [_ENDS[place] for place in places] == [-4.0, 2.0**64]


@BOTH
class TestData:
    def test_heavy_tails(self, model):
        values = np.random.default_rng(1).pareto(1.1, 20_000) * 100 + 100
        answer = ask(values, model=model)
        lower, upper = ends(answer)
        assert lower == 32.0
        assert 2.0**11 <= upper <= 2.0**17 < values.max()
        cut = np.clip(values, lower, upper).mean()
        assert abs(answer.estimate.value - cut) < 6 * answer.estimate.stderr
        beyond = np.mean((values < lower) | (values > upper))
        assert answer.bounds.clamped.low <= beyond <= answer.bounds.clamped.high

    def test_all_equal(self, model):
        answer = ask(np.full(5_000, 1000.0), model=model)
        assert ends(answer) == (256.0, 2048.0)
        assert abs(answer.estimate.value - 1000) < 20

    def test_all_zero(self, model):
        assert ends(ask(np.zeros(5_000), model=model)) == (-(2.0**-20), 2.0**-20)
        whole = ask(np.zeros(5_000, dtype=np.int64), model=model)
        assert ends(whole) == (0, 1)
        assert abs(whole.estimate.value) < 0.01

    def test_one_outlier(self, model):
        values = np.append(np.full(4_999, 1000.0), 1e15)
        assert ends(ask(values, model=model)) == (256.0, 2048.0)

    def test_negative_only(self, model):
        answer = ask(-np.full(5_000, 1000.0), model=model)
        assert ends(answer) == (-2048.0, -256.0)
        assert abs(answer.estimate.value + 1000) < 20

    def test_ten_people(self, model):
        said = {
            "central": r"n = 10: .* n = 182 can be enough if all .* spent epsilon = 0.1$",
            "shuffle": "too few users",  # before anything is spent
        }
        with pytest.raises(UnsupportedError, match=said[model]):
            ask([1000.0] * 10, model=model)

    def test_from_the_stated_number_on_it_can_work(self, model):
        found = ask(np.full(2_000, 1000.0), model=model).bounds.threshold
        assert 182 <= found < 250
        assert ends(ask(np.full(2 * found, 1000.0), model=model)) == (256.0, 2048.0)

    def test_one_person_moves_nothing_but_the_noisy_numbers(self, model):
        base = np.random.default_rng(2).lognormal(10, 0.8, 3_000)
        seen = set()
        for value in (base[0], 0.0, -7.0, 1e-300, 1e300, math.inf):
            values = base.copy()
            values[0] = value
            answer = ask(values, model=model)
            record = answer.to_dict()
            notes = re.sub(r"(about )?[0-9.]+%", "%", " ".join(record["notes"]))
            public = {
                name: record["bounds"][name] for name in record["bounds"] if name != "clamped"
            }
            seen.add((notes, json.dumps(public), record["invalid"], record["epsilon"], answer.n))
        assert len(seen) == 1


class TestQuestions:
    VALUES = np.random.default_rng(3).lognormal(3, 0.5, 20_000)

    @pytest.mark.parametrize(
        ("task", "truth"),
        [
            ("sum", np.sum),
            ("mean", np.mean),
            ("median", np.median),
            ("quantiles", np.median),
            ("variance", np.var),
            ("std", np.std),
        ],
    )
    def test_each_answers(self, task, truth):
        answer = ask(self.VALUES, task, epsilon=10.0)
        assert answer.task == task
        assert abs(answer.estimate.value - truth(self.VALUES)) < 0.1 * truth(self.VALUES)

    def test_points_of_a_cdf_are_inside(self):
        answer = ask(self.VALUES, "cdf", at=[20.0, 3000.0])
        assert answer.bounds.upper == 4096.0
        assert answer.estimate.value[1] == pytest.approx(1.0, abs=0.05)

    def test_the_ends_of_a_range_are_inside(self):
        answer = ask(self.VALUES, "range", at=[20.0, 3000.0])
        assert answer.bounds.upper == 4096.0
        assert abs(answer.estimate.value - np.sum(self.VALUES >= 20)) < 2_000

    def test_one_end_may_be_declared(self):
        answer = ask(self.VALUES, lower=0.0)
        assert answer.bounds.lower == 0.0
        assert answer.bounds.ends == ("upper",)
        assert f"upper = {answer.bounds.upper:.0f} is estimated" in str(answer)
        with pytest.raises(
            UnsupportedError, match="the declared lower is beyond the values of the people"
        ):
            ask(self.VALUES, lower=10_000.0)

    def test_by_group(self):
        table = {"v": self.VALUES, "g": np.array(["a", "b"])[np.arange(20_000) % 2]}
        answer = ask(table, column="v", by="g", groups=["a", "b"], epsilon=10.0)
        assert answer.by == "g"
        assert len(answer.estimate.value) == 2

    def test_a_named_protocol_answers(self):
        assert ask(self.VALUES, "sum", protocol="laplace").protocol.name == "laplace"

    def test_integers_have_whole_ends(self):
        answer = ask(np.arange(5_000), "median", epsilon=10.0)
        assert ends(answer)[1] == 16384
        assert isinstance(answer.bounds.upper, int)
        assert isinstance(answer.bounds.lower, int)

    def test_the_interval_of_the_clamped_share_covers(self):
        """20 runs, each with an interval that holds whatever bounds were found."""
        values = np.random.default_rng(4).pareto(1.0, 5_000) + 1
        for seed in range(20):
            bounds = ask(values, seed=seed).bounds
            beyond = np.mean((values < bounds.lower) | (values > bounds.upper))
            assert bounds.clamped.low <= beyond <= bounds.clamped.high
            assert abs(bounds.clamped.value - beyond) < 6 * bounds.clamped.stderr

    def test_the_noise_of_several_bands(self):
        counted = Geometric(epsilon=0.1, sensitivity=2, k=167)
        release = counted.release(np.zeros(167, dtype=np.int64), sdp.SeededWords(1))
        assert _add_noise(release, 7).noise.variance == pytest.approx(7 * counted.variance())
        assert _add_noise(release, 1).noise.radius(0.05) == counted.noise.radius(Fraction(0.05))


class TestPeople:
    """Three rows of each of 4,000 people: the bounds are those of a person's value."""

    WHO = np.repeat(np.arange(4_000), 3)
    ROWS = np.tile([100.0, 200.0, 600.25], 4_000)

    def ask(self, task="mean", rows=ROWS, **more):
        return ask({"who": self.WHO, "v": rows}, task, column="v", person="who", **more)

    @BOTH
    @pytest.mark.parametrize(
        ("task", "reduce", "expected"),
        [
            ("mean", None, (128.0, 1024.0)),  # of 300.08
            ("sum", None, (256.0, 2048.0)),  # 900.25
            ("mean", "min", (32.0, 256.0)),
            ("median", "max", (256.0, 2048.0)),
            ("mean", "rows", (1, 8)),
        ],
    )
    def test_bounds_are_those_of_people(self, model, task, reduce, expected):
        answer = self.ask(task, reduce=reduce, model=model)
        assert (answer.n, answer.unit) == (4_000, "person")
        assert ends(answer) == expected
        assert answer.guarantee.epsilon <= 1
        assert answer.rows is None

    def test_there_are_fewer_bands(self):
        assert OF_PEOPLE.size == 83
        assert self.ask().bounds.threshold == math.ceil(
            math.log(83 / (BETA * (1 + math.exp(-0.05)))) / 0.05
        )

    def test_one_person_with_a_thousand_rows_moves_nothing(self):
        table = {"who": np.append(self.WHO, [0] * 1000), "v": np.append(self.ROWS, [1e12] * 1000)}
        answer = ask(table, "sum", column="v", person="who")
        assert (answer.n, *ends(answer)) == (4_000, 256.0, 2048.0)

    def test_small_values_are_not_lost(self):
        """Rows are rounded to 2^-10 for the bands, and the bounds of what becomes 0 are beyond it."""
        answer = self.ask(rows=self.ROWS / 1e6)
        assert ends(answer) == (-(2.0**-10), 2.0**-10)
        assert abs(answer.estimate.value - 0.00030008) < 6 * answer.estimate.stderr < 1e-5

    def test_a_mean_of_integers_has_fractions(self):
        answer = self.ask(rows=np.tile([0, 0, 1], 4_000))
        assert ends(answer) == (0.125, 1.0)
        assert abs(answer.estimate.value - 1 / 3) < 0.01

    def test_values_beyond_the_last_band_are_refused(self):
        with pytest.raises(UnsupportedError, match=r"reach 2\^30, the last band"):
            self.ask(rows=self.ROWS * 1e9)


class TestBudget:
    @pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
    @pytest.mark.parametrize("epsilon", [1.0, 0.7, 3.3])
    def test_parts_add_up_to_at_most_all(self, share, epsilon):
        first, rest = _split(epsilon, share)
        assert first == epsilon * share
        assert Fraction(first) + Fraction(rest) <= Fraction(epsilon)
        assert first + rest == pytest.approx(epsilon, rel=1e-15)

    @BOTH
    def test_the_guarantee_is_the_sum(self, model):
        answer = ask(np.full(5_000, 9.0), model=model, bounds_share=0.25)
        assert answer.bounds.guarantee.epsilon <= 0.25
        assert answer.protocol.guarantee.epsilon <= 0.75
        assert 0.99 < answer.guarantee.epsilon <= 1.0
        assert answer.guarantee.delta <= MODELS[model].get("delta", 0.0)
        assert answer.guarantee.delta >= answer.bounds.guarantee.delta
        assert "sequential composition" in answer.guarantee.proof
        assert "epsilon = 1)" in answer.explain()

    def test_json(self):
        record = ask(np.full(5_000, 9.0)).to_dict()
        assert json.loads(json.dumps(record))["bounds"] == {
            "lower": 4.0,
            "upper": 32.0,
            "estimated": ["lower", "upper"],
            "share": 0.1,
            "epsilon": 0.1,
            "delta": 0.0,
            "protocol": "geometric",
            "threshold": 182,
            "clamped": record["bounds"]["clamped"],
        }
        assert set(record["bounds"]["clamped"]) == {"label", "value", "stderr", "low", "high"}
        assert record["epsilon"] == 1.0
        assert any("values limited to 4 .. 32" in note for note in record["notes"])
        assert "bounds" not in ask(np.full(50, 9.0), lower=0, upper=20).to_dict()

    def test_a_ledger_is_charged_once(self, tmp_path):
        ledger, budget = tmp_path / "l.json", sdp.ledger.Budget(epsilon=1.5, delta=1e-6)
        given = {"rng": None, "ledger": ledger, "budget": budget}
        answer = ask(np.full(5_000, 9.0), **given)
        (entry,) = sdp.ledger.Ledger(ledger).entries()
        assert entry.charge.epsilon == answer.guarantee.epsilon == 1.0
        assert entry.note["bounds"] == ["lower", "upper"]
        assert entry.note["task"] == "mean"
        assert entry.note["protocol"] == answer.protocol.name
        with pytest.raises(ShuffledpError, match="budget"):
            ask(np.full(5_000, 9.0), **given)
        assert len(sdp.ledger.Ledger(ledger).entries()) == 1
        assert "by" not in entry.note
        group = {"by": "way", "groups": ["a", "b"], "ledger": tmp_path / "m.json", "rng": None}
        table = {"x": np.full(5_000, 9.0), "way": ["a", "b"] * 2_500}
        ask(table, column="x", budget=budget, **group)
        (entry,) = sdp.ledger.Ledger(tmp_path / "m.json").entries()
        assert entry.note["by"] == "way"

    # Too little for the first release, or for both.
    @pytest.mark.parametrize("epsilon", [0.05, 0.5])
    def test_a_budget_that_is_too_small_is_refused_before_anybody_is_asked(
        self, tmp_path, monkeypatch, epsilon
    ):
        monkeypatch.setattr(Prepared, "_run", lambda *_: pytest.fail("people were asked"))
        ledger, budget = tmp_path / "l.json", sdp.ledger.Budget(epsilon=epsilon, delta=1e-6)
        with pytest.raises(sdp.BudgetError, match="refused"):
            ask(np.full(5_000, 9.0), rng=None, ledger=ledger, budget=budget)
        assert not ledger.exists()

    def test_a_refusal_is_charged_what_was_spent(self, tmp_path):
        ledger, budget = tmp_path / "l.json", sdp.ledger.Budget(epsilon=1.5, delta=1e-6)
        with pytest.raises(UnsupportedError, match="no bounds were found"):
            ask([9.0] * 10, rng=None, ledger=ledger, budget=budget)
        (entry,) = sdp.ledger.Ledger(ledger).entries()
        assert entry.charge.epsilon == pytest.approx(0.1)
        assert entry.note["refused"]


class TestRefused:
    VALUES = np.full(5_000, 9.0)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"task": "histogram"}, "lower='auto' is not for a histogram"),
            ({"task": "count"}, "lower='auto' is not for a count"),
            ({"task": "quantiles", "at": [1.5]}, "at=1.5 must be"),
            ({"upper": None}, "needs both `lower` and `upper`"),
            ({"lower": 0, "upper": 9, "bounds_share": 0.2}, "bounds_share needs lower='auto'"),
            ({"bounds_share": 1.5}, "bounds_share=1.5 must be"),
            ({"protocol": "krr"}, "krr is not for a mean in the central model"),
            ({"protocol": "split_and_mix"}, "split_and_mix is not for a mean in the central model"),
            ({"model": "local"}, "the local model has no automatic bounds"),
            (
                {"person": "who", "of": "rows", "max_rows": 2, "task": "sum"},
                "not so with of='rows'",
            ),
            ({"person": "who", "on_invalid": "drop"}, "or if values may be left out"),
            ({"model": "shuffle", "delta": 0.0}, "need a delta > 0"),
            (
                {"model": "shuffle", "delta": 1e-8, "max_messages": 9},
                "max_messages is for one release",
            ),
        ],
    )
    def test_before_anything_is_spent(self, given, said, tmp_path):
        asked = {"task": "mean", "model": "central", **AUTO, **given}
        ledger = {"ledger": tmp_path / "l.json", "budget": sdp.ledger.Budget(epsilon=9, delta=1e-6)}
        with pytest.raises((UnsupportedError, ParameterError), match=re.escape(said)):
            sdp.ask(
                {"v": self.VALUES, "who": self.VALUES}, column="v", epsilon=1.0, **asked, **ledger
            )
        assert not (tmp_path / "l.json").exists()

    def test_private_filters(self, tmp_path):
        ledger = {"ledger": tmp_path / "l.json", "budget": sdp.ledger.Budget(epsilon=9, delta=1e-6)}
        with pytest.raises(UnsupportedError, match="no place for people without a value"):
            ask({"v": self.VALUES}, column="v", where="v > 1", rng=None, **ledger)

    def test_optional_questions_messages_and_plans_declare_their_ends(self, tmp_path):
        asked = sdp.Question(name="v", task="mean", column="v", options=AUTO, optional=True)
        survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=(asked,))
        with pytest.raises(ShuffledpError, match="question 'v': automatic bounds have no place"):
            sdp.ask({"v": self.VALUES}, survey)
        with pytest.raises(UnsupportedError, match="in messages: declare them"):
            survey.prepare({"v": self.VALUES}, sent=True)
        with pytest.raises(
            UnsupportedError, match="'auto' is found in data, and a plan has none: declare lower"
        ):
            survey.plan(1000)
        auto = sdp.questions.AutoBounds(ends=("lower", "upper"), share=0.2)
        asked = replace(asked, auto=auto, name="w")
        with pytest.raises(UnsupportedError, match="bounds_share must be the same for every"):
            replace(survey, questions=(*survey.questions, asked))


SURVEY = """epsilon = 4.0
delta = 1e-6
bounds_share = 0.25
[questions.pay]
task = "mean"
lower = 0
upper = "auto"
[questions.born]
task = "mean"
lower = "auto"
upper = "auto"
[questions.home]
task = "count"
"""


class TestSurveys:
    PAY = np.exp(np.random.default_rng(7).normal(7, 0.5, 4_000))
    BORN = np.datetime64("1950-01-01") + np.random.default_rng(8).integers(0, 20_000, 4_000)
    TABLE = pa.table({"pay": PAY, "born": BORN, "home": [True, False] * 2_000})

    @pytest.mark.parametrize("model", ["central", pytest.param("shuffle", marks=pytest.mark.slow)])
    def test_one_release_finds_all_bounds(self, model, tmp_path):
        survey = sdp.Survey.loads(SURVEY).trust(model)
        given = {"ledger": tmp_path / "l.json", "budget": sdp.ledger.Budget(epsilon=9, delta=1e-5)}
        answer = sdp.ask(self.TABLE, survey, model=model, **given)
        assert {*answer.bounds} == {"pay", "born"}
        assert answer.bounds["pay"].guarantee.epsilon <= 1.0 + 1e-9
        assert 3.9 < answer.guarantee.epsilon <= 4.0
        assert answer.guarantee.delta <= 1e-6
        assert answer.bounds["pay"].guarantee == answer.bounds["born"].guarantee
        assert "epsilon = 4)" in answer.explain()  # what the bounds spent is part of it
        (entry,) = sdp.ledger.Ledger(tmp_path / "l.json").entries()
        assert 3.9 < entry.charge.epsilon <= 4.0
        assert entry.note["questions"] == ["pay", "born", "home"]
        low, high = answer["pay"].estimate.interval(1 - 1e-6)
        assert low <= np.mean(np.minimum(self.PAY, answer.bounds["pay"].upper)) <= high
        born = answer.to_dict()["bounds"]["born"]
        assert "1947-01-01" <= born["lower"] <= "1950-01-01"
        assert born["upper"] <= "2008-01-01"
        assert "born: lower = 19" in str(answer)
        assert "a year with fewer than" in str(answer)
        assert (
            str(answer).count("by a first release for all questions that spent epsilon = 1 ") == 2
        )
        low, high = answer["born"].estimate.interval(1 - 1e-6)
        assert low <= self.BORN.astype("M8[D]").astype(float).mean() <= high

    def test_a_shuffler(self):
        asked = sdp.Question(
            name="pay", task="sum", column="pay", options={"lower": 0, "upper": "auto"}
        )
        survey = sdp.Survey(epsilon=4.0, delta=1e-6, questions=(asked,))
        answer = sdp.ask(self.TABLE, survey, rng=sdp.SeededWords(1))
        assert answer.bounds["pay"].protocol == "correlated_histogram"
        low, high = answer["pay"].estimate.interval(1 - 1e-6)
        assert low <= np.sum(np.minimum(self.PAY, answer.bounds["pay"].upper)) <= high

    def test_the_first_release_is_the_only_place_where_bounds_come_from(self):
        """One person moves no bound but by noisy counts: with one seed, all but numbers are the same."""
        survey, other = sdp.Survey.loads(SURVEY).trust("central"), self.TABLE.to_pydict()
        other["born"][0], other["pay"][0] = datetime.date(2099, 1, 1), 1e9
        schema = self.TABLE.schema
        found = [
            sdp.ask(each, survey, model="central", rng=sdp.SeededWords(1)).bounds
            for each in (self.TABLE, pa.table(other, schema=schema))
        ]
        ends = [{k: (v.lower, v.upper, v.threshold) for k, v in each.items()} for each in found]
        assert ends[0] == ends[1]


class TestDates:
    DAYS = np.datetime64("2013-03-01") + np.random.default_rng(9).integers(0, 300, 3_000)

    @pytest.mark.parametrize("kind", ["date32", "timestamp"])
    def test_both_ends(self, kind):
        typed = pa.date32() if kind == "date32" else pa.timestamp("s")
        table = pa.table({"day": pa.array(self.DAYS.astype("M8[s]")).cast(typed)})
        asked = {"model": "central", "epsilon": 2.0, "rng": sdp.SeededWords(1)}
        answer = sdp.ask(table, "mean", column="day", **AUTO, **asked)
        record = answer.to_dict()
        assert record["bounds"]["lower"][:10] == "2012-01-01"
        assert record["bounds"]["upper"][:10] == "2015-01-01"
        assert record["estimate"][0]["value"][:7] == "2013-07"
        assert answer.bounds.clamped.low == 0.0

    def test_one_end_of_texts(self):
        table = {"day": [str(day) for day in self.DAYS]}
        asked = {"model": "central", "epsilon": 2.0, "rng": sdp.SeededWords(1)}
        answer = sdp.ask(table, "mean", column="day", lower="2013-01-01", upper="auto", **asked)
        assert answer.to_dict()["bounds"]["upper"] == "2015-01-01"
        assert "upper = 2015-01-01 is estimated" in str(answer)

    def test_years_that_are_not_counted_are_refused(self):
        table = pa.table({"day": pa.array([datetime.date(1850, 1, 1)] * 3_000)})
        with pytest.raises(UnsupportedError, match="reach 1900 or 2100, the first and the last"):
            sdp.ask(table, "mean", column="day", model="central", epsilon=2.0, **AUTO)


class TestCommand:
    @pytest.fixture
    def say(self, tmp_path, monkeypatch):
        (tmp_path / "p.csv").write_text("v\n" + "9.5\n" * 5_000)
        monkeypatch.chdir(tmp_path)
        return lambda words: CliRunner().invoke(app, words.split())

    def test_run(self, say):
        auto = "--lower auto --upper auto --bounds-share 0.2 --epsilon 1 --model central --seed 1 --json"
        result = say(f"run mean p.csv --column v {auto}")
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert (record["bounds"]["lower"], record["bounds"]["upper"]) == (4.0, 32.0)
        assert record["bounds"]["share"] == 0.2
        assert record["epsilon"] == 1.0

    def test_a_charge(self, say):
        auto = "--lower 0 --upper auto --epsilon 1 --delta 1e-8"
        budget = "--ledger l.json --budget-epsilon 1 --budget-delta 1e-6"
        result = say(f"run sum p.csv --column v {auto} {budget}")
        assert result.exit_code == 0, result.output
        assert re.search("upper = [0-9,]+ is estimated", result.stdout)  # 32, but for false bands
        (entry,) = sdp.ledger.Ledger("l.json").entries()
        assert 0.99 < entry.charge.epsilon <= 1

    def test_messages_have_declared_ends(self, say):
        auto = "--lower auto --upper auto --epsilon 1 --delta 1e-8 --out m.parquet"
        result = say(f"randomize p.csv --task mean --column v {auto}")
        assert result.exit_code != 0
        assert "in messages" in result.output


def test_two_releases_count_on_the_larger_crowd():
    made = sdp.Guarantee(epsilon=0.5, delta=0.0, model=sdp.Model.SHUFFLE, proof="A", honest=9)
    for first, second in ((9, 4), (4, 9)):
        both = _add_up(replace(made, honest=first), replace(made, honest=second))
        assert (both.honest, both.epsilon) == (9, 1.0)
