"""What a protocol says it sends is what its declared laws send: the mean and the largest number of messages, and bits."""

from dataclasses import replace
from math import prod

import pytest

from contract.examples import all_examples
from shuffledp import SeededWords, protocols, run
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import Hints, Least, Look
from shuffledp.core.randomizer import randomize
from shuffledp.planner.question import Problem, candidates

LOOSE = {"zero_sum_flooding", "sparse_histogram", "unary_sum"}
"""Bounds of these are not attained with words of a few bits, where their ideal noise is not either."""
FIRST = {"correlated_count", "correlated_histogram", "split_and_mix"}
"""What the planner looks at before all others."""
HINTS = {
    "correlated_histogram": {"frugal": "dummies_histogram"},
    "hashed_histogram": {"any_size": True},
    "hashed_tree": {"levels": True},
    "tree": {"levels": True},
}
CASES = [
    pytest.param(case, id=case.label)
    for each in all_examples()
    if each.spec.name != "tree"  # seconds; its levels are those of dummies_histogram
    for case in list(each.cases("tiny"))[:1]
]


@pytest.mark.parametrize("case", CASES)
def test_costs_are_those_of_the_declared_laws(case):
    cost = case.protocol.cost
    laws = [{sent: mass for sent, mass in law.items() if mass} for law in case.laws()]
    means = [float(sum(len(sent) * mass for sent, mass in law.items())) for law in laws]
    most = max(len(sent) for law in laws for sent in law)
    if case.spec.name in LOOSE:
        assert most <= cost.messages_max
        assert max(means) <= cost.messages_mean * (1 + 1e-12)
    else:
        assert most == cost.messages_max
        assert max(means) == pytest.approx(cost.messages_mean, rel=1e-12)
    assert cost.count_depends_on_value == (max(means) > min(means) * (1 + 1e-12))
    payloads = {message for law in laws for sent in law for message in sent}
    if all(isinstance(each, int) and each >= 0 for each in payloads):
        assert cost.bits_per_message == max(1, max(payloads).bit_length())


@pytest.mark.parametrize("shape", [[3, 4], [2, 7], [16], [17], [2, 2, 2]])
def test_a_message_of_a_tree_is_the_number_of_a_node(shape):
    size = prod(shape)
    made = protocols.make(
        "tree", n=10_000, lower=0, upper=size - 1, shape=shape, epsilon=1.0, delta=1e-6
    )
    nodes = sum(prod(shape[:level]) for level in range(1, len(shape) + 1))
    sent = randomize(made.randomizer, [size - 1] * 10_000, SeededWords(1)).payload
    assert sent.max() == nodes - 1
    assert made.cost.bits_per_message == (nodes - 1).bit_length()
    assert made.cost.messages_mean == sum(
        level.cost.messages_mean for level in made.randomizer.levels
    )


@pytest.mark.parametrize("case", CASES)
def test_what_the_planner_is_told(case):
    """`wins` is tested in tests/planner/test_newcomers.py, `least` below."""
    name = case.spec.name
    look = Look.FIRST if name in FIRST else Look.LATE
    assert replace(case.spec.hints, wins=(), least=None) == Hints(look=look, **HINTS.get(name, {}))
    assert case.protocol.cost.bits_per_message >= 1


BITS = {"symmetric_unary", "optimized_unary", "fake_users"}
"""Those whose messages have a bit for each category."""


@pytest.mark.parametrize(
    ("n", "epsilon", "k"), [(100, 1.0, 5), (400, 6.0, 16), (2000, 0.5, 3), (150, 0.3, 300)]
)
def test_what_is_sent_at_least_is_known_before(n, epsilon, k):
    asked = Problem.of("histogram", n=n, epsilon=epsilon, delta=1e-5, honest=0.9, k=k)
    told = {}
    for candidate in candidates(asked.task):
        if candidate.hints.least is None:
            continue
        least = candidate.foresee_least(asked)
        told[candidate.name] = least
        try:
            cost = candidate.make(asked).cost
        except ShuffledpError:
            continue
        assert least.messages <= cost.messages_mean
        assert least.messages > 0.5 * cost.messages_mean or candidate.name in BITS
        assert least.bits_per_message == (cost.bits_per_message if candidate.name in BITS else 0)
    assert set(told) == {*BITS, "pure_histogram"}


def test_a_curator_and_several_values_have_no_least():
    asked = Problem.of("histogram", n=100, epsilon=1.0, delta=1e-5, honest=0.9, k=5)
    (fake,) = candidates(asked.task, ["fake_users"])
    several = replace(asked, task=replace(asked.task, values=2))
    assert fake.foresee_least(asked) == Least(bits_per_message=5)
    assert fake.foresee_least(several) == Least()
    assert replace(fake, model=Model.CENTRAL).foresee_least(asked) == Least()


RUN = [
    pytest.param(case, id=case.label)
    for each in all_examples()
    if each.spec.name
    not in ("tree", "hashed_prefixes", "local_prefixes", "local_tree", "hashed_tree")
    for case in (*list(each.cases("tiny"))[:1], *list(each.cases("ordinary"))[:1])
    if case.parameters.get("n", 0) <= 20_000
]


@pytest.mark.parametrize("case", RUN)
def test_answers_know_the_limits_of_the_truth(case):
    """Counts of n people, sums of n values, and means between the ends."""
    protocol = case.protocol
    n, domain = protocol.users or 7, protocol.randomizer.domain
    answer = run(protocol, case.values(n), rng=SeededWords(1))
    expected = {
        "count": lambda: (0, n),
        "histogram": lambda: (0, n),
        "mean": lambda: (domain.lower, domain.upper),
        "sum": lambda: (n * domain.lower, n * domain.upper),
    }[protocol.task]()
    assert answer.limits == pytest.approx(expected, rel=1e-12)
