"""The budget of a data set: every release is written down, and one too many is refused."""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.ledger.budget import Budget, Charge, Entry, Spent
    from shuffledp.ledger.ledger import Ledger, Spending, Verified

__all__ = ["DATASET", "Budget", "Charge", "Entry", "Ledger", "Spending", "Spent", "Verified"]

DATASET = "data"
"""The data set that is meant if none is named: counting too much together is the safe mistake."""

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "budget": "Budget Charge Entry Spent",
            "ledger": "Ledger Spending Verified",
        },
    )
