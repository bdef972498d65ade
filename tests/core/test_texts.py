"""Words as codes: every rule of reading, spelt out, and back again."""

import unicodedata
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp import DataError, ParameterError, UnsupportedError
from shuffledp.core.texts import ALPHABETS, FINE, MISSING, TOO_LONG, UNKNOWN, Keys, Texts

LONGEST = {"letters": 13, "word": 12, "ascii": 9, "utf-8": 8}


def read(domain, *texts):
    return domain.read(texts)[1].tolist()


def test_every_short_word_has_a_code_of_its_own_in_the_order_of_words():
    domain = Texts(alphabet="word", max_length=2)
    symbols = sorted(
        "abcdefghijklmnopqrstuvwxyz0123456789-_", key="abcdefghijklmnopqrstuvwxyz0123456789-_".index
    )
    words = [*symbols, *map("".join, product(symbols, repeat=2))]
    codes = domain.codes(words)
    assert len(set(codes.tolist())) == len(words)
    assert domain.spell(codes) == words
    everything = np.arange(domain.size)
    spelt = [word for word in domain.spell(everything) if word is not None]
    assert sorted(spelt) == sorted(words)
    assert domain.spell(np.sort(codes))[:3] == ["a", "aa", "ab"]


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_the_longest_words_fill_64_bits_and_longer_ones_are_refused(alphabet):
    longest = LONGEST[alphabet]
    domain = Texts(alphabet=alphabet, max_length=longest)
    last = {"letters": "z", "word": "_", "ascii": "~", "utf-8": "z"}[alphabet] * longest
    assert domain.spell(domain.codes([last])) == [last]
    assert domain.bits <= 64
    with pytest.raises(ParameterError, match=f"max_length={longest + 1} must be <= {longest} for"):
        Texts(alphabet=alphabet, max_length=longest + 1)


def test_the_last_code_of_64_bits():
    domain = Texts(alphabet="utf-8", max_length=8)
    assert (domain.size, domain.bits) == (1 << 64, 64)
    assert domain.spell(np.array([2**64 - 1], dtype=np.uint64)) == [None]  # bytes 255 are no UTF-8
    word = "\x7f" * 8
    assert domain.spell(domain.codes([word])) == [word]
    assert int(domain.codes([word])[0]) == int.from_bytes(word.encode(), "big")


def test_what_is_wrong_with_a_word():
    letters = Texts(alphabet="letters", max_length=4)
    assert read(letters, "cat", "cats", "catsy") == [FINE, FINE, TOO_LONG]
    assert read(letters, "", "  \t\r\n", None) == [MISSING] * 3
    assert read(letters, "c4t", "café", "a b", 7, b"cat", "cat\0", "\ud800") == [UNKNOWN] * 7
    # A word that is both too long and outside the alphabet cannot be cut to a word.
    assert read(letters, "catsy!") == [UNKNOWN]
    ascii_ = Texts(alphabet="ascii", max_length=6)
    assert read(ascii_, "a b", "~", "a\tb", "é") == [FINE, FINE, UNKNOWN, UNKNOWN]
    bytes_ = Texts(alphabet="utf-8", max_length=4)
    assert read(bytes_, "é\n", "éé", "ééé", "a\0b", "日", "日本") == [
        FINE, FINE, TOO_LONG, UNKNOWN, FINE, TOO_LONG,
    ]  # fmt: skip


def test_too_long_words_are_cut_at_whole_characters_and_stay_words():
    letters = Texts(alphabet="letters", max_length=3)
    codes, _ = letters.read(["Catsy"])
    assert letters.spell(codes) == ["cat"]
    bytes_ = Texts(alphabet="utf-8", max_length=4)
    codes, _ = bytes_.read(["日本", "aééé", "abc d"])
    assert bytes_.spell(codes) == ["日", "aé", "abc"]


def test_normalisation():
    letters = Texts(alphabet="letters", max_length=8)
    same = ["cafe", "CAFE", " cafe\n", "ｃａｆｅ", "caﬀe".replace("ﬀ", "f")]
    assert len(set(letters.codes(same).tolist())) == 1
    assert letters.spell(letters.codes(["ﬁsh"])) == ["fish"]  # a ligature
    assert letters.spell(letters.codes(["\u212aelvin"])) == ["kelvin"]  # the sign of the unit
    assert read(letters, "\u0130zmir", "straße") == [UNKNOWN, UNKNOWN]
    bytes_ = Texts(alphabet="utf-8", max_length=8)
    composed, decomposed = "é", unicodedata.normalize("NFD", "é")
    assert composed != decomposed
    assert len(set(bytes_.codes([composed, decomposed]).tolist())) == 1
    assert (
        len(set(bytes_.codes(["e", "E", "é", "ﬁ", "fi"]).tolist())) == 5
    )  # case and ligatures count
    # The code of a decomposed word is the code of no word: nobody sends it.
    raw = int.from_bytes(decomposed.encode().ljust(8, b"\0"), "big")
    assert bytes_.spell(np.array([raw], dtype=np.uint64)) == [None]


@pytest.mark.parametrize("alphabet", ALPHABETS)
@given(text=st.text(max_size=6))
def test_reading_is_stable(alphabet, text):
    domain = Texts(alphabet=alphabet, max_length=LONGEST[alphabet])
    once = domain.normalize(text)
    assert domain.normalize(once) == once
    codes, faults = domain.read([text])
    if faults[0] in (FINE, TOO_LONG):
        (word,) = domain.spell(codes)
        assert faults[0] == TOO_LONG or word == once
        again, fault = domain.read([word])
        assert (again[0], fault[0]) == (codes[0], FINE)


def test_errors_name_the_value_and_its_place():
    letters = Texts(alphabet="letters", max_length=4)
    with pytest.raises(DataError, match=r"'catsy' at position 1 is longer than 4 bytes"):
        letters.codes(["cat", "catsy"])
    with pytest.raises(DataError, match=r"'' at position 0 is empty"):
        letters.codes([""])
    with pytest.raises(DataError, match=r"words are texts, but the values have type float64"):
        letters.codes([1.5])
    with pytest.raises(UnsupportedError, match="too many to be listed"):
        _ = letters.labels
    with pytest.raises(ParameterError, match="alphabet='greek' must be one of letters, word"):
        Texts(alphabet="greek", max_length=3)


def test_keys():
    keys = Keys(bits=64)
    numbers = [0, 2**63, 2**64 - 1]
    codes = keys.codes(np.array(numbers, dtype=np.uint64))
    assert keys.spell(codes) == list(map(str, numbers))
    assert keys.codes([str(number) for number in numbers]).tolist() == numbers
    small = Keys(bits=10)
    assert read(small, 1023, 1024, -1, "-5", 7.0, 7.5, True, "", "1e3", None) == [
        FINE, TOO_LONG, TOO_LONG, TOO_LONG, FINE, UNKNOWN, UNKNOWN, MISSING, UNKNOWN, MISSING,
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"value -1 at position 1 is outside the domain 0 .. 1023"):
        small.codes([3, -1])
    with pytest.raises(ParameterError, match="bits=65 must be <= 64"):
        Keys(bits=65)


@pytest.mark.parametrize(
    ("number", "code", "fault"),
    [
        ("1" * 40, 255, TOO_LONG),
        ("-" + "1" * 40, 0, TOO_LONG),
        ("0" * 38 + "17", 17, FINE),
        ("1" * 41, 0, UNKNOWN),
        ("--1", 0, UNKNOWN),
        ("\u0661", 0, UNKNOWN),
        (" 255 ", 255, FINE),
        ("256", 255, TOO_LONG),
        ("-1", 0, TOO_LONG),
        ("-0", 0, FINE),
        (" ", 0, MISSING),
        (None, 0, MISSING),
        (255.0, 255, FINE),
        (255.5, 0, UNKNOWN),
        (float("nan"), 0, UNKNOWN),
        (True, 0, UNKNOWN),
        ([1], 0, UNKNOWN),
    ],
)
def test_a_number_as_a_key(number, code, fault):
    codes, faults = Keys(bits=8).read([number])
    assert (codes.tolist(), faults.tolist()) == ([code], [fault])


def test_what_is_wrong_with_a_key_or_a_word():
    keys, words = Keys(bits=8), Texts(alphabet="letters", max_length=3)
    assert keys.complain(MISSING) == "is missing"
    assert keys.complain(UNKNOWN) == "is not an integer"
    assert keys.complain(TOO_LONG) == "is outside the domain 0 .. 255"
    assert words.complain(MISSING) == "is empty"
    assert words.complain(UNKNOWN) == "has a character outside the alphabet letters"
    assert words.complain(TOO_LONG) == "is longer than 3 bytes"
    assert keys.spell(np.array([0, 255, 256])) == ["0", "255", None]
