"""The table of engines that read files."""

from shuffledp.core.errors import ParameterError
from shuffledp.engine.counts import Counts
from shuffledp.engine.duckdb import DuckDB
from shuffledp.engine.job import Engine
from shuffledp.engine.memory import Memory
from shuffledp.engine.spark import Spark

__all__ = ["ENGINES", "engine_named"]

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
