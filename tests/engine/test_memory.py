import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.engine import memory


def test_a_bad_value_is_named_by_its_position_in_the_whole_column():
    protocol = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
    values = np.zeros(400_000, dtype=np.int64)
    values[300_001] = 9
    with pytest.raises(sdp.DataError, match="value 9 at position 300001 is outside"):
        sdp.run(protocol, values)


@pytest.mark.parametrize("values", [[[1, 2], [3]], np.ma.array([1, 2], mask=[True, False])])
def test_ragged_and_masked_columns_are_refused(values):
    with pytest.raises(sdp.DataError, match="values"):
        sdp.run(sdp.protocols.krr.make_local(k=4, epsilon=1.0), values)


def test_chunks_hold_many_users_even_if_the_tape_is_long():
    unary = sdp.protocols.optimized_unary.make_local(k=1024, epsilon=1.0).randomizer
    assert memory._users_per_chunk(unary) == 2048
    huge = sdp.protocols.optimized_unary.make_local(k=10**8, epsilon=1.0).randomizer
    assert memory._users_per_chunk(huge) == 1


def test_too_few_users_for_the_guarantee_are_refused():
    protocol = sdp.protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6)
    with pytest.raises(sdp.DataError, match="needs the noise of at least 900 users"):
        sdp.run(protocol, [1] * 899)
    assert sdp.run(protocol, [1] * 900).stderr > 0


def test_secure_words_by_default():
    protocol = sdp.protocols.rr.make_local(epsilon=0.1)
    values = np.zeros(1000, dtype=bool)
    assert len({sdp.run(protocol, values).value for _ in range(20)}) > 1
