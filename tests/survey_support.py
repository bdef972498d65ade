"""People and questions that tests of several rooms ask in surveys."""

import numpy as np
import pyarrow as pa

N = 20_000
_RNG = np.random.default_rng(1)
PEOPLE = pa.table(
    {
        "way": _RNG.choice(["car", "bus", "other"], N, p=[0.5, 0.3, 0.2]),
        "minutes": _RNG.integers(0, 16, N),
        "home": _RNG.random(N) < 0.25,
    }
)
MIXED = """
epsilon = 2.0
delta = 1e-6
honest = 1.0
on_invalid = "other"
[questions.way]
task = "histogram"
categories = ["car", "bus", "other"]
[questions.home]
task = "count"
[questions.age]
task = "quantiles"
lower = 0
upper = 99
[questions.pace]
task = "mean"
lower = 0.0
upper = 1.0
[questions.home_by_way]
task = "count"
column = "home"
by = "way"
"""
