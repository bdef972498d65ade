"""The counts engine: samples the tally directly from how many people hold each value.

Messages of many users add up to numbers with a known law, so simulating a billion people takes
milliseconds. For planning and papers: whoever runs it has seen the exact counts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.errors import DataError, MismatchError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.coding import Coded
from shuffledp.engine.job import Counted, Headcount, Job, added
from shuffledp.engine.pieces import count_users, grouped
from shuffledp.numerics.draws import NumpyDraws, Simulated
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Counts", "Simulated", "run_counts"]

_MOST_VALUES = 1 << 27  # a gigabyte of counts


def run_counts(
    protocol: ShuffleProtocol, counts: ArrayLike, rng: WordSource | None = None
) -> Estimate:
    """The estimate for a data set with counts[x] people of code x, without their messages.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run_counts(p, [10**8, 10**9, 10**7], SeededWords(3)).value.shape
    (3,)
    """
    inputs = np.asarray(counts)
    size = protocol.randomizer.domain.size
    if inputs.shape != (size,):
        raise MismatchError(f"counts of shape {inputs.shape} for a domain of {size} values")
    if inputs.dtype.kind not in "iu" or int(inputs.min()) < 0 or int(inputs.sum()) < 1:
        raise DataError("counts must be integers >= 0, and not all 0")
    if not isinstance(protocol.randomizer, Simulated):
        raise UnsupportedError(f"{protocol.name} has no simulation of its tally: use run()")
    draws = NumpyDraws(SecureWords() if rng is None else rng)
    tally = protocol.randomizer.simulate(inputs.astype(np.int64), draws)
    return protocol.analyzer.estimate(tally)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts the values with a group-by, then draws the tally from its law: no messages are made.

    A simulation by whoever sees the exact counts; the protocol's guarantee is not about its result.
    """

    def headcount(self, job: Job) -> Headcount:
        return count_users(job)

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
        count_users(job)  # finds the row, which a group-by has forgotten, and names it
        raise
