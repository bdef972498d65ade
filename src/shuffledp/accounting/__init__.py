"""Guarantees from parameters: every delta is an upper bound after truncation and rounding."""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.accounting.amplify import Bound, ShuffledProfile
    from shuffledp.accounting.blanket import Blanket, Blanketed
    from shuffledp.accounting.closed_forms import (
        CLOSED_FORMS,
        BoundComparison,
        BoundLine,
        ClosedForm,
        Covers,
        Formula,
    )
    from shuffledp.accounting.rules import (
        compose_advanced,
        compose_basic,
        group_privacy,
        replace_one,
    )

__all__ = [
    "CLOSED_FORMS",
    "Blanket",
    "Blanketed",
    "Bound",
    "BoundComparison",
    "BoundLine",
    "ClosedForm",
    "Covers",
    "Formula",
    "ShuffledProfile",
    "compose_advanced",
    "compose_basic",
    "group_privacy",
    "replace_one",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "amplify": "Bound ShuffledProfile",
            "blanket": "Blanket Blanketed",
            "closed_forms": "CLOSED_FORMS BoundComparison BoundLine ClosedForm Covers Formula",
            "rules": "compose_advanced compose_basic group_privacy replace_one",
        },
    )
