"""What black boxes may return, and what is refused because it has no value."""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.audit.outcomes import _count_messages, make_rows


def audit(box, samples):
    return sdp.audit.empirical(box, [0], [1], delta=0.0, samples=samples, rng=sdp.SeededWords(11))


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Pair:
    first: object
    second: object = 0


class Thing:
    """Hashed by identity, as objects are."""


class Sly:
    """Says that it hashes by value, and uses its address."""

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


class Stubborn(Thing):
    """Cannot be copied: its copy is itself."""

    def __deepcopy__(self, memo):
        return self


async def promise():
    return 1


class TestHostileOutcomes:
    @pytest.mark.parametrize(
        ("outcome", "what"),
        [
            (lambda: iter([1, 2]), "list_iterator, which has no value"),
            (lambda: (i for i in range(3)), "generator, which has no value"),
            (lambda: map(str, [1]), "map, which has no value"),
            (lambda: zip([1], [2], strict=True), "zip, which has no value"),
            (lambda: [("a", iter([1]))], "list_iterator, which has no value"),
            (lambda: ("a", (i for i in range(3))), "generator, which has no value"),
            (promise, "coroutine, which has no value"),
            (object, "object, which is hashed by its place in memory"),
            (Thing, "Thing, which is hashed by its place in memory"),
            (Stubborn, "Stubborn, which is hashed by its place in memory"),
            (property, "property, which is hashed by its place in memory"),
            (Sly, "Sly, which is hashed by its place in memory"),
            (lambda: ("a", Thing()), "Thing, which is hashed by its place in memory"),
            (lambda: frozenset([Thing()]), "Thing, which is hashed by its place in memory"),
            (lambda: np.array([Thing(), 1], dtype=object), "Thing, which is hashed by its place"),
            (lambda: Pair(Thing()), "Pair, which is hashed by its place in memory"),
            (lambda: Pair(iter([1])), "Pair, which is hashed by its place in memory"),
            (lambda: print, "builtin_function_or_method, which is hashed by its place"),
            (lambda: lambda: 1, "function, which is hashed by its place in memory"),
            (lambda: [].append, "builtin_function_or_method, which is hashed by its place"),
            (lambda: Thing, "type, which is hashed by its place in memory"),
            (dict, "dict, which is neither a number nor hashable"),
            (lambda: Pair({}), "Pair, which is neither a number nor hashable"),
        ],
    )
    def test_what_has_no_value_is_refused(self, outcome, what):
        with pytest.raises(sdp.DataError, match=f"the black box returned a {what}"):
            audit(lambda *_: outcome(), samples=10)

    @pytest.mark.parametrize(
        "outcome",
        [
            lambda: None,
            lambda: Colour.RED,
            lambda: Pair("a", (1, "b")),
            lambda: ("a", float("nan"), np.float32("nan"), Decimal("NaN"), complex("nan")),
            lambda: {"a", "b"},
            lambda: bytearray(b"xy"),
            lambda: memoryview(b"xy"),
            lambda: np.array(["a", None, ("b", 1.5)], dtype=object),
            lambda: np.array([str(10**9), ("b", float("1.5"))], dtype=object),
            lambda: np.array([[1, 2], [3, 4]]),
            lambda: np.array(["2030-01-01"], dtype="datetime64[D]"),
            lambda: Fraction(1, 3),
            lambda: Decimal("0.1"),
            lambda: 10**400,
            lambda: -(10**400),
            lambda: [10**400, 1.5],
            lambda: float("inf"),
            lambda: float("nan"),
            lambda: [float("nan"), -float("inf"), 1e308, -1e308],
            lambda: 1 + 2j,
            lambda: (),
            list,
            lambda: "",
            lambda: range(3),
            lambda: True,
            lambda: [[1], [2, 3]],
            lambda: ("a", [[1], [2, 3]]),
        ],
    )
    def test_equal_values_get_equal_rows(self, outcome):
        """Made anew each time: what is not the same object is the same outcome."""
        rows = make_rows([outcome() for _ in range(20)])
        assert np.isfinite(rows).all()
        assert (rows == rows[0]).all()
        assert (make_rows([outcome(), "something else"])[0, : rows.shape[1]] == rows[0]).all()
        assert audit(lambda *_: outcome(), samples=40).epsilon == 0

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (float("nan"), 0.0),
            (float("inf"), float("-inf")),
            (float("nan"), float("-inf")),
            (10**400, -(10**400)),
            ("1", 1),
            ((), (0,)),
            (None, 0),
            (1e300, "x"),
            (Pair(1), Pair(2)),
            (Colour.RED, Colour.BLUE),
            ((1.0, float("nan")), (float("nan"), 1.0)),
        ],
    )
    def test_different_values_can_be_told_apart(self, one, other):
        """A box that tells all, through values that floating point does not like."""
        found = audit(lambda data, _: other if data[0] else one, samples=400)
        assert found.epsilon > 1

    def test_outcomes_of_every_kind_in_one_box(self):
        """Kinds that come and go, in an order that does not depend on the data."""
        kinds = [1, "one", (1, 2), None, float("nan"), b"1", Colour.RED, np.array([1.0, 2.0, 3.0])]
        found = audit(lambda _, rng: kinds[int(rng.words(1, 3)[0])], samples=2000)
        assert found.epsilon == 0


@pytest.mark.parametrize("name", ["krr", "optimized_unary"])
def test_crowds_of_one_message_each_are_counted_as_any_others(name):
    device = sdp.make(name, k=4, epsilon=1.0).randomizer
    sent = sdp.randomize(device, np.arange(60) % 4, sdp.SeededWords(1))
    assert isinstance(sent.owner, range)
    listed = replace(sent, owner=np.arange(60))
    assert (_count_messages(sent, 20, 3, 16) == _count_messages(listed, 20, 3, 16)).all()
