"""Two columns as one: the codes of answers and of groups, joined person by person."""

from typing import Any

import numpy as np
import pyarrow as pa

from shuffledp.core.answers import Answers
from shuffledp.core.domain import Domain, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.chunks import code_chunk
from shuffledp.engine.codes import Coder, OnInvalid
from shuffledp.engine.columns import Column, read_chunks
from shuffledp.numerics.entropy import SecureWords

__all__ = ["pair_columns"]


def pair_columns(
    answers: Column,
    groups: Column,
    domain: Answers,
    *,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
) -> Column:
    """The joint codes of an answer and a group, as a column in memory.

    Real numbers are rounded at random, without bias, to the points of their grid, as a device would.

    >>> from shuffledp import Bits, Categories
    >>> from shuffledp.engine import take_column
    >>> both = Answers(parts=(Bits(), Categories(k=2, names=("car", "bus"))))
    >>> pair_columns(take_column([True, False]), take_column(["bus", "car"]), both).array.to_pylist()
    [3, 0]
    """
    if on_invalid.drops:
        raise UnsupportedError(
            "on_invalid=drop is not for questions by group: declare a group 'other' (on_invalid=other), or "
            "clamp numbers"
        )
    own, groups_domain = domain.parts
    codes = [
        _read_codes(answers, own, on_invalid, rng),
        _read_codes(groups, groups_domain, on_invalid, rng),
    ]
    if len(codes[0]) != len(codes[1]):
        raise DataError(f"columns {answers.name!r} and {groups.name!r} differ in length")
    joint = domain.join(codes).astype(np.min_scalar_type(domain.size - 1))
    return Column(name=f"{answers.name} by {groups.name}", array=pa.array(joint))


def _read_codes(
    column: Column, domain: Domain, policy: OnInvalid, rng: WordSource | None
) -> np.ndarray[Any, Any]:
    try:
        coder = Coder(domain=domain, on_invalid=policy)
    except ParameterError:  # what is right for the answers need not be for the groups
        coder = Coder(domain=domain, on_invalid=OnInvalid.ERROR)
    kind = np.min_scalar_type(domain.size - 1)
    words = SecureWords() if rng is None else rng
    found = []
    for chunk in read_chunks(column):
        if len(chunk.array):
            codes = code_chunk(coder, chunk).codes
            if isinstance(domain, Reals):
                codes = domain.round(codes, words.words(len(codes), 64), 64)
            found.append(codes.astype(kind))
    return np.concatenate(found) if found else np.zeros(0, dtype=kind)
