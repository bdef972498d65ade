"""Identity tests of several columns: one promise that holds, false alarms as stated, columns that are named."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.inference import identity_tests
from shuffledp.inference.testers import make_tester
from shuffledp.inference.uniformity import make_bundle
from shuffledp.protocols import bundle

LAWS = {"way": (0.5, 0.25, 0.25), "home": (0.5, 0.5), "size": (0.25,) * 4}
ASKED = {"alpha": 0.3, "epsilon": 1.0, "delta": 1e-6}
N = 20_000


def people(seed, laws=LAWS):
    rng = np.random.default_rng(seed)
    return {name: rng.choice(len(law), size=N, p=law) for name, law in laws.items()}


def test_the_tests_send_what_the_bundle_promises():
    """Each test calibrates its own device: it must be the part that the joint guarantee is about."""
    made = make_bundle({"a": 12, "b": 18}, n=N, epsilon=1.0, delta=1e-6, honest=0.9)
    for part, (_, own) in zip(made.parameters["parts"], bundle.questions(made), strict=True):
        given = {name: part[name] for name in ("k", "epsilon", "delta")}
        tester = make_tester(
            n=N, model="shuffle", coin="private", method="direct", honest=0.9, **given
        )
        assert tester.observer.randomizer == own.randomizer
    assert made.guarantee.delta <= 1e-6
    # One part alone keeps far more than the promise: a budget that is not shared would be seen.
    alone = [own.accountant.delta(int(0.9 * N), 1.0) for _, own in bundle.questions(made)]
    assert max(alone) < 1e-8


def test_all_laws_right():
    found = identity_tests(people(1), laws=LAWS, **ASKED, error=0.05, rng=sdp.SeededWords(1))
    assert found.accept
    assert found.rejected == ()
    assert list(found.tests) == list(LAWS)
    assert (found.guarantee.epsilon, found.guarantee.delta) == (1.0, 1e-6)
    for test in found.tests.values():
        assert test.level <= test.error <= 0.05 / 3
        assert 1 / 3 < test.guarantee.epsilon < 1.0  # more than an even split of epsilon


def test_the_wrong_column_is_named():
    columns = people(1, {**LAWS, "home": (0.9, 0.1)})
    found = identity_tests(columns, laws=LAWS, **ASKED, error=0.05, rng=sdp.SeededWords(1))
    assert not found.accept
    assert found.rejected == ("home",)


def test_one_column_has_the_whole_budget():
    one = {"home": LAWS["home"]}
    found = identity_tests(people(1, one), laws=one, **ASKED, rng=sdp.SeededWords(1))
    assert found.tests["home"].guarantee.epsilon == 1.0


@pytest.mark.parametrize(
    ("columns", "laws", "error", "said"),
    [
        ({}, {}, 0.1, "must be one for each"),
        ({"a": [0, 1]}, {"b": [0.5, 0.5]}, 0.1, "must be one for each of"),
        ({"a": [0, 1], "b": [0]}, {"a": [0.5, 0.5], "b": [0.5, 0.5]}, 0.1, "the same people"),
        ({"a": [0, 1]}, {"a": [0.5, 0.5]}, 1e-6, "error=1e-06 must be larger for 1 columns"),
        ({"a": [0, 1]}, {"a": [0.5, 0.5]}, 0.7, "must be <= 1/2"),
        ({"a": [0, 2]}, {"a": [0.5, 0.5]}, 0.1, "2"),
    ],
)
def test_bad_questions(columns, laws, error, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        identity_tests(columns, laws=laws, **ASKED, error=error)
