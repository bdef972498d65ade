"""The budget options of a command, and the charge of its release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.core.privacy import up

if TYPE_CHECKING:
    from shuffledp.ledger import Budget, Entry, Ledger

__all__ = [
    "BudgetDeltaOption",
    "BudgetEpsilonOption",
    "BudgetReserveOption",
    "DatasetOption",
    "LedgerOption",
    "Spending",
]

_PANEL = "Budget"
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        help="Charge the release to this ledger (.json, .sqlite).", rich_help_panel=_PANEL
    ),
]
BudgetEpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="Epsilon that all releases may spend together; state it once.", rich_help_panel=_PANEL
    ),
]
BudgetDeltaOption = Annotated[
    float | None,
    typer.Option(
        help="Delta that all releases may spend together; state it once.", rich_help_panel=_PANEL
    ),
]
BudgetReserveOption = Annotated[
    float,
    typer.Option(
        help="Part of the budget's delta set aside for composing many small releases.",
        rich_help_panel=_PANEL,
    ),
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the data set in the ledger: whose budget to charge.", rich_help_panel=_PANEL
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger, and the budget that the first release states."""

    ledger: Ledger
    budget: Budget | None
    dataset: str

    @classmethod
    def of(
        cls,
        path: Path | None,
        *,
        epsilon: float | None,
        delta: float | None,
        reserve: float,
        dataset: str | None,
        seed: int | None,
        categories_from_data: bool,
    ) -> Spending | None:
        """What the options describe; None without a ledger. Reads the ledger, so damage shows now."""
        if path is None:
            if epsilon is not None or delta is not None or reserve or dataset is not None:
                raise sdp.UnsupportedError(
                    "--budget-epsilon, --budget-delta, --budget-reserve and --dataset need --ledger"
                )
            return None
        if seed is not None:
            raise sdp.UnsupportedError(
                "--seed protects nobody, so a ledger cannot charge it: leave out one of them"
            )
        if categories_from_data:
            raise sdp.UnsupportedError(
                "--categories-from-data releases which categories occur, and no epsilon covers that, so a "
                "ledger cannot charge it: declare the categories with --categories or --categories-file"
            )
        from shuffledp.ledger import Budget, Ledger
        from shuffledp.ledger.ledger import DATASET

        if (epsilon is None) != (delta is None):
            raise sdp.UnsupportedError("--budget-epsilon and --budget-delta belong together")
        if reserve and epsilon is None:
            raise sdp.UnsupportedError("--budget-reserve needs --budget-epsilon and --budget-delta")
        budget = None
        if epsilon is not None and delta is not None:
            budget = Budget(epsilon=epsilon, delta=delta, reserve=reserve)
        name = DATASET if dataset is None else dataset
        spending = cls(ledger=Ledger(path), budget=budget, dataset=name)
        spending._check_open()
        return spending

    def _check_open(self) -> None:
        self.ledger.check_writable()
        if self.dataset not in self.ledger.datasets and self.budget is None:
            raise sdp.LedgerError(
                f"{self.ledger.path} has no budget for data set {self.dataset!r} yet: "
                "give --budget-epsilon and --budget-delta with the first release"
            )

    def check(self, guarantee: sdp.Guarantee) -> None:
        """Refuse now what could not be charged later."""
        self.ledger.check(guarantee, dataset=self.dataset, budget=self.budget)

    def charge(self, guarantee: sdp.Guarantee, note: dict[str, Any]) -> Entry:
        """Write the release down. Call it before anybody sees the answer."""
        return self.ledger.charge(guarantee, dataset=self.dataset, budget=self.budget, note=note)

    def released(self, entry: Entry) -> str:
        """Write down that it is out; returns what is spent, and the head of the ledger."""
        head = self.ledger.mark_released(entry)
        total, budget = self.ledger.spent(self.dataset), self.ledger.budget(self.dataset)
        return (
            f"Spent of data set {self.dataset!r}: epsilon {up(total.epsilon, 6)} of "
            f"{budget.epsilon:.6g}, delta {up(total.delta, 3)} of {budget.delta:.3g}, "
            f"in {total.releases} release{'s' * (total.releases != 1)}.\n"
            f"Head of the ledger, to note elsewhere: {head}"
        )
