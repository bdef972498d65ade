"""Guarantees from parameters: every delta is an upper bound after truncation and rounding."""

from shuffledp.accounting.amplify import BinaryOutput, Bound, ShuffledProfile
from shuffledp.accounting.closed_forms import CLOSED_FORMS, ClosedForm, Covers

__all__ = ["CLOSED_FORMS", "BinaryOutput", "Bound", "ClosedForm", "Covers", "ShuffledProfile"]
