"""Messages as bytes: there and back at the ends of their ranges, and nothing beyond."""

import numpy as np
import pytest

from shuffledp.core.errors import DataError, MismatchError
from shuffledp.core.randomizer import BitCode, NumberCode


@pytest.mark.parametrize(
    ("size", "octets"), [(1, 1), (2, 1), (256, 1), (257, 2), (1 << 16, 2), ((1 << 16) + 1, 3)]
)
def test_numbers_take_the_bytes_they_need(size: int, octets: int) -> None:
    code = NumberCode.of(size)
    assert code.size == octets
    ends = np.array([0, size - 1])
    sent = code.encode_message(ends)
    assert sent.shape == (2, octets)
    back = code.decode_message(sent)
    assert back.accepted.all()
    np.testing.assert_array_equal(back.payload, ends)


@pytest.mark.parametrize("wrong", [-1, 5, 256])
def test_numbers_beyond_their_range_are_refused_with_the_range(wrong: int) -> None:
    code = NumberCode.of(5)
    with pytest.raises(DataError, match=r"^a message is outside 0 \.\. 4$"):
        code.encode_message(np.array([0, wrong, 4]))
    pairs = NumberCode(sizes=(7, 5), row=True)
    with pytest.raises(DataError, match=r"^a message is outside 0 \.\. 4$"):
        pairs.encode_message(np.array([[6, wrong]]))


def test_no_messages_are_no_bytes() -> None:
    for code, empty in (
        (NumberCode.of(500), np.zeros(0, dtype=np.int64)),
        (NumberCode(sizes=(7, 5), row=True), np.zeros((0, 2), dtype=np.int64)),
    ):
        octets = code.encode_message(empty)
        assert octets.shape == (0, 2)
        assert code.decode_message(octets).payload.shape == empty.shape


def test_messages_of_another_shape_are_refused() -> None:
    with pytest.raises(MismatchError, match="messages have 2 numbers, not 1"):
        NumberCode(sizes=(7, 5), row=True).encode_message(np.array([1, 2]))
    with pytest.raises(MismatchError, match=r"vectors of 3 bits, not \(1, 4\)"):
        BitCode(k=3).encode_message(np.zeros((1, 4), dtype=np.bool_))


def test_a_row_is_accepted_if_each_of_its_numbers_is() -> None:
    pairs = NumberCode(sizes=(300, 5), row=True)
    octets = np.array([[1, 43, 4], [1, 44, 4], [1, 43, 5], [0, 0, 0]], dtype=np.uint8)
    found = pairs.decode_message(octets)
    assert found.accepted.tolist() == [True, False, False, True]
    assert found.payload.tolist() == [[299, 4], [0, 0]]


def test_bits_beyond_the_last_and_too_many_ones_are_not_accepted() -> None:
    code = BitCode(k=9, ones=(1, 2))
    octets = np.array([[128, 128], [128, 192], [0, 0], [1, 0], [224, 0]], dtype=np.uint8)
    assert code.size == 2
    assert code.decode_message(octets).accepted.tolist() == [True, False, False, True, False]
