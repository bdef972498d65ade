"""What one person moves: of every task, by trying all data sets of a few people; and what tasks refuse."""

from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.domain import Answers, Bits, Categories, Cells, Integers, Reals
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError
from shuffledp.core.texts import Keys, Texts
from shuffledp.tasks import Count, Histogram, Mean, Questions, Sum, Uniformity, Words
from shuffledp.tasks.groups import Grouped
from shuffledp.tasks.histogram import Distribution
from shuffledp.tasks.numbers import Cdf, Range, Std, Variance
from shuffledp.tasks.totals import mean_square, squared_error

PETS = Categories(k=3, names=("ant", "bee", "cat"))
TENS = Integers(lower=-3, upper=5)
CASES = {
    "count": (Count(domain=Bits()), [0, 1]),
    "sum": (Sum(domain=TENS), [-3, 0, 5]),
    "sum of reals": (Sum(domain=Reals(lower=-0.5, upper=1.0, steps=3)), [-0.5, 0.25, 1.0]),
    "mean": (Mean(domain=TENS), [-3, 0, 5]),
    "histogram": (Histogram(domain=PETS), ["ant", "bee", "cat"]),
    "cdf": (Cdf(domain=TENS, at=(-1.0, 2.0)), [-3, 0, 5]),
    "range": (Range(domain=TENS, at=(-1.0, 2.0)), [-3, 0, 5]),
    "distribution": (Distribution(domain=PETS), ["ant", "bee", "cat"]),
    "words": (Words(domain=Texts(alphabet="letters", max_length=2)), ["a", "b", "ab"]),
}
LOOSE = {
    "uniformity": (Uniformity(domain=PETS), ["ant", "bee", "cat"]),
    "variance": (Variance(domain=TENS), [-3, 0, 5]),
    "std": (Std(domain=TENS), [-3, 0, 5]),
}
N = 4


def ask(task, values):
    if isinstance(task, Words):
        counts = task.count(values)
        return np.array([counts.get(word, 0) for word in ("a", "b", "ab")])
    return np.atleast_1d(np.asarray(task.truth(list(values)), dtype=float))


def find_most(task, values):
    """The largest sum of moves of the answers, over all data sets of N people and all changes of the first."""
    truths = {each: ask(task, each) for each in product(values, repeat=N)}
    return max(
        float(np.abs(truth - truths[(other, *each[1:])]).sum())
        for each, truth in truths.items()
        for other in values
    )


@pytest.mark.parametrize("name", CASES)
def test_the_sensitivity_is_what_one_person_moves_and_no_more(name):
    task, values = CASES[name]
    assert task.sensitivity(N) == pytest.approx(find_most(task, values), rel=1e-9)


@pytest.mark.parametrize("name", LOOSE)
def test_the_sensitivity_is_at_least_what_one_person_moves(name):
    task, values = LOOSE[name]
    most = find_most(task, values)
    assert most <= task.sensitivity(N) <= 3.5 * most


def test_groups_and_surveys_move_as_much_as_their_parts():
    way = Categories(k=2, names=("car", "bus"))
    joint = Grouped.of(Count(domain=Bits()), way)
    assert joint.sensitivity(100) == 2
    assert joint.arguments() == {"k": 4}
    both = Questions(
        domain=Answers(parts=(Bits(), TENS)), parts=(Count(domain=Bits()), Sum(domain=TENS))
    )
    assert both.sensitivity(100) == 1 + 8
    assert both.arguments() == {}
    assert both.loss(np.array([3.0, 5.0]), np.array([1.0, 5.0])) == 2.0
    assert joint.loss(np.array([3.0, 5.0]), np.array([1.0, 5.0])) == 2.0
    with pytest.raises(UnsupportedError, match="groups are declared in a survey: by"):
        Grouped.declare({})


def test_what_a_task_gives_its_protocols():
    bit = {"lower": 0, "upper": 1, "steps": None}
    assert Count(domain=Bits()).arguments() == {**bit, "task": "sum"}
    assert Mean(domain=Bits()).arguments() == {**bit, "task": "mean"}
    assert Sum(domain=TENS).arguments() == {"lower": -3, "upper": 5, "steps": None, "task": "sum"}
    assert Uniformity(domain=PETS).arguments() == {"k": 3}
    assert Words(domain=Keys(bits=9)).arguments() == {"bits": 9}
    texts = Texts(alphabet="letters", max_length=2)
    assert Words(domain=texts).arguments() == {"alphabet": "letters", "max_length": 2}


@pytest.mark.parametrize(("kind", "power"), [(Variance, 2), (Std, 1)])
def test_errors_of_spreads_are_parts_of_the_range(kind, power):
    assert kind(domain=TENS).relate(100) == 8.0**power
    assert kind(domain=Cells(lower=0.0, upper=3.0, cells=6)).relate(100) == 100.0


def test_words_are_counted_aligned_and_compared():
    task = Words(domain=Texts(alphabet="letters", max_length=3))
    words = ["cat", "ant", "cat", "bee", "cat", "ant"]
    assert task.count(words) == {"cat": 3, "ant": 2, "bee": 1}
    assert task.truth(words).tolist() == [3.0, 2.0, 1.0]
    found = Estimate(
        value=np.array([2.0, 4.0]),
        error=NormalError(stderr=1.0),
        limits=(0, 6),
        labels=("bee", "fly"),
    )
    exact = task.align(found, words)
    assert exact.tolist() == [1.0, 0.0]
    assert task.loss(found.value, exact) == (1.0 + 16.0) / 2
    assert task.loss(np.zeros(0), np.zeros(0)) == 0.0


@pytest.mark.parametrize("domain", [PETS, Bits(), TENS])
def test_words_and_cells_have_domains_of_their_own(domain):
    with pytest.raises(ParameterError, match="must be Texts or Keys"):
        Words(domain=domain)
    if domain is not TENS:
        with pytest.raises(ParameterError, match="must be Integers or Cells"):
            Std(domain=domain)
        with pytest.raises(ParameterError, match=r"must be of numbers"):
            Sum(domain=PETS)


def test_answers_of_other_shapes_are_not_compared():
    with pytest.raises(MismatchError, match=r"the estimate has shape \(2,\), the truth \(3,\)"):
        mean_square(np.zeros(2), np.zeros(3))
    with pytest.raises(MismatchError, match=r"the \w+ must be one number, but has shape \(2,\)"):
        squared_error(np.zeros(2), 1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lower": 0, "upper": 10**9}, "must leave at most"),
        ({"lower": 0.5, "upper": 3}, "give whole numbers"),
        ({"lower": 0}, "lower and upper belong together"),
        ({"categories": ["a", "b"], "k": 2}, "give one of categories and k, not both"),
        ({"categories": ["a", "b"], "lower": 0, "upper": 1}, "give categories, or lower and upper"),
        ({"categories": ["a", " ", "b"]}, r"is empty \(number 2\)"),
        ({"categories": ["a", "b", "a"]}, "categories='a' is listed twice"),
        ({"categories": ["a"]}, "two|2"),
        ({"categories_file": "/nowhere/at/all"}, "categories_file .* cannot be read: No such file"),
    ],
)
def test_bins_that_make_no_sense_are_refused(options, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        Histogram.declare(options)


def test_files_of_categories_are_text_with_one_on_each_line(tmp_path):
    path = tmp_path / "pets.txt"
    path.write_bytes("\ufeff ant \r\nbee\n\n\n".encode())
    assert Histogram.declare({"categories_file": str(path)}).task.domain.labels == ("ant", "bee")
    path.write_bytes("bär\nfox".encode("latin-1"))
    with pytest.raises(sdp.DataError, match=r"pets.txt is not text in UTF-8"):
        Histogram.declare({"categories_file": str(path)})


def test_no_more_different_values_than_bins():
    assert Histogram(domain=PETS, values=3, apart=True).sensitivity(10) == 6
    assert Histogram(domain=PETS, values=4).sensitivity(10) == 8
    with pytest.raises(ParameterError, match="values=4 must be at most the number of bins"):
        Histogram(domain=PETS, values=4, apart=True)
    with pytest.raises(ParameterError, match="values=0 must be >= 1"):
        Histogram(domain=PETS, values=0)


def test_ends_that_floating_point_cannot_tell_apart_are_refused():
    with pytest.raises(
        ParameterError, match=r"upper=1.0000000000000002 must be farther from lower=1"
    ):
        Sum.declare({"lower": 1.0, "upper": 1.0000000000000002})
    with pytest.raises(ParameterError, match=r"upper=0.5 must be"):
        Sum.declare({"lower": 1.5, "upper": 0.5})
