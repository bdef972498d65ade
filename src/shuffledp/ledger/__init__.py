"""The budget of a data set: every release is written down, and one too many is refused."""

from shuffledp.ledger.budget import Budget, Spent
from shuffledp.ledger.events import Entry
from shuffledp.ledger.ledger import Ledger, Verified
from shuffledp.ledger.spending import Spending

__all__ = ["Budget", "Entry", "Ledger", "Spending", "Spent", "Verified"]
