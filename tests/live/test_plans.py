"""Plans in full: of one survey each, what is chosen, what is promised, how large the errors are, and what is said of it.

Most numbers here are those that the planner found when this was written: whoever changes them on purpose writes down
the new ones (`python -m live.test_plans` prints them), and looks at whether errors became larger.
"""

import math
from functools import cache

import pytest

import live_support as live
from shuffledp.live.design import choose_protocols, compare_noise, foresee_error, measure_influence

WAY = {"task": "histogram", "categories": ["a", "b", "c", "d", "e"]}
HOME = {"task": "count"}
AGE = {"task": "mean", "lower": 0, "upper": 120}
GIFTS = {"task": "sum", "lower": 0, "upper": 10}
HALF = {"task": "quantiles", "lower": 0, "upper": 30}
PART = {"task": "median", "lower": 0.0, "upper": 1.5}
WORDS = {"task": "words", "alphabet": "letters", "max_length": 5}
TRUSTED = {"local_epsilon": "none", "trust_the_shuffler": True}
SERVERS, DEVICES = {"noise": "servers"}, {"noise": "devices"}


def towns(count):
    return {"task": "histogram", "categories": [str(each) for each in range(count)]}


SURVEYS = {
    "a count": ({"home": HOME}, {"people": 400, **DEVICES}),
    "two of different weight": ({"home": {**HOME, "weight": 2}, "age": AGE}, {"people": 3000, **DEVICES}),
    "one random question": ({"home": HOME, "way": WAY, "age": AGE}, {"people": 900, "one_question": True, **DEVICES}),
    "one random question, unasked": ({"home": HOME, "way": WAY, "age": AGE}, {"people": 9000, **DEVICES}),
    "every question, said so": ({"home": HOME, "way": WAY, "age": AGE}, {"people": 9000, "one_question": False, **DEVICES}),
    "different weights are not drawn": ({"home": {**HOME, "weight": 2}, "way": WAY}, {"people": 9000, **DEVICES}),
    "several reports are not drawn": ({"home": HOME, "way": WAY}, {"people": 9000, "windows": 2, "reports_per_device": 2, **DEVICES}),
    "several reports apart are": ({"home": HOME, "way": WAY}, {"people": 9000, "windows": 2, "reports_per_device": 2, "composed": False, **DEVICES}),
    "a small crowd": ({"way": WAY}, {"people": 60, "min_batch": 40, **DEVICES}),
    "a dishonest crowd": ({"way": WAY}, {"people": 200, "honest": 0.3, **DEVICES}),
    "four reports": ({"way": WAY, "home": HOME}, {"people": 2000, "windows": 4, "reports_per_device": 4, "local_epsilon": 2, **DEVICES}),
    "a tree": ({"half": HALF}, {"people": 3000, **DEVICES}),
    "a tree of cells": ({"part": PART}, {"people": 3000, **DEVICES}),
    "words": ({"w": WORDS}, {"people": 50_000}),
    "words beside a count": ({"w": WORDS, "home": HOME}, {"people": 200_000}),
    "numbers by group": ({"by": {**AGE, "by": "way", "groups": ["x", "y", "z"]}}, {"people": 3000, **DEVICES}),
    "whichever is better for few": ({"way": WAY}, {"people": 80}),
    "whichever is better for many": ({"way": WAY}, {"people": 100_000}),
    "no floor": ({"way": WAY, "home": HOME}, {"people": 80, **TRUSTED}),
    "servers and a floor": ({"way": WAY, "home": {**HOME, "weight": 3}}, {"people": 800, **SERVERS}),
    "servers, one random question": ({"way": WAY, "home": HOME}, {"people": 800, "one_question": True, **SERVERS}),
    "servers, one unasked": ({"way": WAY, "home": HOME}, {"people": 20_000, **SERVERS}),
    "servers and numbers": ({"age": AGE, "gifts": {**GIFTS, "weight": 2}}, {"people": 1500, **SERVERS}),
    "servers and one number": ({"age": AGE}, {"people": 2500, **TRUSTED}),
    "servers and a tree": ({"half": HALF}, {"people": 2000, **TRUSTED}),
    "servers and cells": ({"part": PART}, {"people": 2000, **TRUSTED}),
    "servers and cells with a floor": ({"part": PART, "half": HALF}, {"people": 700, **SERVERS}),
    "servers and points": ({"r": {"task": "cdf", "lower": 0, "upper": 99, "at": [17]}}, {"people": 5000, **SERVERS}),
    "servers and a variance": ({"v": {"task": "variance", "lower": 0, "upper": 50}}, {"people": 4000, **TRUSTED}),
    "servers and nine reports": ({"way": WAY}, {"people": 100, "windows": 9, "reports_per_device": 9, **TRUSTED}),
    "servers and nine reports apart": ({"way": WAY}, {"people": 100, "windows": 9, "reports_per_device": 9, "composed": False, **TRUSTED}),
    "servers and sums by group": ({"by": {**GIFTS, "by": "way", "groups": ["x", "y"]}}, {"people": 500, **TRUSTED}),
    "many categories": ({"town": towns(6000)}, {"people": 3000, **TRUSTED}),
    "many categories twice": ({"town": towns(6000), "home": HOME}, {"people": 3000, **TRUSTED}),
    "many categories in two reports": ({"town": towns(6000)}, {"people": 3000, "windows": 2, "reports_per_device": 2, **TRUSTED}),
    "many categories with a floor": ({"town": towns(300)}, {"people": 10_000, **SERVERS}),
    "many and few with a floor": ({"town": towns(300), "way": WAY}, {"people": 10_000, **SERVERS}),
    "64 categories are few": ({"town": towns(64)}, {"people": 10_000, **SERVERS}),
    "65 are many": ({"town": towns(65)}, {"people": 10_000, **SERVERS}),
    "bins": ({"b": {"task": "bins", "edges": [0, 18, 65]}}, {"people": 500}),
}  # fmt: skip

COMPARED = {
    "two of different weight", "words", "numbers by group", "whichever is better for few", "servers, one random question",
    "servers and numbers", "many categories", "servers and nine reports apart",
}  # fmt: skip
"""Of these it is also written down what the other noise would give, for which another plan is made."""


@cache
def plan(name):
    questions, collection = SURVEYS[name]
    content = {"epsilon": 1.0, "delta": 1e-8, "questions": questions, "collection": collection}
    survey, settings = live.read_tables(content)
    return survey, settings, choose_protocols(survey, settings)


def write(value):
    if isinstance(value, float):
        return f"{value:.5g}"
    return "-".join(map(write, value)) if isinstance(value, list) else str(value)


def describe(name):
    """What a plan is, in lines."""
    survey, settings, design = plan(name)
    pledge, people = design.pledge, settings.people
    lines = [
        f"{pledge.noise.value}, limited by {design.limited_by}; {write(pledge.epsilon)} / {write(pledge.local_epsilon)}; "
        f"{'one of' if pledge.one_question else 'all'} {len(design.questions)}; {design.sample(people)} of {people}; "
        f"error {foresee_error(design, people):.5g}; {design.measure_report(tokens=False)} bytes"
    ]
    for each in design.questions:
        said = {**each.protocol.parameters}
        shown = [
            write(said[key]) for key in sorted(said) if key not in ("word_bits", "seed", "task")
        ]
        lines.append(
            f"{each.name}: {each.protocol.name} {' '.join(shown)}; moves {measure_influence(each):.5g}"
        )
    lines.append(design.describe_influence())
    if name in COMPARED:
        lines.append(compare_noise(survey, settings, design))
    return lines


PLANS = {
    "a count": [
        "devices, limited by the promise; 0.9955 / 1.718; all 1; 400 of 400; error 0.025823; 104 bytes",
        "home: rr 1.7173; moves 1.4377",
        "One report can move an answer by up to 1.44 people",
    ],
    "two of different weight": [
        "devices, limited by the floor; 0.3733 / 3; all 2; 3000 of 3000; error 0.018979; 154 bytes",
        "home: rr 2; moves 1.313",
        "age: duchi 1 0 120 120; moves 2.164",
        "One report can move an answer by up to 4.33 people",
        "The devices add the noise: if all answers are equally frequent, standard errors are up to 1.9 % of the people, or of the "
        "range of a number; if the servers did, up to 1.99 % of the people, or of the range "
        "of a number.",
    ],
    "one random question": [
        "devices, limited by the promise; 0.9954 / 1.25; one of 3; 300 of 900; error 0.068209; "
        "105 bytes",
        "home: rr 1.2494; moves 1.8038",
        "way: krr 1.2494 5; moves 3.0094",
        "age: hybrid 1.2494 0 120 120; moves 3.3005",
        "One report can move an answer by up to 9.91 people",
    ],
    "one random question, unasked": [
        "devices, limited by the floor; 0.8721 / 3; one of 3; 3000 of 9000; error "
        "0.0095439; 105 bytes",
        "home: rr 3; moves 1.1048",
        "way: krr 3 5; moves 1.262",
        "age: hybrid 3 0 120 120; moves 1.5734",
        "One report can move an answer by up to 4.73 people",
    ],
    "every question, said so": [
        "devices, limited by the floor; 0.129 / 3; all 3; 9000 of 9000; error 0.015937; 204 bytes",
        "home: rr 1; moves 2.164",
        "way: krr 1 5; moves 3.9099",
        "age: duchi 1 0 120 120; moves 2.164",
        "One report can move an answer by up to 11.8 people",
    ],
    "different weights are not drawn": [
        "devices, limited by the floor; 0.1979 / 3; all 2; 9000 of 9000; error 0.015937; 154 bytes",
        "home: rr 2; moves 1.313",
        "way: krr 1 5; moves 3.9099",
        "One report can move an answer by up to 7.82 people",
    ],
    "several reports are not drawn": [
        "devices, limited by the floor; 0.2535 / 3; all 2; 9000 of 9000; error "
        "0.0093661; 154 bytes",
        "home: rr 1.5; moves 1.5744",
        "way: krr 1.5 5; moves 2.4361",
        "One report can move an answer by up to 4.88 people",
    ],
    "several reports apart are": [
        "devices, limited by the floor; 0.6657 / 3; one of 2; 4500 of 9000; error "
        "0.006327; 104 bytes",
        "home: rr 3; moves 1.1048",
        "way: krr 3 5; moves 1.262",
        "One report can move an answer by up to 2.53 people",
    ],
    "a small crowd": [
        "devices, limited by the promise; 0.9994 / 1.275; all 1; 60 of 60; error 0.14274; 104 bytes",
        "way: krr 1.2748 5; moves 2.9394",
        "One report can move an answer by up to 2.94 people",
    ],
    "a dishonest crowd": [
        "devices, limited by the promise; 0.9896 / 1.207; all 1; 200 of 200; error 0.084085; 104 "
        "bytes",
        "way: krr 1.206 5; moves 3.1365",
        "One report can move an answer by up to 3.14 people",
    ],
    "four reports": [
        "devices, limited by the floor; 0.4651 / 2; all 2; 2000 of 2000; error 0.033808; 154 bytes",
        "way: krr 1 5; moves 3.9099",
        "home: rr 1; moves 2.164",
        "One report can move an answer by up to 7.82 people",
    ],
    "a tree": [
        "devices, limited by the floor; 0.6132 / 3; all 1; 3000 of 3000; error 0.035639; 104 bytes",
        "half: local_tree 0.5 3 0 3-3-2-2 None 30; moves 21.417",
        "One report can move an answer by up to 21.5 people",
    ],
    "a tree of cells": [
        "devices, limited by the floor; 0.6132 / 3; all 1; 3000 of 3000; error 0.047895; 105 bytes",
        "part: local_tree 0.5 3 0 3-3-2-2-2-2 128 1.5; moves 37.751",
        "One report can move an answer by up to 37.8 people",
    ],
    "words": [
        "devices, limited by the floor; 0.1418 / 3; all 1; 50000 of 50000; error 0.002843; 106 bytes",
        "w: local_prefixes letters None 16 3 20-24 5 7250-9134; moves inf",
        "By how many people one report can move w is not known",
        "The devices add the noise: if all answers are equally frequent, standard errors are up to 143 people. The servers cannot add it: question 'w': "
        'words cannot have noise of the servers, since nobody can list their bins: write noise = "devices".',
    ],
    "words beside a count": [
        "devices, limited by the floor; 0.03575 / 3; all 2; 200000 of 200000; error 0.0037155; "
        "156 bytes",
        "w: local_prefixes letters None 4 1.5 20-24 5 7250-9134; moves inf",
        "home: rr 1.5; moves 1.5744",
        "One report can move an answer by up to 3.15 people (w: not known)",
    ],
    "numbers by group": [
        "devices, limited by the floor; 0.7683 / 3; all 1; 3000 of 3000; error 0.0058038; 104 bytes",
        "by: krr 3 6; moves 1.3144",
        "One report can move an answer by up to 1.32 people",
        "The devices add the noise: if all answers are equally frequent, standard errors are up to 0.581 % of the people, or of the range "
        "of a number; if the servers did, up to 0.601 % of the people, or of the range of a number.",
    ],
    "whichever is better for few": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 80 of 80; error 0.065105; 104 bytes",
        "way: server_noise 3 5 32 1 0.56346; moves 1.262",
        "One report can move an answer by up to 1.27 people",
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 5.21 people; if the "
        "devices did, up to 9.89 people.",
    ],
    "whichever is better for many": [
        "devices, limited by the floor; 0.1203 / 3; all 1; 100000 of 100000; error "
        "0.00097373; 104 bytes",
        "way: krr 3 5; moves 1.262",
        "One report can move an answer by up to 1.27 people",
    ],
    "no floor": [
        "servers, limited by the servers' noise; 1 / inf; all 2; 80 of 80; error 0.074654; 154 bytes",
        "way: server_noise 5 55 1 0.33333; moves 1",
        "home: server_noise 55 1 0.33333; moves 1",
        "One report can move an answer by up to 2 people",
    ],
    "servers and a floor": [
        "servers, limited by the servers' noise; 1 / 3; all 2; 800 of 800; error 0.07919; 154 "
        "bytes",
        "way: server_noise 0.75 5 27 1 0.6195; moves 5.4763",
        "home: server_noise 2.25 24 1 0.75367; moves 1.2356",
        "One report can move an answer by up to 11 people",
    ],
    "servers, one random question": [
        "servers, limited by the servers' noise; 1 / 3; one of 2; 800 of 800; error "
        "0.029213; 104 bytes",
        "way: server_noise 3 5 32 2 0.56346; moves 2.524",
        "home: server_noise 3 16 2 1.1269; moves 2.2096",
        "One report can move an answer by up to 2.53 people",
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 23.4 people; if the "
        "devices did, up to 38.1 people.",
    ],
    "servers, one unasked": [
        "servers, limited by the servers' noise; 1 / 3; one of 2; 20000 of 20000; error "
        "0.0057711; 104 bytes",
        "way: server_noise 3 5 32 2 0.56346; moves 2.524",
        "home: server_noise 3 16 2 1.1269; moves 2.2096",
        "One report can move an answer by up to 2.53 people",
    ],
    "servers and numbers": [
        "servers, limited by the servers' noise; 1 / 3; all 2; 1500 of 1500; error 0.02869; 154 "
        "bytes",
        "age: server_noise 1 0 39 1 0.43824 1 120; moves 2.164",
        "gifts: server_noise 2 0 33 1 0.54782 2 10; moves 1.4696",
        "One report can move an answer by up to 4.33 people",
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 2.87 % of the people, or of the "
        "range of a number; if the devices did, up to 2.69 % of the people, or of the range of a "
        "number.",
    ],
    "servers and one number": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 2500 of 2500; error "
        "0.0019464; 104 bytes",
        "age: server_noise 0 36 1 0.5 9 120; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "servers and a tree": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 2000 of 2000; error 0.0044967; "
        "104 bytes",
        "half: server_noise 0.5 0 36 1 0.5 30; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "servers and cells": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 2000 of 2000; error 0.0078818; "
        "104 bytes",
        "part: server_noise 0.5 0 36 1 0.5 64 1.5; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "servers and cells with a floor": [
        "servers, limited by the servers' noise; 1 / 3; all 2; 700 of 700; error "
        "0.065663; 154 bytes",
        "part: server_noise 0.5 1.5 0 42 1 0.40663 8 1.5; moves 3.2977",
        "half: server_noise 0.5 1.5 0 42 1 0.40663 8 30; moves 3.2977",
        "One report can move an answer by up to 6.6 people",
    ],
    "servers and points": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 5000 of 5000; error 0.020052; 104 "
        "bytes",
        "r: server_noise 17 3 0 31 1 0.56346 16 99; moves 1.8383",
        "One report can move an answer by up to 1.84 people",
    ],
    "servers and a variance": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 4000 of 4000; error "
        "0.0026282; 104 bytes",
        "v: server_noise 0 36 1 0.5 50; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "servers and nine reports": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 100 of 100; error 0.35995; "
        "104 bytes",
        "way: server_noise 5 320 1 0.055556; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "servers and nine reports apart": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 100 of 100; error "
        "0.039586; 104 bytes",
        "way: server_noise 5 36 1 0.5; moves 1",
        "One report can move an answer by up to 1 person",
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 3.96 people; if the "
        "devices did, with the usual floor, up to 10.3 people.",
    ],
    "servers and sums by group": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 500 of 500; error "
        "0.0079173; 104 bytes",
        "by: server_noise 4 36 1 0.5; moves 1",
        "One report can move an answer by up to 1 person",
    ],
    "many categories": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 3000 of 3000; error 0.0037617; 109 "
        "bytes",
        "town: server_noise 6000 63640 1 32 16 64; moves 1.001",
        "One report can move an answer by up to 1.01 people",
        "The servers add the noise: if all answers are equally frequent, standard errors are up to 11.3 people; if the devices did, with "
        "the usual floor, up to 60.4 people.",
    ],
    "many categories twice": [
        "servers, limited by the servers' noise; 1 / inf; all 2; 3000 of 3000; error "
        "0.0054155; 164 bytes",
        "town: server_noise 6000 61963 1 32 14 34; moves 1.0021",
        "home: server_noise 55 1 0.36252; moves 1",
        "One report can move an answer by up to 2.01 people",
    ],
    "many categories in two reports": [
        "servers, limited by the servers' noise; 1 / inf; all 1; 3000 of 3000; error "
        "0.005004; 109 bytes",
        "town: server_noise 6000 63164 1 32 15 57; moves 1.0017",
        "One report can move an answer by up to 1.01 people",
    ],
    "many categories with a floor": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 10000 of 10000; error "
        "0.0052216; 109 bytes",
        "town: server_noise 3 300 769 1 32 9 35; moves 1.8961",
        "One report can move an answer by up to 1.9 people",
    ],
    "many and few with a floor": [
        "servers, limited by the servers' noise; 1 / 3; one of 2; 10000 of 10000; error "
        "0.008073; 109 bytes",
        "town: server_noise 3 300 697 2 32 9 39; moves 3.6541",
        "way: server_noise 3 5 32 2 0.56346; moves 2.524",
        "One report can move an answer by up to 3.66 people",
    ],
    "64 categories are few": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 10000 of 10000; error 0.005518; "
        "104 bytes",
        "town: server_noise 3 64 29 1 0.56346; moves 4.3533",
        "One report can move an answer by up to 4.36 people",
    ],
    "65 are many": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 10000 of 10000; error 0.0052671; 109 "
        "bytes",
        "town: server_noise 3 65 769 1 32 9 35; moves 1.8961",
        "One report can move an answer by up to 1.9 people",
    ],
    "bins": [
        "servers, limited by the servers' noise; 1 / 3; all 1; 500 of 500; error 0.011141; 104 bytes",
        "b: server_noise 3 2 16 1 1.1269; moves 1.1048",
        "One report can move an answer by up to 1.11 people",
    ],
}


@pytest.mark.parametrize("name", SURVEYS)
def test_a_plan_is_the_one_that_was_written_down(name):
    """And, whatever it is: the floors of a report add up to no more than is said, and the promise is no more than was asked."""
    assert describe(name) == PLANS[name]
    _, settings, design = plan(name)
    floors = [each.epsilon0 for each in design.questions]
    floor = max(floors) if design.pledge.one_question else math.fsum(floors)
    assert floor <= design.pledge.local_epsilon <= settings.floor
    assert design.pledge.epsilon <= 1.0
    assert design.pledge.delta == 1e-8
    if math.isfinite(floor):
        assert design.pledge.local_epsilon <= floor * 1.001


if __name__ == "__main__":
    import pprint

    pprint.pp({name: describe(name) for name in SURVEYS}, width=115)
