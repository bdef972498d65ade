"""What the tests share."""

from contract.examples import examples_of
from shuffledp.testing import ALPHA, all_tapes, enumerate_law

__all__ = ["ALPHA", "all_tapes", "any_protocol", "enumerated_law"]

enumerated_law = enumerate_law


def any_protocol(spec):
    """The first example of a registered protocol, local if it has one."""
    examples = examples_of(spec)
    if spec.make_local:
        return spec.make_local(**examples.local[0])
    return spec.make(**examples.shuffled[0])
