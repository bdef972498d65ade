"""`shuffledp run --model local`: the planner chooses the protocol."""

import json

import pytest

import shuffledp as sdp

WAYS = "car,bicycle,bus,train,on foot,tram,at home,motorcycle,scooter,ferry"


def answer(result):
    """The JSON object of a run that went well."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("words", "question", "protocol"),
    [
        (("count", "--column", "home", "--epsilon", 1), {}, "rr"),
        (
            ("histogram", "--column", "way", "--categories", WAYS, "--epsilon", 0.2),
            {"k": 10},
            "subset_selection",
        ),
        (
            ("histogram", "--column", "minutes", "--lower", 0, "--upper", 599, "--epsilon", 3),
            {"k": 600},
            "symmetric_unary",
        ),
        (
            ("mean", "--column", "minutes", "--lower", 0, "--upper", 599, "--epsilon", 1),
            {"lower": 0.0, "upper": 599.0, "steps": 599},
            "hybrid",
        ),
        (
            ("mean", "--column", "minutes", "--lower", 0, "--upper", 599, "--epsilon", 4),
            {"lower": 0.0, "upper": 599.0, "steps": 599},
            "hybrid",
        ),
    ],
)
def test_the_planner_chooses_the_local_protocol(shuffledp, people, words, question, protocol):
    task, *rest = words
    found = answer(shuffledp("run", task, people, *rest, "--model", "local", "--json"))
    planned = sdp.plan(
        task, n=3000, epsilon=found["epsilon"], delta=0.0, models="local", **question
    )
    assert planned.on_file.protocol == found["protocol"] == protocol


def test_a_new_local_protocol_is_picked_up(shuffledp, people, monkeypatch):
    """One that is registered and better is chosen, without a name in the command."""
    words = ("run", "histogram", people, "--column", "way", "--categories", WAYS)
    words += ("--epsilon", 4, "--model", "local", "--json")
    with monkeypatch.context() as patch:
        others = {name: task for name, task in sdp.protocols.REGISTRY.items() if name != "krr"}
        patch.setattr(sdp.protocols, "REGISTRY", others)
        assert answer(shuffledp(*words))["protocol"] == "subset_selection"
    assert answer(shuffledp(*words))["protocol"] == "krr"
