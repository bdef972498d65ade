"""What a plan is made of, at the edges of its rules: limits, deltas, questions, the worst data, choices, curves."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Cells, protocols
from shuffledp.core.privacy import Model
from shuffledp.planner import growth
from shuffledp.planner.choice import (
    SAME,
    Aim,
    choose,
    choose_row,
    curator_error,
    order_candidates,
    rank,
    recognise,
    smallest_error,
)
from shuffledp.planner.plans import least_epsilon, least_n
from shuffledp.planner.question import Limits, Problem, candidates, check_delta, hint_delta
from shuffledp.planner.rows import (
    Row,
    evaluate,
    mean_squared_error,
    worst_bit,
    worst_case,
    worst_shape,
)
from shuffledp.tasks import Count, Histogram, task_named


class TestLimits:
    @pytest.mark.parametrize(
        ("given", "sent", "said"),
        [
            ({}, (1e9, 1e9), None),
            ({"max_messages": 2}, (2.0, 99.0), None),
            ({"max_messages": 2}, (2.01, 99.0), "2.01 messages per user, more than 2"),
            ({"max_bits": 20.5}, (99.0, 20.5), None),
            ({"max_bits": 20.5}, (99.0, 21.0), "21 bits per user, more than 20.5"),
            ({"max_messages": 1, "max_bits": 1}, (3.0, 4.0),
             "3 messages per user, more than 1; 4 bits per user, more than 1"),
        ],
    )  # fmt: skip
    def test_what_is_sent(self, given, sent, said):
        assert Limits.of(models="shuffle", **given).excess(*sent) == said

    @pytest.mark.parametrize(
        ("given", "row", "said"),
        [
            ({"max_bytes": 104}, (104, None, None), None),
            ({"max_bytes": 1000}, (1234, None, None), "1,234 bytes per report, more than 1000"),
            ({"max_bytes": 104}, (None, None, None), "no report, more than 104"),
            ({"max_influence": 1.5}, (None, 1.5, None), None),
            ({"max_influence": 1.5}, (None, 1.6, None), "one report moves the answer by up to 1.6 people, more than 1.5"),
            ({"max_influence": 1.5}, (None, None, None),
             "one report moves the answer by no known bound, more than 1.5"),
            ({"local_epsilon": 3}, (None, None, 3.0), None),
            ({"local_epsilon": 3}, (None, None, 3.001), "a local epsilon of 3.001, and 3 was asked for"),
            ({"local_epsilon": 3}, (None, None, None), "no local floor, and 3 was asked for"),
            ({"local_epsilon": 3, "max_bytes": 9}, (10, None, 4.0),
             "10 bytes per report, more than 9; a local epsilon of 4, and 3 was asked for"),
        ],
    )  # fmt: skip
    def test_what_a_live_collection_carries(self, given, row, said):
        limits = Limits.of(models="shuffle", **given)
        assert limits.live
        assert limits.refuse(*row) == said

    def test_what_they_may_be(self):
        assert not Limits.of(models="shuffle", max_messages=3, max_bits=1).live
        for name in ("max_messages", "max_bits", "max_bytes", "max_influence"):
            assert getattr(Limits.of(models="local", **{name: 1}), name) == 1
            with pytest.raises(sdp.ParameterError, match=f"{name}=0.99 must be >= 1"):
                Limits.of(models="local", **{name: 0.99})
        assert Limits.of(models="local", local_epsilon=0.01).local_epsilon == 0.01
        every = Limits.of(models=["central", Model.LOCAL])
        assert every.models == {Model.CENTRAL, Model.LOCAL}
        assert Limits.of(models=Model.SHUFFLE).models == {Model.SHUFFLE}
        for wrong in ([], ["local", "friends"], "friends"):
            with pytest.raises(sdp.ParameterError, match=r"must be among central, local, shuffle"):
                Limits.of(models=wrong)


class TestDelta:
    @pytest.mark.parametrize(
        ("n", "hint"), [(1, 1e-3), (10, 1e-3), (11, 1e-4), (100, 1e-4), (101, 1e-5), (10**6, 1e-8)]
    )
    def test_a_hint_is_at_most_a_hundredth_of_one_person(self, n, hint):
        assert hint_delta(n) == hint
        assert n == 1 or hint <= 0.01 / n * (1 + 1e-12)

    def test_up_to_one_person(self):
        assert check_delta(1e-4, 1000) == ()
        near = check_delta(0.001, 1000)
        assert near == (
            "delta = 0.001 is large for n = 1,000: with delta = 1/n = 0.001, publishing one person's value in the "
            "clear would be allowed. Choose it far below, such as 1e-05.",
        )
        assert len(check_delta(1.01e-4, 1000)) == 1
        with pytest.raises(sdp.ParameterError) as refused:
            check_delta(0.0011, 1000)
        assert str(refused.value) == (
            "delta=0.0011 must be at most 1/n = 0.001: even publishing one person's value in the clear would "
            "satisfy it; choose it far below 1/n (such as 1e-05), or set allow_large_delta"
        )
        assert check_delta(0.0011, 1000, allow_large_delta=True)[0].startswith(
            "delta = 0.0011 is large"
        )

    def test_who_needs_none(self):
        large = {"n": 1000, "epsilon": 1.0, "delta": 0.01}
        assert sdp.plan("count", models="local", **large).remarks == ()
        with pytest.raises(sdp.ParameterError, match="allow_large_delta"):
            sdp.plan("count", models=("local", "central"), **large)
        allowed = sdp.plan("count", models="central", allow_large_delta=True, **large)
        assert allowed.remarks[0].startswith("delta = 0.01 is large for n = 1,000")


def put(task="count", n=1000, epsilon=1.0, delta=1e-6, honest=0.9, **options):
    return Problem.of(task, n=n, epsilon=epsilon, delta=delta, honest=honest, **options)


class TestProblem:
    def test_numbers(self):
        asked = put(n=1000, epsilon=100.0)
        assert (asked.n, asked.epsilon, asked.promise.delta, asked.crowd.honest) == (
            1000,
            100.0,
            1e-6,
            0.9,
        )
        with pytest.raises(
            sdp.ParameterError,
            match=r"epsilon=100\.5 must be <= 100, which already protects nobody",
        ):
            put(epsilon=100.5)
        most = 1 << 22
        assert put("histogram", k=most).domain.size == most
        with pytest.raises(
            sdp.ParameterError,
            match=r"has 4,194,305 values: errors are computed for up to 4,194,304",
        ):
            put("histogram", k=most + 1)
        assert put("words", bits=40).domain.size == 2**40

    @pytest.mark.parametrize(
        ("task", "options", "bits"),
        [("count", {}, 1), ("histogram", {"k": 8}, 3), ("histogram", {"k": 9}, 4), ("sum", {"lower": 0, "upper": 255}, 8)],
    )  # fmt: skip
    def test_bits_in_the_clear(self, task, options, bits):
        assert put(task, **options).raw_bits == bits
        several = Histogram(domain=sdp.Categories(k=8), values=3)
        assert put(several).raw_bits == 9

    def test_rounding(self):
        assert put("sum", n=100, lower=-1.0, upper=1.0, steps=10).rounding == pytest.approx(
            0.2 * 10 / 2
        )
        assert put("sum", lower=0, upper=9).rounding == 0.0
        assert put("std", lower=0.0, upper=9.0).rounding == 0.0

    def test_for_others(self):
        """The grid is chosen anew, and everything else stays."""
        asked = put("mean", n=100, lower=0.0, upper=1.0)
        more = asked.at(n=10**6)
        assert (more.n, more.epsilon, more.promise.delta, more.crowd.honest) == (
            10**6,
            1.0,
            1e-6,
            0.9,
        )
        assert (asked.domain.steps, more.domain.steps) == (32, 4096)
        sharp = asked.at(epsilon=8.0)
        assert (sharp.n, sharp.epsilon, sharp.domain.steps) == (100, 8.0, 256)
        assert asked.at() == asked

    def test_makers_get_what_the_task_knows(self):
        by_name = {
            (each.name, each.model): each for each in candidates(put("sum", lower=-2, upper=5).task)
        }
        asked = put("sum", lower=-2, upper=5)
        duchi = by_name["duchi", Model.LOCAL].make(asked)
        assert (
            duchi.parameters["lower"],
            duchi.parameters["upper"],
            duchi.parameters["steps"],
        ) == (-2, 5, 7)
        geometric = by_name["geometric", Model.CENTRAL].make(asked)
        assert geometric.parameters["sensitivity"] == 7
        assert by_name["duchi", Model.LOCAL].takes("steps")
        assert not by_name["duchi", Model.LOCAL].takes("k")
        amplified = {key: each.amplified for key, each in by_name.items() if key[0] == "hybrid"}
        assert amplified.get(("hybrid", Model.LOCAL)) is False

    def test_a_maker_that_needs_more_says_what(self):
        krr = next(each for each in candidates(put("histogram", k=4).task) if each.name == "krr")
        with pytest.raises(
            sdp.UnsupportedError, match=r"^it needs k, which a count does not have$"
        ):
            krr.make(put("count"))
        several = put(Histogram(domain=sdp.Categories(k=8), values=3))
        made = krr.make(several)
        assert made.values == 3


def brute(errors, n, size):
    """The worst of all data sets in which some values have s people each, one the rest, and the others none."""
    worst = 0.0
    for s in range(n + 1):
        some = min(size - 1, n // s) if s else 0
        counts = np.array([n - some * s, *[s] * some, *[0] * (size - 1 - some)])
        worst = max(worst, float(np.mean(errors(counts))))
    return worst


class TestWorst:
    @pytest.mark.parametrize("size", [2, 3, 7])
    @pytest.mark.parametrize("n", [1, 2, 9, 40])
    @pytest.mark.parametrize("cut", [0, 1, 5, 39])
    def test_shapes_of_few_people(self, n, size, cut):
        """As many people as are taken for nobody; what is found is a data set, and its error is that of the search."""

        def errors(counts):
            return np.where(counts <= cut, counts, 1.0) ** 2.0

        found = worst_shape(errors, n=n, size=size)
        most = brute(errors, n, size)
        assert (
            found.mse == pytest.approx(most)
            if size == 2 or cut < 2
            else 0.7 * most < found.mse <= most
        )
        assert (found.inputs.sum(), len(found.inputs)) == (n, size)
        assert np.mean(errors(found.inputs)) == pytest.approx(found.mse)
        assert np.all(found.inputs >= 0)

    def test_bits_of_few_people(self):
        for peak in (0, 1, 13, 30):
            found = worst_bit(lambda inputs, peak=peak: -float(abs(inputs[1] - peak)), n=30)
            assert found.inputs.tolist() == [30 - peak, peak]
            assert found.mse == 0.0

    @pytest.mark.parametrize("size", [1, 2, 5, 64, 200])
    def test_numbers_and_bins(self, size):
        """Everybody has the same value; of some hundred values the worst is found, too."""

        class Made:
            offers = protocols.rr.make_local(epsilon=1.0).offers

        for peak in {0, size // 2, size - 1}:

            class Analyzer:
                def variance(self, inputs, peak=peak):
                    (place,) = np.flatnonzero(inputs)
                    return 100.0 - abs(place - peak)

            Made.analyzer = Analyzer()
            for bins in (True, False):
                found = worst_case(Made, n=7, size=size, bins=bins)
                assert found.inputs.tolist() == [7 * (place == peak) for place in range(size)]
                assert found.mse == 100.0

    def test_bias_counts_with_its_square(self):
        made = protocols.zsum.make(n=1000, epsilon=1.0, delta=1e-4, honest=1.0)
        inputs = np.array([990, 10])
        bias, variance = made.offers.bias(inputs), made.analyzer.variance(inputs)
        assert mean_squared_error(made, inputs) == pytest.approx(float(np.mean(variance + bias**2)))
        assert np.all(np.asarray(bias) != 0)


def row(name, rmse=1.0, bits=None, model=Model.LOCAL, reason=None, newcomer=False):
    return Row(
        protocol=name, model=model, rmse=rmse, bits_per_user=bits, reason=reason, newcomer=newcomer
    )


class TestChoices:
    def test_order(self):
        """The best first; what is not available last; of equal ones the one with the fewest bits."""
        rows = [
            row("no", 0.1, reason="no"), row("late", 2.0, 1.0), row("long", 1.0, 9.0), row("short", 1.0, 8.0),
            row("unknown", 1.0), row("alike", 1.0 + 1e-14, 7.0), row("none", None),
        ]  # fmt: skip
        assert [each.protocol for each in rank(rows, Aim.ERROR)] == [
            "alike", "short", "long", "unknown", "late", "none", "no"]  # fmt: skip
        users = [replace(each, n=n) for each, n in zip(rows[1:4], (5, 3, 4), strict=True)]
        assert [each.n for each in rank(users, Aim.USERS)] == [3, 4, 5]
        assert [Aim.USERS.merit(each) for each in users] == [5.0, 3.0, 4.0]
        assert Aim.EPSILON.merit(users[0]) == math.inf
        assert Aim.ERROR.merit(row("x", 3.0)) == 3.0

    def test_nearly_the_best_with_the_fewest_bits(self):
        best = row("best", 1.0, 100.0)
        assert choose_row([best, row("near", SAME, 1.0)], Aim.ERROR).protocol == "near"
        assert choose_row([best, row("far", SAME + 1e-9, 1.0)], Aim.ERROR).protocol == "best"
        assert choose_row([best, row("no", 0.1, 1.0, reason="x")], Aim.ERROR).protocol == "best"
        assert choose_row([row("no", reason="x")], Aim.ERROR) is None
        searched = [replace(best, n=1000), replace(row("near", 1.0, 1.0), n=1002)]
        assert choose_row(searched, Aim.USERS).protocol == "near"
        searched[1] = replace(searched[1], n=1003)
        assert choose_row(searched, Aim.USERS).protocol == "best"
        equal = [row("b", 1.1, 5.0), row("a", 1.0, 5.0)]
        assert choose_row(equal, Aim.ERROR).protocol == "a"

    def test_a_curator_is_the_last_resort(self):
        curator = row("curator", 0.1, 1.0, Model.CENTRAL)
        assert choose_row([curator, row("own", 9.0, 99.0)], Aim.ERROR).protocol == "own"
        assert choose_row([curator, row("own", reason="x")], Aim.ERROR).protocol == "curator"

    def test_the_first_that_is_enough_is_taken_but_newcomers_are_looked_at(self):
        looked = []

        def rows():
            for each in (
                row("new", 5.0, 1.0, newcomer=True),
                row("enough", 2.0, 2.0),
                row("best", 0.1, 0.1),
            ):
                looked.append(each.protocol)
                yield each

        assert (
            choose_row(rows(), Aim.ERROR, enough=lambda each: each.rmse <= 2).protocol == "enough"
        )
        assert looked == ["new", "enough"]
        assert (
            choose_row(rows(), Aim.ERROR, enough=lambda each: each.rmse <= 9).protocol == "enough"
        )
        good = [row("new", 2.1, 1.0, newcomer=True), row("enough", 2.0, 2.0)]
        assert choose_row(good, Aim.ERROR, enough=lambda each: each.rmse <= 2).protocol == "new"
        assert choose_row(rows(), Aim.USERS, enough=lambda _: True) is not None

    def test_good_enough_is_a_quarter_above_a_curator_in_four_times_the_bits(self):
        asked = put(n=10_000)
        floor = SAME * curator_error(asked.task, n=10_000, epsilon=1.0) / math.sqrt(0.9)
        enough = recognise(asked)
        fine = row("fine", floor * (1 - 1e-12), 4.0, Model.SHUFFLE)
        assert enough(fine)
        for change in ({"rmse": floor * 1.0001}, {"bits_per_user": 4.001}, {"bits_per_user": None},
                       {"model": Model.LOCAL}, {"reason": "x"}):  # fmt: skip
            assert not enough(replace(fine, **change))
        pairs = put("histogram", n=10_000, k=4)
        least = row("x", 1e-9, 8.0, Model.SHUFFLE)
        assert recognise(pairs)(least)
        assert not recognise(pairs)(replace(least, bits_per_user=8.1))

    def test_late_ones_and_amplified_ones_come_last(self):
        found = [*order_candidates(Count(domain=sdp.Bits()))]
        amplified = [each.amplified for each in found]
        assert amplified == sorted(amplified)
        assert (
            len(found)
            == len({(each.name, each.model) for each in found})
            == len([*candidates(found and Count(domain=sdp.Bits()))])
        )

    def test_the_smallest_error_within_limits(self):
        asked = put("histogram", k=8, n=1000)
        local = Limits.of(models="local")
        best = smallest_error(asked, local)
        errors = [
            evaluate(each, asked, local)
            for each in candidates(asked.task)
            if each.model is Model.LOCAL
        ]
        assert best.rmse == min(each.rmse for each in errors if each.available)
        second = smallest_error(
            asked, local, refuse=lambda made: "no" if made.name == best.protocol else None
        )
        assert second.protocol != best.protocol
        assert second.rmse >= best.rmse
        assert smallest_error(asked, local, protocol="krr").protocol == "krr"
        with pytest.raises(sdp.UnsupportedError, match=r"^no protocol fits: krr \(local\): never$"):
            smallest_error(asked, local, protocol="krr", refuse=lambda _: "never")

    def test_a_protocol_by_name(self):
        given = {"n": 1000, "epsilon": 1.0, "delta": 1e-6}
        task = Count(domain=sdp.Bits())
        assert choose(task, protocol="rr", **given).name == "rr"
        with pytest.raises(sdp.UnsupportedError, match=r"^krr answers a histogram, not a count$"):
            choose(task, protocol="krr", **given)
        with pytest.raises(
            sdp.UnsupportedError, match=r"^correlated_count is not for a count in the local model$"
        ):
            choose(task, protocol="correlated_count", model="local", n=1000, epsilon=1.0)
        with pytest.raises(
            sdp.UnsupportedError,
            match=r"^no protocol fits: split_and_mix .*messages per user, more than 1",
        ):
            choose(task, protocol="split_and_mix", max_messages=1, **given)
        with pytest.raises(sdp.UnsupportedError, match=r"no protocol fits: .*\(shuffle\)"):
            choose(Histogram(domain=sdp.Categories(k=4)), n=3, epsilon=0.1, delta=1e-9, max_bits=1)
        with pytest.raises(sdp.ParameterError, match=r"delta=1.5 must be"):
            choose(task, n=1000, epsilon=1.0, delta=1.5)


class TestRow:
    @pytest.fixture(scope="class")
    @staticmethod
    def plan():
        return sdp.plan("histogram", n=2000, k=4, epsilon=1.0, delta=1e-6)

    def test_json_says_what_the_row_knows(self, plan):
        for each in plan.rows:
            said = each.to_dict()
            promise, floor = each.guarantee, each.local_floor
            assert said == json.loads(json.dumps(said))
            assert {name: said[name] for name in ("protocol", "reason", "rmse", "worst_bin", "n")} == {
                "protocol": each.protocol, "reason": each.reason, "rmse": each.rmse, "worst_bin": each.worst_bin, "n": 2000,
            }  # fmt: skip
            assert said["model"] == each.model.value
            assert said["available"] == (each.reason is None)
            assert (said["epsilon"], said["delta"], said["proof"]) == (
                (None,) * 3 if promise is None else (promise.epsilon, promise.delta, promise.proof))  # fmt: skip
            assert said["local_floor"] == (None if floor is None else floor.epsilon)
            assert said["local_guess"] == (
                None if floor is None else pytest.approx(math.exp(floor.epsilon) / (1 + math.exp(floor.epsilon))))  # fmt: skip
            assert (said["influence"], said["dealt"], said["answers"]) == (
                each.influence,
                each.dealt,
                each.answers,
            )
            assert (said["bytes_per_report"], said["total_bytes"]) == (
                each.bytes_per_report,
                each.total_bytes,
            )
            if each.bits_per_user is not None:
                assert said["total_bytes"] == math.ceil(Fraction(each.bits_per_user) * 2000 / 8)
        assert Row(protocol="x", model=Model.LOCAL).to_dict() | {"protocol": 1, "model": 1} == dict.fromkeys(
            plan.rows[0].to_dict()) | {"protocol": 1, "model": 1, "available": True, "dealt": False}  # fmt: skip

    def test_what_one_person_sends(self, plan):
        for each in plan.rows:
            if not each.available:
                continue
            made = each.make()
            if each.model is Model.CENTRAL:
                assert (each.messages_per_user, each.bits_per_user) == (1.0, 2.0)
                assert each.bytes_per_report is each.influence is each.local_floor is None
                assert not each.dealt
            else:
                assert each.messages_per_user == made.cost.messages_mean
                assert each.bits_per_user == made.cost.messages_mean * made.cost.bits_per_message
                assert each.dealt == made.dealt
            assert each.error == pytest.approx(math.sqrt(each.rmse * each.worst_bin))
        assert Row(protocol="x", model=Model.LOCAL).error == math.inf
        assert row("x", 3.0).error == 3.0

    def test_too_long_and_too_many(self):
        asked = put("histogram", k=4097, n=1000, delta=0.0)
        unary = next(
            each
            for each in candidates(asked.task)
            if each.name == "symmetric_unary" and each.model is Model.LOCAL
        )
        found = evaluate(unary, asked, Limits.of(models="local"))
        assert found.reason == "a message has 4,097 bits; errors are evaluated up to 4,096"
        fits = evaluate(
            unary, put("histogram", k=4096, n=1000, delta=0.0), Limits.of(models="local")
        )
        assert fits.available
        assert found.n == 1000
        with pytest.raises(
            sdp.UnsupportedError, match=r"^symmetric_unary is not available: a message has"
        ):
            found.make()
        assert found.explain() == f"symmetric_unary (local): {found.reason}"

    def test_people_who_are_too_few_for_words(self):
        with pytest.raises(
            sdp.UnsupportedError,
            match=r"people are too few for any word to be seen: at least [\d,]+ are",
        ) as told:
            sdp.words(n=30, bits=16, epsilon=0.2, delta=1e-4)
        least = int(str(told.value).split("at least ")[1].split(" are")[0].replace(",", ""))
        made = sdp.words(n=least, bits=16, epsilon=0.2, delta=1e-4)
        assert made.analyzer.predict(least).find_count(0.95) <= least


@pytest.mark.parametrize("error", [0.7, 3.0, 40.0])
def test_the_smallest_epsilon_is_sharp(error):
    asked = put(n=10_000)
    limits = Limits.of(models=("central", "local"))
    for each in candidates(asked.task):
        if each.name not in ("geometric", "rr") or each.model is Model.SHUFFLE:
            continue
        found = least_epsilon(each, asked, limits, error)
        assert found.rmse <= error
        less = evaluate(each, asked.at(epsilon=found.guarantee.epsilon * 0.998), limits)
        assert less.rmse > error
        assert found.n == 10_000


@pytest.mark.parametrize("error", [0.3, 0.01, 0.0007])
def test_the_smallest_number_of_people_is_exact_where_it_is_small(error):
    asked = put("mean", lower=0, upper=1)
    limits = Limits.of(models="central")
    geometric = next(candidates(asked.task))
    found = least_n(geometric, asked, limits, error)
    assert found.rmse <= error * found.n
    less = evaluate(
        geometric, asked.at(n=math.floor(found.n * 0.998 - 1e-9) if found.n > 2 else 2), limits
    )
    assert found.n == 2 or less.rmse > error * less.n


def test_errors_that_no_epsilon_or_grid_allows_say_so():
    asked = put(n=1000)
    local = next(
        each for each in candidates(asked.task) if (each.name, each.model) == ("rr", Model.LOCAL)
    )
    hopeless = least_epsilon(local, asked, Limits.of(models="local"), 1e-4)
    assert hopeless.reason == "no epsilon up to 20 is enough"
    assert (hopeless.protocol, hopeless.model, hopeless.rmse) == ("rr", Model.LOCAL, None)
    grid = put("mean", n=100, lower=0.0, upper=1.0, steps=2)
    duchi = next(
        each for each in candidates(grid.task) if (each.name, each.model) == ("duchi", Model.LOCAL)
    )
    coarse = least_epsilon(duchi, grid, Limits.of(models="local"), 0.025)
    assert coarse.reason == "rounding to the grid is off by 0.025 already: take more steps"
    assert "already" not in str(
        least_epsilon(duchi, grid, Limits.of(models="local"), 0.0251).reason
    )


class TestPlan:
    CHEAP = MappingProxyType({"delta": 1e-6, "models": ("central", "local")})

    def test_titles(self):
        plan = sdp.plan("count", n=2000, epsilon=0.12345, **self.CHEAP)
        assert (
            plan.title()
            == "count of yes and no, n = 2,000, epsilon = 0.1235, delta = 1e-06, 90 % honest"
        )
        plan = sdp.plan("count", n=2000, error=9.5, honest=0.5, **self.CHEAP)
        assert plan.title().startswith(
            "count of yes and no, n = 2,000, RMSE of the count <= 9.5, epsilon = "
        )
        assert plan.title().endswith("delta = 1e-06, 50 % honest")
        nothing = sdp.plan("count", n=2000, error=1e-4, delta=1e-6, models="local")
        assert (
            nothing.title()
            == "count of yes and no, n = 2,000, RMSE of the count <= 0.0001, delta = 1e-06, 90 % honest"
        )
        assert (nothing.epsilon, nothing.n, nothing.chosen, nothing.on_file) == (
            None,
            2000,
            None,
            None,
        )
        assert repr(nothing) == f"<Plan: {nothing.title()}: nothing of {len(nothing.rows)} rows>"
        assert "Nothing is available." in str(nothing)

    def test_what_was_searched_for_is_told(self):
        people = sdp.plan("mean", error=0.02, epsilon=1.0, upper=5, **self.CHEAP)
        assert people.n == people.chosen.n == people.asked.n
        assert people.epsilon == 1.0
        sharp = sdp.plan("count", n=2000, error=9.0, **self.CHEAP)
        assert sharp.epsilon == sharp.chosen.epsilon
        assert sharp.n == 2000
        said = json.loads(sharp.to_json())
        assert {key: said[key] for key in ("task", "n", "epsilon", "delta", "error", "chosen", "model", "on_file")} == {
            "task": "count", "n": 2000, "epsilon": sharp.epsilon, "delta": 1e-6, "error": 9.0, "chosen": "rr",
            "model": "local", "on_file": None,
        }  # fmt: skip
        assert (said["honest"], said["rounding"], said["local_bound"], said["liars"]) == (
            0.9,
            0.0,
            None,
            None,
        )
        assert said["remarks"] == []
        assert [each["protocol"] for each in said["rows"]] == [each.protocol for each in sharp.rows]
        assert {each["bias"] for each in said["rows"]} == {None}

    def test_the_bound_is_told_where_the_local_model_is_asked_for(self):
        both = sdp.plan("count", n=2000, epsilon=1.0, **self.CHEAP)
        assert json.loads(both.to_json())["local_bound"] == both.local_bound
        alone = sdp.plan("count", n=2000, epsilon=1.0, delta=1e-6, models="central")
        assert alone.local_bound == both.local_bound
        assert json.loads(alone.to_json())["local_bound"] is None
        wide = sdp.plan("sum", n=2000, epsilon=1.0, lower=-1, upper=4, **self.CHEAP)
        assert wide.local_bound == pytest.approx(5 * both.local_bound)
        assert sdp.plan("histogram", k=3, n=2000, epsilon=1.0, **self.CHEAP).local_bound is None

    def test_by_group(self):
        given = {"groups": ["a", "b", "c"], "n": 10_000, "epsilon": 1.0, **self.CHEAP}
        total = sdp.plan("sum", lower=0, upper=2, **given)
        assert total.remarks == (
            "A sum of each of 3 groups is a histogram over 9 pairs of answer and group: the errors are those of a pair.",
            "The sum of a group has 2.24 times that error.",
        )
        shapes = sdp.plan("median", lower=0, upper=9, **given)
        assert shapes.remarks[1:] == (
            "Quantiles and spreads are read from the pairs of each group.",
        )
        real = sdp.plan("mean", lower=0.0, upper=6.0, **given)
        steps = real.asked.domain.size // 3 - 1
        factor = np.linalg.norm(np.linspace(0, 6, steps + 1))
        assert real.remarks[1] == (
            f"The sum of a group has {factor:.3g} times that error, and its numbers are rounded to steps of "
            f"{6 / steps:.3g}."
        )
        assert len(sdp.plan("count", **given).remarks) == 1
        with pytest.raises(sdp.ParameterError, match=r"groups=\['a'\] must be at least two"):
            sdp.plan("count", **given | {"groups": ["a"]})

    def test_captions(self):
        def told(task, **more):
            return " ".join(
                str(sdp.plan(task, **{"n": 2000, "epsilon": 1.0, **self.CHEAP, **more})).split()
            )

        text = told("count")
        assert (
            "RMSE: exact, of the count, on the data set that is worst for the protocol. Messages, bits: per user. Local: epsilon if"
            in text
        )
        bins = told("histogram", k=4)
        assert "Worst bin: with probability about 95 % no bin is off by more." in bins
        assert "Worst bin" not in text
        live = told("count", models="local", local_epsilon=2.0)
        assert (
            "Bytes: of a report, encrypted. Influence: by how many people one report can move the answer."
            in live
        )
        assert "Messages, bits: per user." not in live
        assert "It counts" not in text

    def test_what_is_refused(self):
        for name, given in (("n", {"epsilon": 1.0}), ("epsilon", {"n": 100})):
            with pytest.raises(
                sdp.ParameterError,
                match=f"^{name}=None must be given, unless `error` is$|^{name} must be given",
            ):
                sdp.plan("count", delta=1e-6, **given)
        with pytest.raises(sdp.ParameterError, match=r"^liars=1\.5 must be"):
            sdp.plan("count", n=100, epsilon=1.0, delta=1e-6, liars=1.5, models="local")

    def test_reasons_are_of_the_models_that_were_asked_for(self):
        plan = sdp.plan("count", n=100, epsilon=1.0, delta=0.0, models="central")
        assert plan.reasons() == "; ".join(
            each.explain() for each in plan.rows if each.model is Model.CENTRAL and not each.available)  # fmt: skip
        assert "shuffle" not in plan.reasons()


class TestCurves:
    def test_two_decades_to_each_side(self):
        plan = sdp.plan("count", n=10_000, epsilon=1.0, delta=1e-6, models=("central", "local"))
        found = {each.model: each for each in growth.curves(plan, points=5)}
        assert [point.n for point in found[Model.LOCAL].points] == [
            100,
            1000,
            10_000,
            100_000,
            1_000_000,
        ]
        for curve in (found[Model.LOCAL], found[Model.CENTRAL]):
            for point in curve.points:
                one = sdp.plan("count", n=point.n, epsilon=1.0, delta=1e-9, models=curve.model)
                assert point.error == pytest.approx(one.chosen.rmse)
        assert {point.protocol for point in found[Model.LOCAL].points} == {"rr"}
        few = sdp.plan("mean", n=50, epsilon=1.0, delta=1e-3, upper=3, models=("central", "local"))
        points = next(
            each for each in growth.curves(few, points=3) if each.model is Model.LOCAL
        ).points
        assert [point.n for point in points] == [10, 224, 5000]
        assert points[1].error < points[0].error
        with pytest.raises(sdp.ParameterError, match="points=1 must be >= 2"):
            growth.curves(plan, points=1)
        nothing = sdp.plan("count", n=2000, error=1e-4, delta=1e-6, models="local")
        with pytest.raises(sdp.UnsupportedError, match="nothing to draw: "):
            growth.curves(nothing)

    def test_findings(self):
        say = growth._say_finding
        rows = [
            ("local", "rr", 90.0),
            ("local", "x", 99.0),
            ("shuffle", "rr", 3.0),
            ("central", "geometric", 1.5),
        ]
        wanted = "a shuffler is 30 times as accurate as trusting nobody, a curator 2 times as accurate as a shuffler"
        assert say("quantiles", "rr", rows) == f"Quantiles: {wanted}"
        assert say("count", "rr", rows) == f"A count: {wanted}"
        assert (
            say("count", "rr", [*rows, ("central", "none", 0.0)])
            == "The best protocol that fits: rr"
        )
        assert [growth._describe_cost(20, each) for each in (99.9, 100.0, 12345.6)] == [
            "20 B, 99.9", "20 B, 100", "20 B, 12,346"]  # fmt: skip

    def test_growth(self):
        bits = growth.growth_table(
            n=10_000, data=["bits"], users=(1000, 10_000), epsilons=(0.5, 1.0), delta=1e-5)  # fmt: skip
        found = {(each.family, each.protocol): each for each in bits}
        assert list(found) == [
            ("central", "geometric"), ("local", "rr"), ("blanket, one message", "rr"),
            ("vanishing communication", "correlated_count"), ("almost central", "split_and_mix"),
            ("almost central", "zero_sum_flooding"),
        ]  # fmt: skip
        local = found["local", "rr"]
        assert local.rmse == pytest.approx(100 / (2 * math.sinh(0.5)))
        assert (local.messages_per_user, local.bits_per_user, local.data, local.model) == (
            1,
            1,
            "bits",
            Model.LOCAL,
        )
        assert local.n_exponent == pytest.approx(0.5)
        assert local.mean_exponent == pytest.approx(-0.5)
        ratio = math.log2(math.sinh(0.25) / math.sinh(0.5))
        assert local.epsilon_exponent == pytest.approx(ratio)
        assert found["central", "geometric"].n_exponent == pytest.approx(0.0, abs=1e-9)
        assert growth.exponent([1, 10, 100], [5, 500, 50_000]) == pytest.approx(2.0)
        reals = growth.growth_table(
            n=1000, data=["reals"], users=(1000, 2000), epsilons=(0.5, 1.0), delta=1e-5, steps=10)[1]  # fmt: skip
        asked = put("sum", n=1000, delta=1e-5, lower=0.0, upper=1.0, steps=10)
        own = evaluate(
            growth._candidate(asked, "hybrid", Model.LOCAL), asked, Limits.of(models="local")
        )
        assert reals.rmse == pytest.approx(math.sqrt(own.rmse**2 - asked.rounding**2))


def test_a_curator_who_knows_no_mechanism():
    assert (
        curator_error(
            task_named("std")(domain=Cells(lower=0.0, upper=9.0, cells=8)), n=100, epsilon=1.0
        )
        is not None
    )
    mean = task_named("mean").declare({"lower": 0, "upper": 9}).task
    total = task_named("sum").declare({"lower": 0, "upper": 9}).task
    assert (
        curator_error(mean, n=100, epsilon=1.0)
        <= curator_error(total, n=100, epsilon=1.0) / 100 * 1.1
    )
