"""The DuckDB engine: streams a column of any size through memory of constant size.

Each thread of a pool turns pieces of a hundred thousand rows into codes, randomizes and tallies them.
Nothing of a piece is left when its tally has been added.
"""

from dataclasses import dataclass

from shuffledp.core.analyzer import Tally
from shuffledp.core.errors import DataError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.coding import Coded
from shuffledp.engine.job import Counted, Headcount, Job, added
from shuffledp.engine.memory import keep_freed_memory, tally_codes
from shuffledp.engine.pieces import Piece, coded, count_users, parallel
from shuffledp.engine.tapes import Tapes

__all__ = ["DuckDB"]


@dataclass(frozen=True, slots=True)
class DuckDB:
    """Files on this machine, of any size."""

    def headcount(self, job: Job) -> Headcount:
        return count_users(job)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Counted:
        keep_freed_memory()
        randomizer, analyzer = protocol.randomizer, protocol.analyzer
        tapes = Tapes(randomizer, rng)

        def counted(piece: Piece) -> tuple[Coded, Tally | None]:
            some = coded(job.coder, piece)
            source = tapes.at(piece.row)
            return some, tally_codes(randomizer, analyzer, some.codes, source, some.kept)

        rows, invalid = 0, added(())
        total: Tally | None = None
        with parallel(counted, job) as parts:
            for some, part in parts:
                rows += len(some.codes)
                invalid = added((invalid, some.invalid()))
                if part is not None:
                    total = part if total is None else total + part
        if total is None:
            raise DataError(f"column {job.column.name!r} has no valid value")
        tapes.finish(rows)
        return Counted(tally=total, rows=rows, invalid=invalid)
