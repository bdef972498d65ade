"""The tape is one stream: how an engine cuts it into chunks changes nothing."""

import numpy as np
import pytest

from shuffledp import Bits, DataError, SeededWords, protocols
from shuffledp.engine import OnInvalid, chunks, local
from shuffledp.engine.codes import Coded, Coder
from shuffledp.engine.columns import take_column
from support import any_protocol


@pytest.mark.parametrize("spec", protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_the_tally_does_not_depend_on_the_chunks(spec, monkeypatch):
    protocol = any_protocol(spec)
    domain = protocol.randomizer.domain
    values = domain.values(np.random.default_rng(1).integers(domain.size, size=501))
    if (values == values.astype(np.int64)).all():
        values = values.astype(np.int64)
    whole = local.tally_each(protocol, values, SeededWords(2))
    user = 8 * protocol.randomizer.words_per_input
    for users in (1, 100, 500, 501):
        monkeypatch.setattr(chunks, "_CHUNK_BYTES", users * user)
        parts = local.tally_each(protocol, values, SeededWords(2))
        assert parts.users == 501
        np.testing.assert_array_equal(parts.counts, whole.counts)


@pytest.mark.parametrize("name", ["subset_selection", "local_hashing", "local_tree"])
def test_groups_of_people_read_words_of_their_own(name, monkeypatch):
    """Devices of grouped people, some at a time and by several threads: the words are those of one reader."""
    protocol = any_protocol(protocols.spec(name))
    size = protocol.randomizer.domain.size
    counts = np.bincount(np.random.default_rng(1).integers(size, size=301), minlength=size)
    whole = local.tally_counts(protocol, counts, SeededWords(2))
    for people in (1, 7, 300):
        monkeypatch.setattr(local, "_PEOPLE", people)
        for threads in (1, 3):
            source = SeededWords(2)
            parts = local.tally_counts(protocol, counts, source, threads)
            np.testing.assert_array_equal(parts.counts, whole.counts)
            after = SeededWords(2)
            after.skip(301 * protocol.randomizer.words_per_input, protocol.randomizer.word_bits)
            assert source.words(1)[0] == after.words(1)[0]


def test_one_person_is_enough_and_nobody_is_refused():
    job = chunks.Job(column=take_column([1, 0]), coder=Coder.for_part(Bits(), OnInvalid()))
    one = chunks.Pass(job, iter([(Coded(np.array([1]), None, None), "seen")]))
    assert [*one] == ["seen"]
    assert (one.n, one.rows) == (1, 1)
    one.require_people()
    nobody = chunks.Pass(job, iter([]))
    assert [*nobody] == []
    with pytest.raises(DataError, match=r"has no valid value$"):
        nobody.require_people()
