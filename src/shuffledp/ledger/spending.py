"""One release and the ledger that it is charged to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shuffledp.core.errors import LedgerError
from shuffledp.core.privacy import Guarantee, up
from shuffledp.ledger import DATASET
from shuffledp.ledger.budget import Budget
from shuffledp.ledger.events import Entry
from shuffledp.ledger.ledger import Ledger

__all__ = ["Spending"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger, the data set whose budget is spent, and the budget that the first release states."""

    ledger: Ledger
    budget: Budget | None = None
    dataset: str = DATASET

    def __post_init__(self) -> None:
        self.ledger.check_writable()
        if self.dataset not in self.ledger.datasets and self.budget is None:
            raise LedgerError(
                f"{self.ledger.path} has no budget for data set {self.dataset!r} yet: "
                "state the budget (its epsilon and delta) with the first release"
            )

    def check(self, guarantee: Guarantee) -> None:
        """Refuse now what could not be charged later."""
        self.ledger.check(guarantee, dataset=self.dataset, budget=self.budget)

    def charge(self, guarantee: Guarantee, note: Mapping[str, Any]) -> Entry:
        """Write the release down. Call it before anybody sees the answer."""
        return self.ledger.charge(
            guarantee, dataset=self.dataset, budget=self.budget, note=dict(note)
        )

    def mark_released(self, entry: Entry) -> str:
        """Write down that it is out; returns what is spent, and the head of the ledger."""
        head = self.ledger.mark_released(entry)
        total, budget = self.ledger.spent(self.dataset), self.ledger.budget(self.dataset)
        return (
            f"Spent of data set {self.dataset!r}: epsilon {up(total.epsilon, 6)} of "
            f"{budget.epsilon:.6g}, delta {up(total.delta, 3)} of {budget.delta:.3g}, "
            f"in {total.releases} release{'s' * (total.releases != 1)}.\n"
            f"Head of the ledger, to note elsewhere: {head}"
        )
