"""shuffledp: differential privacy in the shuffle model.

Each person's device randomizes its own value (R), a shuffler forgets who sent what (S), and an
analyzer computes the answer (A).

>>> import shuffledp as sdp
>>> p = sdp.protocols.krr.make_local(k=3, epsilon=2.0)
>>> estimate = sdp.run(p, [0, 0, 1, 2] * 1000)
>>> estimate.value.shape
(3,)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shuffledp.core.domain import Bits, Categories, Integers, Reals
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    ShuffledpError,
    UnsupportedError,
)
from shuffledp.core.privacy import Guarantee, Neighbours, View
from shuffledp.core.randomizer import randomize
from shuffledp.core.shuffler import shuffle
from shuffledp.core.task import Question
from shuffledp.numerics.entropy import SecureWords, SeededWords

if TYPE_CHECKING:
    from shuffledp import audit, engine, mechanisms, plots, protocols, samples, tasks
    from shuffledp.accounting.amplify import (
        amplify,
        amplify_lower,
        calibrate,
        profile,
        smallest_n,
    )
    from shuffledp.accounting.compose import compose, compose_renyi
    from shuffledp.engine.counts import run_counts
    from shuffledp.engine.memory import run
    from shuffledp.inference.complexity import sample_complexity
    from shuffledp.inference.learning import learn
    from shuffledp.inference.uniformity import test_identity, test_uniform
    from shuffledp.planner.choose import count, histogram, mean, sum

__all__ = [
    "Bits",
    "Categories",
    "DataError",
    "Guarantee",
    "Integers",
    "MismatchError",
    "Neighbours",
    "ParameterError",
    "Question",
    "Reals",
    "SecureWords",
    "SeededWords",
    "ShuffledpError",
    "UnsupportedError",
    "View",
    "__version__",
    "amplify",
    "amplify_lower",
    "audit",
    "calibrate",
    "compose",
    "compose_renyi",
    "count",
    "engine",
    "histogram",
    "learn",
    "mean",
    "mechanisms",
    "plots",
    "profile",
    "protocols",
    "randomize",
    "run",
    "run_counts",
    "sample_complexity",
    "samples",
    "shuffle",
    "smallest_n",
    "sum",
    "tasks",
    "test_identity",
    "test_uniform",
]

__version__ = "0.1.0"

# What needs the protocols and the accountant is imported when it is first used: there are many, and
# a command line that only wants to print its help should not wait for them.
_LATER = {
    **dict.fromkeys(("amplify", "amplify_lower", "calibrate", "profile"), "accounting.amplify"),
    **dict.fromkeys(("count", "histogram", "mean", "sum"), "planner.choose"),
    "compose": "accounting.compose",
    "compose_renyi": "accounting.compose",
    "learn": "inference.learning",
    "run": "engine.memory",
    "run_counts": "engine.counts",
    "sample_complexity": "inference.complexity",
    "smallest_n": "accounting.amplify",
    "test_identity": "inference.uniformity",
    "test_uniform": "inference.uniformity",
}
_ROOMS = ("audit", "engine", "mechanisms", "plots", "protocols", "samples", "tasks")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"shuffledp.{name}")
    if name in _LATER:
        value = getattr(import_module(f"shuffledp.{_LATER[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'shuffledp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
