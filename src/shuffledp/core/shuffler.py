"""Concept 2, the shuffler S: it forgets who sent what.

`Shuffled` has no owner, and analyzers accept nothing else: feeding one unshuffled data is a type
error. A shuffled list is equivalent to its multiset of messages.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.randomizer import Messages, WordSource


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffled:
    """Messages without owners; `users` people sent them."""

    payload: NDArray[Any]
    users: int


def shuffle(messages: Messages, rng: WordSource) -> Shuffled:
    """Return a uniformly random permutation of all messages.

    The messages are put in the order of independent 64-bit keys. Distinct i.i.d. keys make every
    order equally likely; should two keys be equal, all are drawn again, so the law is exact.

    >>> from shuffledp import SeededWords
    >>> sorted(shuffle(Messages.one_each(np.array([5, 6, 7])), SeededWords(1)).payload.tolist())
    [5, 6, 7]
    """
    while True:
        keys = rng.words(len(messages.payload))
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return Shuffled(payload=messages.payload[order], users=messages.users)


def forget(messages: Messages) -> Shuffled:
    """Drop the owners without moving anything: for a tally made at once, in the same process.

    A tally does not depend on the order (a contract test says so for every analyzer), so an engine
    that keeps nothing but the tally need not permute first. Never use it for messages that are
    stored or sent: their order would tell who sent them.

    >>> forget(Messages.one_each(np.array([5, 6]))).users
    2
    """
    return Shuffled(payload=messages.payload, users=messages.users)
