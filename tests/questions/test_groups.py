"""Questions by group, alone: in Python, on the command line, in all three models."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv
from scipy.stats import binom
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.engine import take_column
from shuffledp.engine.local import pair_people
from shuffledp.tasks import Mean, Sum
from shuffledp.tasks.groups import Grouped, PickedError
from support import ALPHA

N = 4000
RNG = np.random.default_rng(5)
WAYS = ("car", "bus", "train")
PEOPLE = pa.table(
    {
        "way": RNG.choice(WAYS, N, p=[0.5, 0.3, 0.2]),
        "home": RNG.random(N) < 0.3,
        "minutes": RNG.gamma(2.0, 15.0, N).clip(0, 240),
    }
)
ASKED = {
    "count": ("home", {}),
    "histogram": ("home", {"categories": ["true", "false"]}),
    "sum": ("minutes", {"lower": 0.0, "upper": 240}),
    "mean": ("minutes", {"lower": 0.0, "upper": 240}),
    "bins": ("minutes", {"edges": [0, 30, 60, 241]}),
    "median": ("minutes", {"lower": 0.0, "upper": 240}),
    "quantiles": ("minutes", {"lower": 0.0, "upper": 240, "at": [0.25, 0.75]}),
    "variance": ("minutes", {"lower": 0.0, "upper": 240}),
    "std": ("minutes", {"lower": 0.0, "upper": 240}),
}
EXACT = {
    "sum": np.sum,
    "count": np.sum,
    "mean": np.mean,
    "std": np.std,
    "variance": np.var,
    "bins": lambda values: np.histogram(values, [0, 30, 60, 241])[0],
    "histogram": lambda values: [np.sum(values), np.sum(~values)],
    "median": lambda values: np.quantile(values, 0.5, method="inverted_cdf"),
    "quantiles": lambda values: np.quantile(values, [0.25, 0.75], method="inverted_cdf"),
}
BY = {"by": "way", "groups": WAYS, "epsilon": 1.0}


def test_an_empty_group_has_a_truth_and_bars_stand_in_their_groups():
    ways = sdp.Categories(k=3, names=WAYS)
    task = Grouped.of(Mean(domain=sdp.Reals(lower=0.0, upper=240.0, steps=4)), ways)
    for order in (["car", "bus"], ["bus", "train"]):  # the last group, and the first one, is empty
        truth = dict(zip(WAYS, task.truth(([30.0, 50.0, 10.0], [*order, order[0]])), strict=True))
        assert truth == dict.fromkeys(WAYS, 0.0) | {order[0]: 20.0, order[1]: 50.0}
    column, given = ASKED["quantiles"]
    answer = sdp.ask(PEOPLE, "quantiles", column=column, model="central", **given, **BY)
    assert answer.picture.groups == ("car", "car", "bus", "bus", "train", "train")


def truth(task):
    column, way = PEOPLE[ASKED[task][0]].to_numpy(), PEOPLE["way"].to_numpy()
    return np.array([EXACT[task](column[way == w]) for w in WAYS]).ravel()


@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize("task", ASKED)
def test_answers_are_near_the_truth(task, model):
    column, options = ASKED[task]
    private = {**BY, "delta": 1e-6} if model == "shuffle" else BY
    answer = sdp.ask(
        PEOPLE, task, column=column, model=model, rng=sdp.SeededWords(2), **private, **options
    )
    low, high = answer.estimate.interval(1 - 1e-9)
    assert np.all(low <= truth(task))
    assert np.all(truth(task) <= high)
    assert answer.guarantee.model.value == model
    assert answer.estimate.labels[0].startswith("car")
    assert answer.title == f"{task} of {column} by way, 4,000 people"
    assert answer.to_dict()["by"] == "way"


def run_means(numbers, rounds):
    """How often the intervals of the mean of each group cover, both kinds, and the mean of the estimates."""
    groups = sdp.Categories(k=2, names=("a", "b"))
    task = Grouped.of(Mean(domain=sdp.Reals(lower=0.0, upper=1.0, steps=4)), groups).round_to(2)
    ways = np.where(np.arange(len(numbers)) % 3 == 0, "a", "b")
    protocol = sdp.protocols.dummies_histogram.make(
        n=len(numbers), k=task.domain.size, epsilon=1.0, delta=1e-5
    )
    truth, source, hits, found = (
        task.truth((numbers, ways)),
        sdp.SeededWords(4),
        np.zeros((2, 2)),
        [],
    )
    for _ in range(200):
        pairs = pair_people(take_column(numbers), take_column(ways), task.domain, rng=source).column
        codes = pairs.array.to_numpy()
        if rounds == "nearest":
            codes = task.domain.codes((numbers, ways))
        counts = np.bincount(codes, minlength=task.domain.size)
        bins = protocol.analyzer.estimate(protocol.randomizer.deal(counts, source))
        estimate = task.convert(bins)
        for place, (low, high) in enumerate((estimate.interval(0.9), estimate.exact_interval(0.9))):
            hits[place] += (low <= truth) & (truth <= high)
        found.append(estimate.value)
    return hits.min(), np.mean(found, axis=0) - truth


def test_means_of_reals_by_group_are_unbiased_and_their_intervals_cover():
    hits, bias = run_means(np.full(900, 0.3), "at random")
    assert hits >= binom.ppf(ALPHA, 200, 0.9)
    assert np.all(np.abs(bias) < 0.02)


def test_rounding_to_the_nearest_point_would_be_seen():
    """The mutant of the test above."""
    hits, bias = run_means(np.full(900, 0.3), "nearest")
    assert hits < binom.ppf(ALPHA, 200, 0.9)
    assert np.all(bias > 0.1)


@pytest.mark.parametrize("task", ASKED)
def test_the_command_line_with_a_ledger(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(PEOPLE, "people.csv")
    column, options = ASKED[task]
    words = [
        "run",
        task,
        "people.csv",
        "--column",
        column,
        "--by",
        "way",
        "--groups",
        ",".join(WAYS),
    ]
    for name, value in options.items():
        words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    words += ["--epsilon", "1", "--delta", "1e-6", "--json", "--ledger", "l.json"]
    result = CliRunner().invoke(app, [*words, "--budget-epsilon", "1", "--budget-delta", "1e-5"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[0])
    assert (found["by"], found["column"], found["n"]) == ("way", column, N)
    assert found["estimate"][0]["label"].startswith("car")
    (entry,) = sdp.ledger.Ledger(tmp_path / "l.json").entries()
    assert entry.note["by"] == "way"


def test_delta_is_compared_with_the_number_that_the_protocol_is_made_for():
    question = sdp.Question(
        name="minutes",
        task="mean",
        column="minutes",
        options={"lower": 0, "upper": 240},
        by="way",
        groups=tuple(WAYS),
    )
    survey = sdp.Survey.of(question, epsilon=1.0, delta=1e-4)
    with pytest.raises(sdp.ParameterError, match=f"at most 1/n = {1 / (100 * N):.3g}"):
        survey.prepare(PEOPLE, n=100 * N)


def test_yes_and_no_need_no_declaration():
    answer = sdp.ask(
        PEOPLE, "mean", column="minutes", by="home", lower=0, upper=240, epsilon=1.0, delta=1e-6
    )
    assert answer.estimate.labels == ("false", "true")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": None}, "by='way' needs a list of its `groups` from public knowledge"),
        ({"groups": []}, r"groups=\[\] must be at least two"),
        ({"groups": ["car"]}, r"groups=\['car'\] must be at least two"),
        ({"groups": ["car", "car"]}, "car"),
        ({"groups": ["car", "bus"]}, "is none of the categories"),
        ({"by": None}, "groups needs by"),
        ({"by": "street"}, "street"),
        (
            {"task": "cdf", "lower": 0, "upper": 1},
            "a cdf has no groups: by is for count",
        ),
    ],
)
def test_bad_groups_are_refused(change, said):
    given = {"task": "count", "column": "home", "delta": 1e-6, **BY, **change}
    with pytest.raises(sdp.ShuffledpError, match=said):
        sdp.ask(PEOPLE, **given)


class TestInvalid:
    """2,000 people: a missing age, an unknown group, one out of range, and one with both faults."""

    AGES = [30] * 996 + [None, 30, 200, None] + [50] * 1000
    WAYS = ["car"] * 997 + ["boat", "car", "boat"] + ["bus"] * 1000

    def ask(self, groups=("car", "bus"), **given):
        table = pa.table({"age": self.AGES, "way": self.WAYS})
        promise = {"epsilon": 1, "delta": 1e-6, "rng": sdp.SeededWords(1)}
        return sdp.ask(
            table,
            "mean",
            column="age",
            lower=0,
            upper=120,
            by="way",
            groups=groups,
            **promise,
            **given,
        )

    @pytest.mark.parametrize("model", ["shuffle", "central"])
    def test_people_may_be_left_out(self, model):
        answer = self.ask(on_invalid="drop", model=model)
        assert (answer.n, answer.rows) == (1996, 2000)
        assert answer.invalid == {"null": 2, "unknown": 1, "out_of_range": 1, "nan": 0}
        assert "4 of 2,000 values were invalid" in answer.dropped
        assert np.abs(answer.estimate.value - [30, 50]).max() < 5

    def test_each_column_is_treated_as_it_can_be(self):
        answer = self.ask(
            ("car", "bus", "other"), on_invalid="null=drop,unknown=other,out_of_range=clamp"
        )
        assert (answer.n, answer.rows) == (1998, 2000)
        assert answer.invalid == {"null": 2, "nan": 0}
        assert "out_of_range 1" in answer.for_operator

    def test_what_makes_no_sense_for_a_column_is_an_error(self):
        with pytest.raises(sdp.DataError, match=r"missing; to go on: on_invalid .*null=drop"):
            self.ask(("car", "bus", "other"), on_invalid="other,clamp")


def test_a_survey_says_its_groups_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'epsilon = 1\ndelta = 1e-6\n[questions.home]\ntask = "count"\n'
    )
    result = CliRunner().invoke(app, ["run", "s.toml", "people.csv", "--by", "way"])
    assert result.exit_code == 2
    assert "a survey file states it" in result.stderr


def test_plans_by_group_are_those_of_pairs():
    common = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "models": "shuffle"}
    found = sdp.plan("count", groups=["car", "bus"], **common)
    assert found.rows == sdp.plan("histogram", k=4, **common).rows
    assert "A count of each of 2 groups is a histogram over 4 pairs" in " ".join(str(found).split())
    numbers = sdp.plan("sum", lower=0, upper=2, groups=["car", "bus"], **common)
    assert numbers.rows == sdp.plan("histogram", k=6, **common).rows
    assert "The sum of a group has 2.24 times that error." in numbers.remarks
    assert "rounded to steps of" in str(
        sdp.plan("mean", lower=0, upper=60, groups=["car", "bus"], **common).remarks
    )
    for task, given in {"mean": {}, "median": {"lower": 0.0}, "std": {"lower": 0.0}}.items():
        with pytest.raises(sdp.UnsupportedError, match="by group needs n"):
            sdp.plan(
                task, upper=60.0, groups=["a", "b"], error=3.0, epsilon=1.0, delta=1e-6, **given
            )
    ages = sdp.plan("quantiles", lower=0, upper=9, groups=["a", "b"], **common)
    assert ages.rows == sdp.plan("histogram", k=20, **common).rows
    with pytest.raises(sdp.UnsupportedError, match="a range has no groups"):
        sdp.plan("range", lower=0, upper=9, at="1,2", groups=["a", "b"], **common)
    with pytest.raises(sdp.ParameterError, match="must be at least two"):
        sdp.plan("count", groups=["a"], **common)


@pytest.mark.parametrize("task", ["count", "mean"])
def test_messages_by_group(task, tmp_path):
    """Randomized, tallied and estimated apart: the groups are kept beside the messages, and who was left out is told."""
    source = np.random.default_rng(3)
    values = source.integers(0, 2, 900).astype(object)
    values[:5] = None
    ways = source.choice(["car", "bus"], 900)
    given = {"lower": 0, "upper": 1} if task == "mean" else {}
    question = sdp.Question(
        name="home", task=task, column="home", options=given, by="way", groups=("car", "bus")
    )
    survey = sdp.Survey.of(question, epsilon=2.0, delta=1e-5, on_invalid="drop")
    prepared = survey.prepare({"home": values.tolist(), "way": ways.tolist()}, sent=True)
    sent = prepared.randomize(tmp_path / "m.parquet")
    assert (sent.n, sent.rows, sent.invalid["null"]) == (895, 900, 5)
    kept = sdp.read_tally(sdp.write_tally(sdp.tally_file(sent.path), tmp_path / "t.json"))
    answer = sdp.Answer.of(kept)
    assert (answer.task, answer.by, answer.estimate.labels) == (task, "way", ("car", "bus"))
    truth = [np.sum(values[5:][ways[5:] == way].astype(float)) for way in ("car", "bus")]
    sizes = [np.sum(ways[5:] == way) for way in ("car", "bus")]
    if task == "mean":
        truth = np.divide(truth, sizes)
    low, high = answer.estimate.interval(1 - 1e-9)
    assert np.all((low <= truth) & (truth <= high))


def test_exact_intervals_of_sums_and_means_hold_whatever_the_bins_do():
    """Bins anywhere in their own exact intervals, and the worst rounding that Hoeffding allows."""
    groups = sdp.Categories(k=2, names=("a", "b"))
    numbers = Sum(domain=sdp.Integers(lower=-2, upper=3))
    task = Grouped.of(numbers, groups)
    protocol = sdp.protocols.dummies_histogram.make(n=600, k=12, epsilon=1.0, delta=1e-5)
    counts = np.array([50, 0, 10, 20, 100, 20, 300, 10, 0, 50, 20, 20])
    bins = protocol.analyzer.estimate(protocol.randomizer.deal(counts, sdp.SeededWords(1)))
    ends = bins.exact_interval(1 - 0.05 / 6)
    least, most = (np.maximum(end, 0.0).reshape(2, 6) for end in ends)
    values = np.arange(-2, 4)
    low, high = task.convert(bins).exact_interval(0.9)
    np.testing.assert_allclose(low, np.where(values < 0, most, least) @ values)
    np.testing.assert_allclose(high, np.where(values < 0, least, most) @ values)
    means = replace(task, inner="mean").convert(bins).exact_interval(0.9)
    truth = counts.reshape(2, 6) @ values / counts.reshape(2, 6).sum(axis=1)
    assert np.all((means.low < truth) & (truth < means.high))
    whole = np.all((most >= counts.reshape(2, 6)) & (least <= counts.reshape(2, 6)))
    assert whole, "this seed is a usual one"
    reals = Grouped.of(Sum(domain=sdp.Reals(lower=-2.0, upper=3.0, steps=5)), groups).round_to(5)
    wider = reals.convert(bins).exact_interval(0.9)
    off = np.sqrt(most.sum(axis=1) * np.log(2 / 0.05) / 2)
    np.testing.assert_allclose(wider.high - high, off)
    np.testing.assert_allclose(low - wider.low, off)


class TestShapes:
    """Quantiles and spreads of groups: intervals cover, also of small and of empty groups."""

    GROUPS = sdp.Categories(k=3, names=("a", "b", "c"))

    def draw(self, task, values, ways, rounds=60, level=0.9):
        """How often the intervals cover, and how far off the estimates are."""
        counts = np.bincount(task.domain.codes((values, ways)), minlength=task.domain.size)
        noise = sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=2, k=task.domain.size)
        truth, source = task.truth((values, ways)), sdp.SeededWords(7)
        hits, off = np.zeros(len(truth)), []
        for _ in range(rounds):
            bins = replace(noise.release(counts, source), limits=(0.0, float(len(values))))
            estimate = task.convert(bins)
            low, high = estimate.interval(level)
            hits += (low <= truth) & (truth <= high)
            off.append(np.abs(estimate.value - truth))
        return hits, np.mean(off, axis=0)

    @pytest.mark.parametrize(
        ("kind", "at"),
        [
            pytest.param("quantiles", (0.1, 0.5), marks=pytest.mark.slow),
            ("std", None),
            pytest.param("variance", None, marks=pytest.mark.slow),
        ],
    )
    @pytest.mark.parametrize("domain", [{"lower": 0, "upper": 30}, {"lower": 0.0, "upper": 30.0}])
    def test_intervals_cover(self, kind, at, domain):
        source = np.random.default_rng(2)
        values = source.binomial(30, 0.3, 900)
        ways = np.where(np.arange(900) % 10 == 0, "a", "b")  # nobody is in c
        options = {**domain, "at": at} if at else domain
        asked = sdp.tasks.task_named(kind).declare(options).task
        task = Grouped.of(asked, self.GROUPS).fit(900, 1.0)
        hits, off = self.draw(task, values, ways)
        people = slice(0, 2 * len(at or (0,)))
        assert hits[people].min() >= binom.ppf(ALPHA, 60, 0.9)
        assert off[people].max() < (60 if kind == "variance" else 6)

    def test_integers_stay_whole_and_many_share_cells(self):
        ages = sdp.tasks.Median.declare({"lower": 0, "upper": 9}).task
        assert Grouped.of(ages, self.GROUPS).domain.parts[0] == sdp.Integers(lower=0, upper=9)
        incomes = sdp.tasks.Std.declare({"lower": 0, "upper": 10**6}).task
        sizes = [
            Grouped.of(incomes, self.GROUPS).fit(n, 1.0).domain.parts[0].size
            for n in (100, 3000, 10**7)
        ]
        assert sizes[0] == 8 < sizes[1] < sizes[2] == 64

    def test_messages_keep_the_quantiles(self, tmp_path):
        question = sdp.Question(
            name="minutes",
            task="quantiles",
            column="minutes",
            options=ASKED["quantiles"][1],
            by="way",
            groups=WAYS,
        )
        survey = sdp.Survey.of(question, epsilon=1.0, delta=1e-6)
        sent = survey.prepare(PEOPLE, sent=True).randomize(tmp_path / "m.parquet")
        answer = sdp.Answer.of(sdp.tally_file(sent.path))
        low, high = answer.estimate.interval(1 - 1e-9)
        assert np.all((low <= truth("quantiles")) & (truth("quantiles") <= high))
        assert answer.estimate.labels[:2] == ("car, 0.25", "car, 0.75")


@pytest.mark.parametrize("task", ["count", "sum", "mean", "histogram", "median", "std"])
def test_exact_intervals_by_group_hold_and_say_something(task):
    """From intervals of all bins, which need no law of sums: wide, and never idle."""
    column, given = ASKED[task]
    rng = sdp.SeededWords(3)
    asked = {**BY, "epsilon": 20.0, "model": "central", "rng": rng, **given}
    estimate = sdp.ask(PEOPLE, task, column=column, **asked).estimate
    wide, close = estimate.exact_interval(0.99), estimate.exact_interval(0.5)
    exact = truth(task)
    off = 2.0 if task in ("median", "std") else 0.0  # cells
    assert np.all((wide.low - off <= exact) & (exact <= wide.high + off))
    assert np.all((wide.low <= close.low) & (close.high <= wide.high))
    assert np.all(close.high - close.low < wide.high - wide.low + 1e-9)
    least, most = estimate.limits
    assert np.all(wide.high - wide.low < (most - least))
    one = PickedError(whole=estimate, places=1)
    assert one.exact_interval(0.0, 0.99) == (wide.low[1], wide.high[1])
    assert one.interval(0.0, 0.99) == tuple(end[1] for end in estimate.interval(0.99))
    assert one.stderr == np.asarray(estimate.stderr)[1]
    some = PickedError(whole=estimate, places=slice(0, 2))
    assert np.array_equal(some.exact_interval(0.0, 0.99).high, wide.high[:2])
