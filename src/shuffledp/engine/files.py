"""A protocol on a column of files.

    column = open_column("people.parquet", "country")      # or 'data/*.csv', or several paths
    domain = Categories(k=3, names=("ch", "de", "other"))   # public: declared, not read
    found = headcount(column, domain, "other")              # how many users there are: n
    protocol = histogram(n=found.n, k=3, epsilon=1.0, delta=1e-8)
    result = run_file(protocol, column, domain=domain, on_invalid="other")
    result.estimate, result.n, result.invalid

`engine` is a name in `ENGINES`: "duckdb" (the default), "memory", "counts" or "spark". `report` is
called with a `Progress` while rows are read. `randomize_file` and `tally_file` (engine.messages) are
the halves of the devices and of the analyzer; `write_tally` and `read_tally` (engine.tallies) keep
a tally as JSON.
"""

from dataclasses import dataclass

from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.errors import DataError, MismatchError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.coding import Coder, OnInvalid
from shuffledp.engine.formats import FileColumn, open_column
from shuffledp.engine.job import Headcount, Job, Progress, Report
from shuffledp.engine.memory import enough
from shuffledp.engine.pieces import grouped
from shuffledp.engine.registry import ENGINES, engine_named
from shuffledp.engine.tallies import labelled

__all__ = [
    "ENGINES",
    "FileColumn",
    "FileRun",
    "Headcount",
    "OnInvalid",
    "Progress",
    "categories_of",
    "domain_for",
    "headcount",
    "open_column",
    "run_file",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """What a run on a file gives: the tally and the estimate, and what was read."""

    tally: Tally
    estimate: Estimate
    n: int
    """How many users took part: the valid rows."""
    rows: int
    invalid: dict[str, int]
    """How many values were invalid, by reason: null, unknown, out_of_range, nan. Not private."""
    engine: str


def headcount(
    column: FileColumn,
    domain: Domain,
    on_invalid: OnInvalid | str = OnInvalid.ERROR,
    *,
    engine: str = "duckdb",
    threads: int | None = None,
    master: str | None = None,
    report: Report | None = None,
) -> Headcount:
    """How many users the column has under a policy, and how many values are invalid.

    Protocols are calibrated for n, so n must be known first. If every value must be valid and the
    files say how many rows they have, nothing is read here: the run itself will check.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\ncat,1\\n,2\\ncow,3\\n")
    ...     pets = Categories(k=2, names=("cat", "dog"))
    ...     found = headcount(open_column(path, "pet"), pets, "drop")
    >>> found.n, found.invalid
    (1, {'null': 1, 'unknown': 1, 'out_of_range': 0, 'nan': 0})
    """
    coder = Coder(domain=domain, on_invalid=OnInvalid.read(on_invalid))
    chosen = engine_named(engine)
    if coder.on_invalid is not OnInvalid.DROP and column.rows:
        # Every row is a user, or the run stops at the one that is not.
        return Headcount(n=column.rows, rows=column.rows, invalid=None)
    job = Job(column=column, coder=coder, threads=threads, master=master, report=report)
    found = chosen.headcount(job)
    if found.n == 0:
        raise DataError(f"column {column.name!r} has no valid value")
    return found


def run_file(
    protocol: ShuffleProtocol,
    column: FileColumn,
    *,
    domain: Domain | None = None,
    on_invalid: OnInvalid | str = OnInvalid.ERROR,
    engine: str = "duckdb",
    rng: WordSource | None = None,
    threads: int | None = None,
    master: str | None = None,
    report: Report | None = None,
) -> FileRun:
    """Randomize, shuffle, tally and estimate a column of files; secure words unless a seed is given.

    `domain` gives the names of the categories; without it values are what the protocol's own domain
    says. Refuses fewer users than the guarantee counts on. With `SeededWords`, row r has the same
    words in every engine, so all of them but "counts" give the same tally.

    The engine "counts" is no private release: it sees the exact counts and draws the tally from its
    law with NumPy's floating-point samplers, about which the proof of the guarantee says nothing.
    Use it to plan and to simulate.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import SeededWords, protocols
    >>> pets = Categories(k=3, names=("bird", "cat", "dog"))
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\nbird,1\\ncat,2\\ncat,3\\ndog,4\\ndog,5\\ndog,6\\n")
    ...     result = run_file(p, open_column(path, "pet"), domain=pets, rng=SeededWords(3))
    >>> result.n, result.tally.counts, result.estimate.labels
    (6, array([1, 2, 3]), ('bird', 'cat', 'dog'))
    """
    declared = domain_for(protocol, domain)
    coder = Coder(domain=declared, on_invalid=OnInvalid.read(on_invalid))
    chosen = engine_named(engine)
    if column.rows is not None:
        enough(protocol, column.rows)
    job = Job(column=column, coder=coder, threads=threads, master=master, report=report)
    counted = chosen.tally(job, protocol, rng)
    enough(protocol, counted.tally.users)
    return FileRun(
        tally=counted.tally,
        estimate=labelled(protocol.analyzer.estimate(counted.tally), declared),
        n=counted.tally.users,
        rows=counted.rows,
        invalid=counted.invalid,
        engine=engine,
    )


def domain_for(protocol: ShuffleProtocol, domain: Domain | None) -> Domain:
    """The declared domain, if its codes are those of the protocol.

    >>> from shuffledp import protocols
    >>> domain_for(protocols.krr.make_local(k=3, epsilon=1.0), Categories(k=2))
    Traceback (most recent call last):
    shuffledp.core.errors.MismatchError: the protocol krr is for Categories(k=3, names=None), not for Categories(k=2, names=None)
    """
    own = protocol.randomizer.domain
    if domain is None or domain == own:
        return own
    # A histogram of integers counts each of them as a category.
    counted = isinstance(own, Categories) and isinstance(domain, Categories | Integers)
    if counted and own.size == domain.size:
        return domain
    raise MismatchError(f"the protocol {protocol.name} is for {own!r}, not for {domain!r}")


def categories_of(column: FileColumn, *, threads: int | None = None) -> tuple[str, ...]:
    """The distinct values of the column as text, sorted; nulls left out. NOT private.

    That a rare value occurs at all tells that somebody has it, whatever noise is added to its count.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet\\ndog\\ncat\\n\\ndog\\n")
    ...     categories_of(open_column(path))
    ('cat', 'dog')
    """
    import pyarrow as pa

    found: set[str] = set()
    for values, _times in grouped(column, threads):
        found.update(text for text in values.cast(pa.string()).to_pylist() if text)
    return tuple(sorted(found))
