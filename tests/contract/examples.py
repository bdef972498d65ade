"""Parameters of every built-in protocol for the contract tests: ordinary ones, and tiny ones to enumerate."""

from importlib import import_module

from shuffledp.core.protocol import Spec
from shuffledp.protocols import PROTOCOLS, spec
from shuffledp.testing import Examples


def examples_of(registered: Spec) -> Examples:
    """Those below, or those that the protocol's own test module, tests/protocols/test_NAME.py, hands in."""
    name = registered.name
    found = EXAMPLES.get(name) or import_module(f"protocols.test_{name}").EXAMPLES
    assert isinstance(found, Examples)
    return found


def enumerable() -> list[Spec]:
    """The protocols of the shuffle model with parameters so small that everything can be enumerated."""
    return [each for each in PROTOCOLS if each.make and examples_of(each).shuffled_tiny]


def all_examples() -> tuple[Examples, ...]:
    """Of every protocol in this package."""
    return tuple(map(examples_of, PROTOCOLS))


EXAMPLES = {
    "krr": Examples(
        spec("krr"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 1024, "epsilon": 3.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 5},
            {"k": 3, "epsilon": 0.7, "word_bits": 8},
            {"k": 5, "epsilon": 2.0, "word_bits": 10},
        ),
        shuffled=({"n": 100000, "k": 16, "epsilon": 1.0, "delta": 1e-08},),
        shuffled_tiny=(
            {"n": 4, "k": 3, "epsilon": 1.0, "delta": 0.05, "honest": 1.0, "word_bits": 6},
        ),
    ),
    "rr": Examples(
        spec("rr"),
        local=(
            {"epsilon": 0.5},
            {"epsilon": 1.0},
            {"epsilon": 4.0},
        ),
        local_tiny=(
            {"epsilon": 1.0, "word_bits": 3},
            {"epsilon": 0.1, "word_bits": 10},
            {"epsilon": 3.0, "word_bits": 8},
        ),
        shuffled=(
            {"n": 100000, "epsilon": 1.0, "delta": 1e-06},
            {"n": 10000, "epsilon": 0.5, "delta": 1e-06, "calibration": "paper"},
        ),
        shuffled_tiny=(
            {"n": 4, "epsilon": 0.7, "delta": 0.05, "honest": 1.0, "word_bits": 8},
            {"n": 3, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 6},
        ),
    ),
    "symmetric_unary": Examples(
        spec("symmetric_unary"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 1000, "epsilon": 3.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 5},
            {"k": 3, "epsilon": 2.0, "word_bits": 4},
            {"k": 4, "epsilon": 3.0, "word_bits": 3},
        ),
        shuffled=({"n": 10000, "k": 16, "epsilon": 1.0, "delta": 1e-06},),
        shuffled_tiny=(
            {"n": 3, "k": 2, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 6},
        ),
    ),
    "optimized_unary": Examples(
        spec("optimized_unary"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 1000, "epsilon": 3.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 5},
            {"k": 3, "epsilon": 2.0, "word_bits": 4},
            {"k": 4, "epsilon": 1.0, "word_bits": 3},
        ),
        shuffled=({"n": 10000, "k": 16, "epsilon": 1.0, "delta": 1e-06},),
        shuffled_tiny=(
            {"n": 3, "k": 2, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 6},
        ),
    ),
    "hadamard": Examples(
        spec("hadamard"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 1000, "epsilon": 1.0},
            {"k": 1000, "epsilon": 4.0},
            {"k": 16, "epsilon": 6.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 8},
            {"k": 5, "epsilon": 0.5, "word_bits": 9},
            {"k": 5, "epsilon": 2.0, "word_bits": 10},
            {"k": 12, "epsilon": 2.2, "word_bits": 10},
            {"k": 4, "epsilon": 4.0, "word_bits": 12},
            {"k": 3, "epsilon": 5.0, "word_bits": 12},
        ),
        shuffled=({"n": 10000, "k": 16, "epsilon": 1.0, "delta": 1e-06},),
        shuffled_tiny=(
            {"n": 3, "k": 3, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 8},
        ),
    ),
    "subset_selection": Examples(
        spec("subset_selection"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 300, "epsilon": 3.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 6},
            {"k": 5, "epsilon": 0.5, "word_bits": 5},
            {"k": 6, "epsilon": 0.3, "word_bits": 4},
        ),
        shuffled=({"n": 10000, "k": 16, "epsilon": 1.0, "delta": 1e-06},),
        shuffled_tiny=(
            {"n": 3, "k": 4, "epsilon": 0.5, "delta": 0.1, "honest": 1.0, "word_bits": 5},
        ),
    ),
    "local_hashing": Examples(
        spec("local_hashing"),
        local=(
            {"k": 2, "epsilon": 0.5},
            {"k": 16, "epsilon": 1.0},
            {"k": 1500, "epsilon": 3.0},
        ),
        local_tiny=(
            {"k": 2, "epsilon": 1.0, "word_bits": 4},
            {"k": 4, "epsilon": 2.0, "word_bits": 6},
            {"k": 7, "epsilon": 1.0, "word_bits": 6},
        ),
        shuffled=({"n": 10000, "k": 16, "epsilon": 1.0, "delta": 1e-06},),
        shuffled_tiny=(
            {"n": 2, "k": 3, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 4},
        ),
    ),
    "duchi": Examples(
        spec("duchi"),
        local=(
            {"lower": -1.0, "upper": 1.0, "steps": 1000, "epsilon": 1.0},
            {"lower": 0, "upper": 120, "steps": 120, "epsilon": 0.2},
            {"lower": 0.1, "upper": 0.3, "steps": 4294967296, "epsilon": 4.0},
        ),
        local_tiny=(
            {"lower": -1.0, "upper": 1.0, "steps": 2, "epsilon": 1.0, "word_bits": 8},
            {"lower": 0.1, "upper": 0.7, "steps": 3, "epsilon": 0.5, "word_bits": 9},
            {"lower": 0, "upper": 5, "steps": 5, "epsilon": 3.0, "word_bits": 10},
        ),
        shuffled=(
            {"n": 10000, "lower": 0, "upper": 120, "steps": 120, "epsilon": 1.0, "delta": 1e-06},
        ),
        shuffled_tiny=(
            {
                "n": 4,
                "lower": -1.0,
                "upper": 1.0,
                "steps": 2,
                "epsilon": 1.0,
                "delta": 0.05,
                "honest": 1.0,
                "word_bits": 8,
            },
        ),
    ),
    "piecewise": Examples(
        spec("piecewise"),
        local=(
            {"lower": -1.0, "upper": 1.0, "steps": 1000, "epsilon": 1.0},
            {"lower": 0, "upper": 120, "steps": 120, "epsilon": 4.0},
            {"lower": 0.1, "upper": 0.3, "steps": 32768, "epsilon": 0.2},
        ),
        local_tiny=(
            {"lower": -1.0, "upper": 1.0, "steps": 2, "epsilon": 1.0, "word_bits": 8},
            {"lower": 0.1, "upper": 0.7, "steps": 3, "epsilon": 0.5, "word_bits": 9},
            {"lower": 0, "upper": 5, "steps": 5, "epsilon": 3.0, "word_bits": 10},
        ),
        shuffled=(
            {"n": 10000, "lower": 0, "upper": 120, "steps": 120, "epsilon": 1.0, "delta": 1e-06},
        ),
        shuffled_tiny=(
            {
                "n": 3,
                "lower": -1.0,
                "upper": 1.0,
                "steps": 2,
                "epsilon": 1.0,
                "delta": 0.1,
                "honest": 1.0,
                "word_bits": 5,
            },
        ),
    ),
    "hybrid": Examples(
        spec("hybrid"),
        local=(
            {"lower": -1.0, "upper": 1.0, "steps": 1000, "epsilon": 1.0},
            {"lower": 0, "upper": 120, "steps": 120, "epsilon": 4.0},
            {"lower": 0.1, "upper": 0.3, "steps": 1048576, "epsilon": 0.2},
        ),
        local_tiny=(
            {"lower": -1.0, "upper": 1.0, "steps": 2, "epsilon": 1.0, "word_bits": 7},
            {"lower": 0.1, "upper": 0.7, "steps": 3, "epsilon": 2.0, "word_bits": 7},
            {"lower": 0, "upper": 5, "steps": 5, "epsilon": 0.5, "word_bits": 10},
        ),
        shuffled=(
            {"n": 10000, "lower": 0, "upper": 120, "steps": 120, "epsilon": 1.0, "delta": 1e-06},
        ),
        shuffled_tiny=(
            {
                "n": 3,
                "lower": -1.0,
                "upper": 1.0,
                "steps": 2,
                "epsilon": 1.0,
                "delta": 0.1,
                "honest": 1.0,
                "word_bits": 6,
            },
        ),
    ),
    "zsum": Examples(
        spec("zsum"),
        shuffled=(
            {"n": 100000, "epsilon": 1.0, "delta": 1e-08},
            {"n": 100000, "epsilon": 1.0, "delta": 1e-08, "calibration": "paper"},
            {"n": 20000, "epsilon": 3.0, "delta": 1e-06, "honest": 0.5},
        ),
        shuffled_tiny=(
            {"n": 4, "epsilon": 1.0, "delta": 0.2, "honest": 1.0, "word_bits": 8},
            {"n": 6, "epsilon": 0.5, "delta": 0.3, "honest": 0.7, "word_bits": 5},
        ),
    ),
    "zsum_sparse": Examples(
        spec("zsum_sparse"),
        shuffled=(
            {"n": 100000, "epsilon": 1.0, "delta": 1e-08},
            {"n": 100000, "epsilon": 1.0, "delta": 1e-08, "calibration": "paper"},
            {"n": 20000, "epsilon": 3.0, "delta": 1e-06, "honest": 0.5},
        ),
        shuffled_tiny=(
            {"n": 4, "epsilon": 1.0, "delta": 0.2, "honest": 1.0, "word_bits": 8},
            {"n": 6, "epsilon": 0.5, "delta": 0.3, "honest": 0.7, "word_bits": 5},
        ),
    ),
    "correlated_count": Examples(
        spec("correlated_count"),
        shuffled=(
            {"n": 100000, "epsilon": 1.0, "delta": 1e-08},
            {"n": 1000, "epsilon": 0.5, "delta": 1e-06, "gap": 0.2, "calibration": "paper"},
            {"n": 1000000, "epsilon": 3.0, "delta": 1e-10, "honest": 1.0},
        ),
        shuffled_tiny=(
            {"n": 4, "epsilon": 1.5, "delta": 0.3, "honest": 1.0, "word_bits": 3},
            {"n": 3, "epsilon": 2.0, "delta": 0.2, "honest": 1.0, "gap": 0.3, "word_bits": 3},
        ),
    ),
    "pure_count": Examples(
        spec("pure_count"),
        shuffled=(
            {"n": 60, "epsilon": 1.0},
            {"n": 100, "epsilon": 2.0, "honest": 1.0},
        ),
        shuffled_tiny=(
            {"n": 3, "epsilon": 1.0, "honest": 1.0, "word_bits": 6},
            {"n": 4, "epsilon": 1.5, "honest": 1.0, "word_bits": 8},
        ),
    ),
    "pure_histogram": Examples(
        spec("pure_histogram"),
        shuffled=(
            {"n": 60, "k": 3, "epsilon": 2.0},
            {"n": 100, "k": 2, "epsilon": 3.0, "honest": 1.0},
        ),
        shuffled_tiny=(
            {"n": 3, "k": 2, "epsilon": 2.0, "honest": 1.0, "word_bits": 6},
            {"n": 4, "k": 2, "epsilon": 3.0, "honest": 0.75, "word_bits": 5},
        ),
    ),
    "zsum_histogram": Examples(
        spec("zsum_histogram"),
        shuffled=(
            {"n": 20000, "k": 8, "epsilon": 1.0, "delta": 1e-08},
            {"n": 20000, "k": 3, "epsilon": 1.0, "delta": 1e-08, "calibration": "paper"},
        ),
        shuffled_tiny=(
            {"n": 4, "k": 2, "epsilon": 1.0, "delta": 0.3, "honest": 1.0, "word_bits": 6},
            {"n": 4, "k": 3, "epsilon": 1.5, "delta": 0.35, "honest": 0.75, "word_bits": 4},
        ),
    ),
    "sparse_histogram": Examples(
        spec("sparse_histogram"),
        shuffled=(
            {"n": 100000, "k": 1024, "epsilon": 1.0, "delta": 1e-08},
            {"n": 2000, "k": 100, "epsilon": 1.0, "delta": 1e-06, "honest": 1.0},
        ),
        shuffled_tiny=(
            {"n": 6, "k": 2, "epsilon": 1.0, "delta": 0.3, "honest": 1.0, "word_bits": 4},
            {"n": 4, "k": 3, "epsilon": 1.0, "delta": 0.45, "honest": 1.0, "word_bits": 4},
        ),
    ),
    "dummies_histogram": Examples(
        spec("dummies_histogram"),
        shuffled=(
            {"n": 100000, "k": 1024, "epsilon": 1.0, "delta": 1e-08},
            {"n": 1000, "k": 100, "epsilon": 1.0, "delta": 1e-06, "honest": 0.5},
        ),
        shuffled_tiny=(
            {"n": 3, "k": 2, "epsilon": 1.0, "delta": 0.3, "honest": 1.0, "word_bits": 4},
            {"n": 4, "k": 3, "epsilon": 1.0, "delta": 0.45, "honest": 0.75, "word_bits": 4},
            {"n": 5, "k": 2, "epsilon": 1.0, "delta": 0.3, "honest": 1.0, "word_bits": 6},
        ),
    ),
    "correlated_histogram": Examples(
        spec("correlated_histogram"),
        shuffled=(
            {"n": 100000, "k": 16, "epsilon": 1.0, "delta": 1e-08},
            {
                "n": 20000,
                "k": 100,
                "epsilon": 1.0,
                "delta": 1e-06,
                "gap": 0.2,
                "calibration": "paper",
            },
            {"n": 1000000, "k": 1000, "epsilon": 3.0, "delta": 1e-10, "honest": 1.0},
        ),
        shuffled_tiny=(
            {
                "n": 2,
                "k": 2,
                "epsilon": 1.0,
                "delta": 0.5,
                "honest": 1.0,
                "most_events": 1,
                "word_bits": 2,
            },
        ),
    ),
    "hashed_histogram": Examples(
        spec("hashed_histogram"),
        shuffled=(
            {"n": 100000, "k": 1024, "epsilon": 1.0, "delta": 1e-06},
            {"n": 1000, "k": 5000, "epsilon": 0.5, "delta": 1e-08, "messages": 3.5},
        ),
        shuffled_tiny=(
            {"n": 3, "k": 2, "epsilon": 1.0, "delta": 0.5, "honest": 1.0, "word_bits": 3},
            {"n": 2, "k": 2, "epsilon": 1.0, "delta": 0.48, "honest": 1.0, "word_bits": 3},
            {
                "n": 2,
                "k": 4,
                "epsilon": 1.0,
                "delta": 0.7,
                "honest": 1.0,
                "messages": 3.0,
                "word_bits": 4,
            },
        ),
    ),
    "hadamard_blanket": Examples(
        spec("hadamard_blanket"),
        shuffled=(
            {"n": 100000, "k": 1024, "epsilon": 1.0, "delta": 1e-06},
            {"n": 1000, "k": 5000, "epsilon": 0.5, "delta": 1e-08, "messages": 3.5},
        ),
        shuffled_tiny=(
            {"n": 3, "k": 3, "epsilon": 1.0, "delta": 0.5, "honest": 1.0, "word_bits": 3},
            {"n": 2, "k": 2, "epsilon": 1.0, "delta": 0.48, "honest": 1.0, "word_bits": 3},
        ),
    ),
    "count_min": Examples(
        spec("count_min"),
        shuffled=(
            {"n": 100000, "k": 1024, "epsilon": 1.0, "delta": 1e-06, "seed": 1},
            {
                "n": 5000,
                "k": 3000,
                "epsilon": 1.0,
                "delta": 1e-06,
                "seed": 2,
                "rows": 3,
                "width": 64,
            },
        ),
        shuffled_tiny=(
            {
                "n": 3,
                "k": 3,
                "epsilon": 2.0,
                "delta": 0.8,
                "rows": 2,
                "width": 2,
                "seed": 5,
                "honest": 1.0,
                "word_bits": 3,
            },
            {
                "n": 3,
                "k": 2,
                "epsilon": 1.0,
                "delta": 0.35,
                "rows": 1,
                "width": 2,
                "seed": 5,
                "honest": 1.0,
                "word_bits": 3,
            },
        ),
    ),
    "fake_users": Examples(
        spec("fake_users"),
        shuffled=(
            {"n": 100000, "k": 16, "epsilon": 1.0, "delta": 1e-06},
            {
                "n": 100000,
                "k": 5,
                "epsilon": 0.5,
                "delta": 1e-08,
                "calibration": "paper",
                "fake": 2,
            },
        ),
        shuffled_tiny=(
            {"n": 4, "k": 2, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 3},
        ),
    ),
}
