"""The errors and messages that were promised for a million people."""

import accuracy


def test_the_figures_that_were_promised():
    """Root mean squared errors and messages at n = 10^6, epsilon = 1, delta = 1e-6."""
    found = {(question, name): (rmse, sent) for question, name, rmse, sent in accuracy.rows()}
    limits = {
        ("count", "rr, shuffled"): (5.95, 1.0),
        ("count", "correlated_count"): (1.53, 1.01),
        ("count", "split_and_mix"): (1.37, 6.0),
        ("sum of reals in [0, 1]", "split_and_mix"): (1.428, 8.0),
        ("histogram of 1,024 bins", "correlated_histogram"): (3.15, 1.7),
        ("histogram of 1,024 bins", "sparse_histogram"): (6.6, 1.1),
        ("histogram of 1,024 bins", "hashed_histogram"): (9.4, 2.0),
        ("histogram of 1,000,000 bins", "hashed_histogram"): (9.4, 2.0),
    }
    for row, (rmse, messages) in limits.items():
        assert found[row][0] <= rmse, row
        assert found[row][1] <= messages, row
