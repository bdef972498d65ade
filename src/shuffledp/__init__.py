"""shuffledp: differential privacy in the shuffle model.

Each person's device randomizes its own value (R), a shuffler forgets who sent what (S), and an
analyzer computes the answer (A).

>>> import shuffledp as sdp
>>> p = sdp.protocols.krr.make_local(k=3, epsilon=2.0)
>>> estimate = sdp.run(p, [0, 0, 1, 2] * 1000)
>>> estimate.value.shape
(3,)
"""

from typing import TYPE_CHECKING

from shuffledp.core import __version__, load_later
from shuffledp.core.analyzer import Analyzer, ErrorLaw, Estimate, Interval, PostProcessed, Tally
from shuffledp.core.display import Curve, Number, Picture
from shuffledp.core.domain import Bits, Categories, Domain, Integers, Reals
from shuffledp.core.errors import (
    BudgetError,
    DataError,
    LedgerError,
    MismatchError,
    ParameterError,
    PluginError,
    ShuffledpError,
    UnsupportedError,
    WireError,
)
from shuffledp.core.privacy import Guarantee, Model, Neighbours, Profile
from shuffledp.core.protocol import (
    Accountant,
    Cost,
    Crowd,
    Device,
    Mechanism,
    Promise,
    ShuffleProtocol,
)
from shuffledp.core.randomizer import Messages, Randomizer, Shuffled, WordSource, randomize, shuffle
from shuffledp.core.task import Task
from shuffledp.numerics.entropy import SecureWords, SeededWords

if TYPE_CHECKING:
    from shuffledp import (
        accounting,
        audit,
        engine,
        inference,
        ledger,
        live,
        mechanisms,
        planner,
        protocols,
        questions,
        show,
        tasks,
    )
    from shuffledp.accounting.amplify import (
        amplify,
        amplify_lower,
        calibrate,
        profile,
        smallest_n,
    )
    from shuffledp.accounting.compose import compose, compose_renyi
    from shuffledp.accounting.explain import explain
    from shuffledp.core.domain import Answers, Bins, Cells
    from shuffledp.core.texts import Keys, Texts
    from shuffledp.engine.codes import OnInvalid
    from shuffledp.engine.columns import categories_of, open_column
    from shuffledp.engine.files import headcount, run_file
    from shuffledp.engine.formats import Files
    from shuffledp.engine.local import run, run_counts
    from shuffledp.engine.messages import randomize_file, tally_file
    from shuffledp.engine.tallies import read_tally, write_tally
    from shuffledp.inference.complexity import sample_complexity
    from shuffledp.inference.learning import learn
    from shuffledp.inference.uniformity import identity_test, uniformity_test
    from shuffledp.lab import samples
    from shuffledp.planner.choice import count, histogram, mean, sum, words
    from shuffledp.planner.growth import growth_table, survey
    from shuffledp.planner.local_bound import local_lower_bound
    from shuffledp.planner.plans import Plan, plan
    from shuffledp.protocols import make
    from shuffledp.questions import Question, Survey, SurveyAnswer, SurveyPlan
    from shuffledp.questions.answer import Answer
    from shuffledp.questions.asking import ask

__all__ = [
    "Accountant",
    "Analyzer",
    "Answer",
    "Answers",
    "Bins",
    "Bits",
    "BudgetError",
    "Categories",
    "Cells",
    "Cost",
    "Crowd",
    "Curve",
    "DataError",
    "Device",
    "Domain",
    "ErrorLaw",
    "Estimate",
    "Files",
    "Guarantee",
    "Integers",
    "Interval",
    "Keys",
    "LedgerError",
    "Mechanism",
    "Messages",
    "MismatchError",
    "Model",
    "Neighbours",
    "Number",
    "OnInvalid",
    "ParameterError",
    "Picture",
    "Plan",
    "PluginError",
    "PostProcessed",
    "Profile",
    "Promise",
    "Question",
    "Randomizer",
    "Reals",
    "SecureWords",
    "SeededWords",
    "ShuffleProtocol",
    "Shuffled",
    "ShuffledpError",
    "Survey",
    "SurveyAnswer",
    "SurveyPlan",
    "Tally",
    "Task",
    "Texts",
    "UnsupportedError",
    "WireError",
    "WordSource",
    "__version__",
    "accounting",
    "amplify",
    "amplify_lower",
    "ask",
    "audit",
    "calibrate",
    "categories_of",
    "compose",
    "compose_renyi",
    "count",
    "engine",
    "explain",
    "growth_table",
    "headcount",
    "histogram",
    "identity_test",
    "inference",
    "learn",
    "ledger",
    "live",
    "local_lower_bound",
    "make",
    "mean",
    "mechanisms",
    "open_column",
    "plan",
    "planner",
    "profile",
    "protocols",
    "questions",
    "randomize",
    "randomize_file",
    "read_tally",
    "run",
    "run_counts",
    "run_file",
    "sample_complexity",
    "samples",
    "show",
    "shuffle",
    "smallest_n",
    "sum",
    "survey",
    "tally_file",
    "tasks",
    "uniformity_test",
    "words",
    "write_tally",
]

# What needs the protocols and the accountant is imported when it is first used: there are many, and
# a command line that only wants to print its help should not wait for them.
if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "accounting.amplify": "amplify amplify_lower calibrate profile smallest_n",
            "planner.choice": "count histogram mean sum words",
            "engine.columns": "categories_of open_column",
            "engine.formats": "Files",
            "engine.files": "headcount run_file",
            "engine.codes": "OnInvalid",
            "accounting.explain": "explain",
            "engine.messages": "randomize_file tally_file",
            "engine.tallies": "read_tally write_tally",
            "questions.answer": "Answer",
            "core.domain": "Answers Bins Cells",
            "core.texts": "Keys Texts",
            "questions.asking": "ask",
            "questions": "Question Survey SurveyAnswer SurveyPlan",
            "accounting.compose": "compose compose_renyi",
            "protocols": "make",
            "planner.plans": "Plan plan",
            "inference.learning": "learn",
            "engine.local": "run run_counts",
            "inference.complexity": "sample_complexity",
            "planner.growth": "growth_table survey",
            "planner.local_bound": "local_lower_bound",
            "inference.uniformity": "identity_test uniformity_test",
        },
        modules=(
            "accounting",
            "audit",
            "engine",
            "inference",
            "lab.samples",
            "ledger",
            "live",
            "mechanisms",
            "planner",
            "protocols",
            "questions",
            "show",
            "tasks",
        ),
    )


def __dir__() -> list[str]:
    return __all__
