"""The table of engines that read files, and the two of them that hold everything in memory."""

from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Bools
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.coding import Coded
from shuffledp.engine.counts import Simulated
from shuffledp.engine.duckdb import DuckDB, coded, grouped, watched
from shuffledp.engine.job import Counted, Engine, Headcount, Job, added
from shuffledp.engine.memory import keep_freed_memory, tally_codes
from shuffledp.engine.spark import Spark
from shuffledp.engine.tapes import Tapes
from shuffledp.numerics.draws import NumpyDraws
from shuffledp.numerics.entropy import SecureWords

__all__ = ["ENGINES", "Counts", "Memory", "engine_named"]


_MOST_VALUES = 1 << 27  # a gigabyte of counts


@dataclass(frozen=True, slots=True)
class Memory:
    """Reads the whole column first, then randomizes it on one thread."""

    def headcount(self, job: Job) -> Headcount:
        return DuckDB().headcount(job)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Counted:
        parts = [coded(job.coder, piece) for piece in watched(job)]
        tapes = Tapes(protocol.randomizer, rng)
        keep_freed_memory()
        codes = np.concatenate([part.codes for part in parts] or [np.empty(0, dtype=np.int64)])
        source, kept = tapes.at(0), _kept(parts)
        total = tally_codes(protocol.randomizer, protocol.analyzer, codes, source, kept)
        if total is None:
            raise DataError(f"column {job.column.name!r} has no valid value")
        tapes.finish(len(codes))
        invalid = added(part.invalid() for part in parts)
        return Counted(tally=total, rows=len(codes), invalid=invalid)


def _kept(parts: list[Coded]) -> Bools | None:
    if all(part.kept is None for part in parts):
        return None
    return np.concatenate(
        [
            np.ones(len(part.codes), dtype=np.bool_) if part.kept is None else part.kept
            for part in parts
        ]
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts the values with a group-by, then draws the tally from its law: no messages are made.

    A simulation by whoever sees the exact counts; the protocol's guarantee is not about its result.
    """

    def headcount(self, job: Job) -> Headcount:
        return DuckDB().headcount(job)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Counted:
        if not isinstance(protocol.randomizer, Simulated):
            raise UnsupportedError(f"{protocol.name} has no simulation of its tally: use duckdb")
        if protocol.randomizer.domain.size > _MOST_VALUES:
            raise UnsupportedError(f"{protocol.name} has too many values to count: use duckdb")
        inputs = np.zeros(protocol.randomizer.domain.size, dtype=np.int64)
        rows, invalid = 0, added(())
        for values, column in grouped(job.column, job.threads):
            times = column.to_numpy()
            some = _coded(job, values)
            weights = times if some.kept is None else np.where(some.kept, times, 0)
            np.add.at(inputs, some.codes, weights)
            rows += int(times.sum())
            invalid = added((invalid, some.invalid(times)))
            job.show(rows)
        if not inputs.any():
            raise DataError(f"column {job.column.name!r} has no valid value")
        draws = NumpyDraws(SecureWords() if rng is None else rng)
        tally = protocol.randomizer.simulate(inputs, draws)
        return Counted(tally=tally, rows=rows, invalid=invalid)


def _coded(job: Job, values: object) -> Coded:
    try:
        return job.coder.codes(values)
    except DataError:
        DuckDB().headcount(job)  # finds the row, which a group-by has forgotten, and names it
        raise


ENGINES: dict[str, Engine] = {
    "counts": Counts(),
    "duckdb": DuckDB(),
    "memory": Memory(),
    "spark": Spark(),
}
"""The engines for files by name; to add one, implement `Engine` and put it here."""


def engine_named(name: str) -> Engine:
    """The engine of that name.

    >>> engine_named("abacus")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: engine='abacus' must be one of counts, duckdb, memory, spark
    """
    if name not in ENGINES:
        raise ParameterError("engine", name, f"must be one of {', '.join(ENGINES)}")
    return ENGINES[name]
