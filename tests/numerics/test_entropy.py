"""The word sources: one stream whatever the sizes asked for, never one stream in two places."""

import copy
import hashlib
import hmac
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.stats import chi2

from shuffledp import ParameterError, SecureWords, SeededWords, UnsupportedError
from shuffledp.numerics import entropy
from shuffledp.numerics.entropy import RunKey
from support import ALPHA

SIZES = (1, 2, 0, 3, 7, 16, 1, 31, 5)


def reference_bytes(seed, size):
    """The keystream by one call of the cipher on zeros."""
    key = hashlib.sha256(f"shuffledp words {seed}".encode()).digest()
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(size))


def reference_words(seed, count, bits):
    """From the bytes by Python integers: little-endian words, of which the top bits count."""
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8
    raw = reference_bytes(seed, count * width)
    pieces = [raw[i : i + width] for i in range(0, len(raw), width)]
    return [int.from_bytes(piece, "little") >> (8 * width - bits) for piece in pieces]


class TestSeededWords:
    @pytest.mark.parametrize("bits", range(1, 65))
    def test_known_answer(self, bits):
        words = SeededWords(42).words(100, bits)
        assert words.tolist() == reference_words(42, 100, bits)
        assert words.dtype.itemsize * 8 >= bits
        assert words.dtype.kind == "u"

    def test_published_words(self):
        """Fixed for ever: papers quote seeds."""
        first = SeededWords(7).words(2).tolist()
        assert first == [12295609786813653991, 6715552757042428571]

    @pytest.mark.parametrize("bits", range(1, 65))
    def test_does_not_depend_on_the_sizes_asked_for(self, bits):
        source = SeededWords(3)
        pieces = np.concatenate([source.words(size, bits) for size in SIZES])
        np.testing.assert_array_equal(pieces, SeededWords(3).words(sum(SIZES), bits))

    def test_across_the_buffer_of_zeros(self):
        """Keystream calls are cut at 2^18 bytes."""
        size = (1 << 18) + 37
        whole = SeededWords(9).words(3 * size, 8)
        assert whole.tobytes() == reference_bytes(9, 3 * size)
        source = SeededWords(9)
        pieces = [source.words(size, 8) for _ in range(3)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)

    def test_mixed_widths_use_each_byte_once(self):
        source = SeededWords(5)
        raw = b"".join(
            [
                source.words(3, 8).tobytes(),
                source.words(5, 64).astype("<u8").tobytes(),
                source.words(1, 16).astype("<u2").tobytes(),
                source.words(7, 32).astype("<u4").tobytes(),
            ]
        )
        assert raw == reference_bytes(5, 3 + 40 + 2 + 28)

    def test_seeds_differ(self):
        assert not set(SeededWords(1).words(50).tolist()) & set(SeededWords(2).words(50).tolist())

    @pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True])
    def test_bad_seed(self, seed):
        with pytest.raises(ParameterError, match="seed"):
            SeededWords(seed)

    def test_there_is_no_default_seed(self):
        with pytest.raises(TypeError):
            SeededWords()


class TestSeeking:
    @pytest.mark.parametrize("bits", [3, 8, 13, 32, 64])
    @pytest.mark.parametrize("count", [0, 1, 2, 5, 16, 17, 255, 40_000])
    def test_ahead_and_skip(self, bits, count):
        expected = SeededWords(6).words(count + 50, bits)[count:]
        np.testing.assert_array_equal(SeededWords(6).ahead(count, bits).words(50, bits), expected)
        source = SeededWords(6)
        source.skip(count, bits)
        np.testing.assert_array_equal(source.words(50, bits), expected)

    def test_counts_from_where_the_source_is(self):
        source = SeededWords(6)
        source.words(3)
        ahead = source.ahead(2)
        assert ahead.words(1) == SeededWords(6).words(6)[5]
        assert source.words(1) == SeededWords(6).words(4)[3]  # which has not moved
        ahead.skip(1)
        assert ahead.words(1) == SeededWords(6).words(8)[7]

    def test_far(self):
        """The counter of the cipher is one number of 128 bits."""
        key = hashlib.sha256(b"shuffledp words 6").digest()
        block = 2**70 + 2**64 - 1
        encryptor = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()
        found = SeededWords(6).ahead(2 * block).words(4)
        assert found.astype("<u8").tobytes() == encryptor.update(bytes(32))

    @pytest.mark.parametrize(
        "copied",
        [
            copy.copy,
            copy.deepcopy,
            lambda s: pickle.loads(pickle.dumps(s)),  # noqa: S301
        ],
    )
    def test_a_copy_goes_on_from_the_same_place(self, copied):
        source = SeededWords(6)
        source.words(3, 8)
        again = copied(source)
        np.testing.assert_array_equal(again.words(9), source.words(9))

    def test_after_a_long_draw(self):
        """One that takes several calls of the cipher, and ends in the middle of a block."""
        size = 3 * (1 << 18) + 41
        expected = np.frombuffer(reference_bytes(6, size + 64), dtype=np.uint8)[size:]
        source = SeededWords(6)
        source.words(size, 8)
        for follower in (copy.copy(source), source.ahead(0, 8), source):
            np.testing.assert_array_equal(follower.words(60, 8), expected[:60])
        source.skip(1, 8)
        np.testing.assert_array_equal(source.words(3, 8), expected[61:])

    @pytest.mark.parametrize(("count", "bits"), [(-1, 64), (1.5, 64), (1, 0)])
    def test_bad_arguments(self, count, bits):
        for move in (SeededWords(1).skip, SeededWords(1).ahead):
            with pytest.raises(ParameterError):
                move(count, bits)


@pytest.mark.parametrize(
    "source",
    [SecureWords(), SeededWords(1), RunKey().words("part")],
    ids=["secure", "seeded", "derived"],
)
class TestAll:
    @pytest.mark.parametrize(("count", "bits"), [(-1, 8), (1.5, 8), (1, 0), (1, 65), (1, 2.0)])
    def test_bad_arguments(self, source, count, bits):
        with pytest.raises(ParameterError):
            source.words(count, bits)

    def test_no_words(self, source):
        for bits in (1, 8, 9, 64):
            assert source.words(0, bits).shape == (0,)

    def test_words_may_be_written_to(self, source):
        for bits in (7, 8, 64):
            words = source.words(5, bits)
            words[:] = 0
            assert not words.any()


def span_bytes(secret, size, span):
    """What a secret stream must be: each span is the keystream of a key of its own."""
    spans = []
    for number in range(-(-size // span)):
        key = hmac.digest(secret, f"shuffledp span {number}".encode(), "sha256")
        encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        spans.append(encryptor.update(bytes(span)))
    return b"".join(spans)[:size]


class TestSpans:
    SECRET = bytes(range(32))

    @pytest.fixture
    def _fixed_key(self, monkeypatch):
        monkeypatch.setattr(os, "urandom", lambda size: self.SECRET[:size])

    @pytest.mark.usefixtures("_fixed_key")
    @pytest.mark.parametrize("sizes", [(5, 59, 64, 1, 127, 200), (456,), (64, 64, 64)])
    def test_each_span_has_a_key_of_its_own(self, sizes, monkeypatch):
        monkeypatch.setattr(entropy, "_SPAN_BLOCKS", 4)
        source = SecureWords()
        drawn = b"".join(source.words(size, 8).tobytes() for size in sizes)
        assert drawn == span_bytes(self.SECRET, sum(sizes), 64)

    @pytest.mark.parametrize("start", [0, 5, 63, 64, 100])
    def test_from_the_middle_of_a_span(self, start, monkeypatch):
        monkeypatch.setattr(entropy, "_SPAN_BLOCKS", 4)
        stream = entropy._secret_stream(self.SECRET)
        expected = span_bytes(self.SECRET, start + 200, 64)[start:]
        assert stream.ahead(start).take(200).tobytes() == expected
        stream.skip(start)
        assert stream.take(200).tobytes() == expected

    @pytest.mark.usefixtures("_fixed_key")
    def test_production_spans(self):
        span = entropy._SPAN_BLOCKS * 16
        size = span + (1 << 18) + 5
        assert span == 1 << 22
        source = SecureWords()
        first = source.words(span - 3, 8).tobytes()
        assert first + source.words(size - span + 3, 8).tobytes() == span_bytes(
            self.SECRET, size, span
        )

    def test_seeded_words_have_one_key(self):
        """Papers quote seeds: their words stay what they are."""
        far = SeededWords(9).ahead((1 << 22) + 16, 8).words(32, 8)
        key = hashlib.sha256(b"shuffledp words 9").digest()
        counter = modes.CTR(((1 << 18) + 1).to_bytes(16, "big"))
        assert far.tobytes() == Cipher(algorithms.AES(key), counter).encryptor().update(bytes(32))


class TestAdvantage:
    """Against the bound written out: spans of 2^18 blocks, two words to a block."""

    @pytest.mark.parametrize("words", [0, 1, 2, 3, 2**19, 2**19 + 1, 10**6, 10**10, 10**15])
    def test_formula(self, words):
        blocks = [min(2**19, words - start) for start in range(0, min(words, 10**7), 2**19)]
        if words > 10**7:
            full, rest = divmod(words, 2**19)
            exact = Fraction(full * 2**36 + (-(-rest // 2)) ** 2, 2**129)
            spans = full + (rest > 0)
        else:
            exact = sum((Fraction((-(-b // 2)) ** 2, 2**129) for b in blocks), Fraction(0))
            spans = len(blocks)
        guesses = Fraction(spans + 1, 2**128) + Fraction(spans**2, 2**257)
        found = Fraction(entropy.prf_advantage(words))
        assert exact + guesses <= found <= (exact + guesses) * (1 + Fraction(1, 10**12))

    def test_rekeying_is_worth_it(self):
        """A billion people with ten words each: 2^-64 under one key."""
        one_key = (10**10 / 2) ** 2 / 2.0**129
        assert one_key > 2.0**-65
        assert entropy.prf_advantage(10**10) < 2.0**-78

    @pytest.mark.parametrize("words", [-1, 1.5])
    def test_bad_numbers(self, words):
        with pytest.raises(ParameterError, match="words"):
            entropy.prf_advantage(words)


class TestRunKey:
    def test_known_answer(self, monkeypatch):
        secret = bytes(range(100, 132))
        monkeypatch.setattr(os, "urandom", lambda _: secret)
        derived = hmac.digest(secret, b"shuffledp label part 7", "sha256")
        drawn = RunKey().words("part 7").words(100, 8).tobytes()
        assert drawn == span_bytes(derived, 100, 1 << 22)

    def test_a_repetition_repeats(self):
        key = RunKey()
        first = key.words("part").words(1000)
        np.testing.assert_array_equal(key.words("part").words(1000), first)
        again = pickle.loads(pickle.dumps(key))  # noqa: S301
        np.testing.assert_array_equal(again.words("part").words(1000), first)

    def test_everything_else_differs(self):
        key = RunKey()
        sources = [key.words(label) for label in ("", "1", "10", "span 1", "1 ")]
        sources += [RunKey().words("1"), SecureWords()]
        words = [word for source in sources for word in source.words(64).tolist()]
        assert len(set(words)) == len(words)

    def test_keeps_its_secret(self):
        assert repr(RunKey()) == "RunKey(secret)"

    @pytest.mark.parametrize("label", [1, None, b"part"])
    def test_bad_labels(self, label):
        with pytest.raises(ParameterError, match="label"):
            RunKey().words(label)

    def test_derived_words_cannot_be_duplicated(self):
        source = RunKey().words("part")
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="derive them again"):
                duplicate(source)

    def test_after_a_fork_they_are_derived_again(self, monkeypatch):
        key = RunKey()
        source = key.words("part")
        number = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: number + 1)
        with pytest.raises(UnsupportedError, match="fork"):
            source.words(1)
        assert len(key.words("part").words(3)) == 3


class TestSecureWords:
    def test_two_sources_differ(self):
        assert not set(SecureWords().words(50).tolist()) & set(SecureWords().words(50).tolist())

    @pytest.mark.parametrize("bits", [1, 5, 8, 13, 16, 24, 32, 40, 64])
    def test_is_a_stream(self, bits, monkeypatch):
        monkeypatch.setattr(os, "urandom", lambda size: bytes(range(size)))
        source = SecureWords()
        pieces = np.concatenate([source.words(size, bits) for size in SIZES])
        np.testing.assert_array_equal(pieces, SecureWords().words(sum(SIZES), bits))

    def test_cannot_be_duplicated(self):
        source = SecureWords()
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="share a stream"):
                duplicate(source)


def in_child(task):
    """What `task` returns in a forked process, as bytes through a pipe."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            os.write(write, task())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return answer


def words_of(*answers):
    return np.frombuffer(b"".join(answers), dtype=np.uint64).tolist()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestFork:
    COUNT = 64

    def take(self, source):
        return source.words(self.COUNT).tobytes()

    def all_differ(self, *answers):
        words = words_of(*answers)
        assert len(words) == self.COUNT * len(answers)
        return len(set(words)) == len(words)

    @pytest.mark.parametrize("used", [0, 5])
    def test_children_and_parent_share_nothing(self, used):
        source = SecureWords()
        source.words(used)
        first, second = (in_child(lambda: self.take(source)) for _ in range(2))
        assert self.all_differ(first, second, self.take(source))

    def test_fork_of_a_fork(self):
        source = SecureWords()
        source.words(3)

        def child():
            # One grandchild before and one after the child's own first words.
            early = in_child(lambda: self.take(source))
            own = self.take(source)
            return early + own + in_child(lambda: self.take(source))

        family = in_child(child)
        size = 8 * self.COUNT
        parts = [family[i : i + size] for i in range(0, len(family), size)]
        assert len(parts) == 3
        assert self.all_differ(*parts, self.take(source))

    def test_reused_process_number(self, monkeypatch):
        """A grandchild can get the number of its dead grandparent; the count of forks differs."""
        source = SecureWords()
        number = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: number)
        assert self.all_differ(in_child(lambda: self.take(source)), self.take(source))

    def test_fork_that_python_does_not_see(self, monkeypatch):
        """Forked by C code: no hook runs, but the process number differs."""
        source = SecureWords()
        before = self.take(source)
        number = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: number + 1)
        stream = source._stream
        after = self.take(source)
        assert source._stream is not stream
        assert self.all_differ(before, after)

    def test_mutant_without_renewal_is_caught(self, monkeypatch):
        monkeypatch.setattr(entropy, "_process", lambda: "always the same")
        source = SecureWords()
        assert not self.all_differ(in_child(lambda: self.take(source)), self.take(source))

    def test_renewal_publishes_the_stream_before_the_birth(self, monkeypatch):
        """A thread that sees the new birth must not find the parent's stream."""
        source = SecureWords()
        inherited = source._stream
        number = os.getpid()
        seen = []

        def key(size):
            seen.append(source._born)  # what another thread would see while the key is made
            return bytes(size)

        monkeypatch.setattr(os, "getpid", lambda: number + 1)
        monkeypatch.setattr(os, "urandom", key)
        source.words(1)
        assert source._stream is not inherited
        assert [born[0] for born in seen] == [number]


class TestThreads:
    @pytest.mark.parametrize(
        "make",
        [SecureWords, lambda: SeededWords(8), lambda: RunKey().words("part")],
        ids=["secure", "seeded", "derived"],
    )
    def test_threads_get_disjoint_words(self, make):
        source = make()
        barrier = threading.Barrier(4)
        taken = [[] for _ in range(4)]

        def work(mine):
            barrier.wait()
            for size in range(1, 120):
                mine.extend(source.words(size).tolist())

        threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        words = [word for mine in taken for word in mine]
        assert len(set(words)) == len(words) == 4 * sum(range(1, 120))
        if isinstance(source, SeededWords):
            assert sorted(words) == sorted(SeededWords(8).words(len(words)).tolist())


def chi_square_p_value(symbols, size):
    """True upper tail of Pearson's statistic against the uniform law."""
    counts = np.bincount(symbols, minlength=size)
    expected = len(symbols) / size
    assert expected >= 1000  # so that the chi-square tail is the tail
    return chi2.sf(((counts - expected) ** 2).sum() / expected, size - 1)


class TestUniformity:
    N = 1 << 18

    @pytest.mark.parametrize("bits", [1, 3, 7, 8])
    def test_small_words(self, bits):
        words = SeededWords(11).words(self.N, bits)
        assert chi_square_p_value(words, 1 << bits) > ALPHA

    @pytest.mark.parametrize("shift", [0, 20, 56])
    def test_bytes_of_large_words(self, shift):
        words = SeededWords(12).words(self.N) >> np.uint64(shift) & np.uint64(255)
        assert chi_square_p_value(words.astype(np.int64), 256) > ALPHA

    def test_neighbours(self):
        words = SeededWords(13).words(2 * self.N, 4).reshape(-1, 2).astype(np.int64)
        assert chi_square_p_value(words[:, 0] * 16 + words[:, 1], 256) > ALPHA

    def test_mutant_with_a_modulo_is_caught(self):
        """Bytes modulo 250, the classical mistake, make 0 .. 5 twice as likely."""
        words = SeededWords(11).words(self.N, 8).astype(np.int64) % 250
        assert chi_square_p_value(words, 250) < ALPHA

    def test_mutant_that_repeats_is_caught(self):
        once = SeededWords(13).words(self.N // 256, 4).astype(np.int64)
        words = np.tile(once, 512).reshape(-1, 2)
        assert chi_square_p_value(words[:, 0] * 16 + words[:, 1], 256) < ALPHA
