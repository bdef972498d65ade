"""What plans of live surveys state and promise stays as it is (see number_table.py).

An expression plans a survey and gives everything about it that is a number: the promise, the floor, the protocols with
their parameters, the dummies, the foreseen errors, and the made-up result that the operator is shown.
"""

import re
from pathlib import Path

import pytest

import live_support as live
from number_table import NumberTable, flatten
from shuffledp.live.design import choose_protocols, foresee_error
from shuffledp.live.serve.operator import Planner

NUMBER = re.compile(r"\d+(?:[,.]\d+)*(?:e-?\d+)?")
WAY = {"task": "histogram", "categories": ["car", "bus", "foot"]}
HOME = {"task": "count"}
PET = {"task": "count", "asked": {"kind": "several", "part_of": {"name": "pets", "text": "Which?"}}}
AGE = {"lower": 0, "upper": 120}
GROUPS = {"by": "way", "groups": ["car", "bus"]}
TRUSTED = {"local_epsilon": "none", "trust_the_shuffler": True}
WORDS = {"task": "words", "alphabet": "letters", "max_length": 4}


def ask(task, **more):
    return {"task": task, **AGE, **more}


def many(k):
    return {"task": "histogram", "categories": [str(each) for each in range(k)]}


def read(questions, epsilon=1.0, delta=1e-6, **collection):
    asked = questions if isinstance(questions, list) else [questions]
    named = {f"q{place}": each for place, each in enumerate(asked)}
    collection = {"people": 600, **collection}
    return {"epsilon": epsilon, "delta": delta, "questions": named, "collection": collection}


def _list_parameters(parameters):
    """All numbers but the seed of a hash, which is drawn anew for each plan."""
    known = [value for name, value in parameters.items() if name != "seed"]
    return [value for value in known if isinstance(value, int | float)]


def plan(*given, **more):
    survey, settings = live.read_tables(read(*given, **more))
    design = choose_protocols(survey, settings)
    pledge, people = design.pledge, settings.people
    return [
        [pledge.epsilon, pledge.delta, pledge.local_epsilon, pledge.guess, pledge.one_question],
        [design.served, design.influence, design.sample(people), foresee_error(design, people)],
        [design.measure_report(tokens=tokens) for tokens in (False, True)],
        [count for _, count in sorted(design.find_sight(people).items())],
        [
            _list_parameters(each.protocol.parameters)
            for each in design.questions
        ],
        [each.noise and each.noise.to_dict() for each in design.questions],
    ]  # fmt: skip


def preview(*given, error=None, **more):
    content = read(*given, **more) | ({} if error is None else {"error": error})
    shown = Planner().preview(content)
    said = [float(each.replace(",", "")) for each in NUMBER.findall(shown["compared"])]
    return [shown, said]


TABLE = NumberTable(
    path=Path(__file__).with_name("numbers.json"),
    names={
        "plan": plan, "preview": preview, "ask": ask, "many": many, "way": WAY, "home": HOME, "pet": PET,
        "words": WORDS, "groups": GROUPS, "trusted": TRUSTED,
    },
)  # fmt: skip


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, 1e-6)  # searches may end a little elsewhere on another machine


@pytest.mark.parametrize(("weights", "sampled"), [((1.0, None), True), ((2.0, 2.0), True), ((2.0, 1.0), False)])  # fmt: skip
def test_questions_of_equal_weight_may_be_asked_at_random(weights, sampled):
    """That is better here; of different weights, everybody is asked every question."""
    asked = [ask("mean"), HOME]
    given = {"noise": "devices", "people": 5000, "epsilon": 4.0}
    weighed = [{**each, "weight": weight} if weight else each for each, weight in zip(asked, weights, strict=True)]  # fmt: skip
    found = list(flatten(plan(weighed, **given)))
    assert bool(found[4]) is sampled
    if sampled:
        assert found == pytest.approx(list(flatten(plan(asked, **given))), rel=1e-12, nan_ok=True)


if __name__ == "__main__":
    TABLE.write()
