"""The public contract (shuffledp.testing) on every protocol of this package."""

import pytest

import shuffledp as sdp
from contract.examples import all_examples, examples_of
from shuffledp import testing
from shuffledp.protocols import PROTOCOLS

IN_PARTS = ("hashed_tree",)  # its tape is too long to enumerate: its own tests enumerate its levels


class TestByEnumeration(testing.ByEnumeration):
    examples = all_examples()


class TestBlankets(testing.Blankets):
    examples = all_examples()


class TestAtOrdinarySize(testing.AtOrdinarySize):
    examples = all_examples()


@pytest.mark.parametrize("spec", PROTOCOLS, ids=lambda spec: spec.name)
class TestEveryProtocol:
    def test_has_examples_for_each_of_its_models(self, spec):
        examples = examples_of(spec)
        assert examples.spec is spec
        assert bool(examples.local and examples.local_tiny) == (spec.make_local is not None)
        tiny = examples.shuffled_tiny or spec.name in IN_PARTS
        assert bool(examples.shuffled and tiny) == (spec.make is not None)

    def test_states_its_blanket_if_it_is_local(self, spec):
        for case in examples_of(spec).cases("local"):
            assert case.protocol.offers.blankets is not None

    def test_is_found_by_its_name(self, spec):
        assert sdp.protocols.spec(spec.name) is spec
        found = getattr(sdp.protocols, spec.name)
        assert spec in (found, getattr(found, "SPEC", None))


def test_every_line_of_the_registry_says_what_its_protocol_says():
    """They are read before the protocols are loaded."""
    assert {spec.name: spec.task for spec in PROTOCOLS} == sdp.protocols.REGISTRY


def test_names_are_unique():
    assert len({spec.name for spec in PROTOCOLS}) == len(PROTOCOLS)
