"""Guarantees from parameters: every delta is an upper bound after truncation and rounding."""

from shuffledp.accounting.amplify import BinaryOutput, Bound, ShuffledProfile
from shuffledp.accounting.closed_forms import CLOSED_FORMS, ClosedForm, Covers
from shuffledp.accounting.rules import compose_advanced, compose_basic, group_privacy, replace_one

__all__ = [
    "CLOSED_FORMS",
    "BinaryOutput",
    "Bound",
    "ClosedForm",
    "Covers",
    "ShuffledProfile",
    "compose_advanced",
    "compose_basic",
    "group_privacy",
    "replace_one",
]
