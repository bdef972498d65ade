"""Words without a list: the law of the functions and of the device, privacy by enumeration, and what is found."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

import shuffledp as sdp
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.accounting.moved_message import dummies
from shuffledp.core.analyzer import Tally
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.core.texts import Keys
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import hashed_prefixes
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hashed_prefixes import decoder, design
from shuffledp.protocols.hashed_prefixes.device import (
    Functions,
    HashedPart,
    HashedPrefixes,
    draw_functions,
    invert_matrix,
)
from shuffledp.protocols.tree import joint_poisson_level
from shuffledp.testing import ALPHA, Examples, ScriptedWords, enumerate_outcomes

TINY = {"n": 2, "bits": 2, "honest": 1.0, "seed": 1}
EXAMPLES = Examples(
    hashed_prefixes.SPEC,
    shuffled=(
        {"n": 20_000, "bits": 6, "epsilon": 1.0, "delta": 1e-6, "max_messages": 4.0, "seed": 3},
        {
            "n": 20_000,
            "bits": 12,
            "parts": [[[6, 8], [12, 8]]],
            "buckets": 128,
            "epsilon": 2.0,
            "delta": 1e-6,
            "seed": 3,
        },
    ),
    shuffled_tiny=(
        {
            **TINY,
            "parts": [[[1, 1], [2, 1]]],
            "buckets": 2,
            "epsilon": 2.0,
            "delta": 0.5,
            "word_bits": 2,
        },
        {
            **TINY,
            "parts": [[[1, 1]], [[2, 1]]],
            "buckets": 2,
            "epsilon": 1.5,
            "delta": 0.7,
            "word_bits": 1,
        },
    ),
)


# --- the public functions


def test_stirring_is_uniform_on_the_invertible_matrices():
    """Of the 16 matrices of two rows 6 are invertible; those are taken as they come, the others drawn again."""
    taken = Counter()
    for columns in product(range(4), repeat=2):
        number = columns[0] | columns[1] << 2
        script = [number, 0b0110, 0]  # a singular one is followed by an invertible one
        made = draw_functions(bits=2, buckets=2, lengths=(), source=ScriptedWords(script))
        if made.stir == columns:
            taken[columns] += 1
        else:
            assert made.stir == (2, 1)
    singular = {(0, a) for a in range(4)} | {(a, 0) for a in range(4)} | {(a, a) for a in range(4)}
    assert set(taken) == set(product(range(4), repeat=2)) - singular
    assert set(taken.values()) == {1}


def test_cells_have_the_declared_law():
    """Over all matrices: each cell with 1/b, two words meet with 1/b, and two meet a third one independently."""
    outcomes = enumerate_outcomes(lambda source: tuple(source.words(3, 2).tolist()))
    assert len(outcomes) == 64
    meetings = Counter()
    for columns, mass in outcomes.items():
        made = Functions(bits=3, buckets=4, stir=(1, 2, 4), lengths=(3,), rows=(columns,))
        cells = made.find_cells(np.arange(8))[0].tolist()
        for x, y in product(range(8), repeat=2):
            if x < y:
                meetings[x, y] += mass * (cells[x] == cells[y])
                for z in set(range(8)) - {x, y}:
                    meetings[x, y, z] += mass * (cells[x] == cells[z]) * (cells[y] == cells[z])
    for who, chance in meetings.items():
        assert chance == Fraction(1, 4) ** (len(who) - 1), who


def test_rows_of_prefixes_look_at_the_first_bits_only():
    made = draw_functions(bits=10, buckets=64, lengths=(4, 10), source=sdp.SeededWords(5))
    words = np.arange(1 << 10)
    cells, stirred = made.find_cells(words), made.stir_words(words)
    assert len(set(stirred.tolist())) == 1 << 10
    assert made.unstir(stirred).tolist() == words.tolist()
    for prefix in range(16):
        assert len(set(cells[0][stirred >> 6 == prefix].tolist())) == 1
    tails = made.find_tails(1, 4)  # all continuations of a prefix are an XOR away
    for word in (0, 77, 1023):
        y = int(stirred[word])
        head = made.find_cells(made.unstir(np.array([y >> 6 << 6])))[1, 0]
        assert head ^ tails[y & 63] == cells[1, word]
    own = made.find_own_cells(words, words % 2)
    assert own.tolist() == cells[words % 2, words].tolist()


@pytest.mark.parametrize("size", [1, 5, 64])
def test_inverse_matrices(size):
    made = draw_functions(bits=size, buckets=2, lengths=(), source=sdp.SeededWords(size))
    assert invert_matrix(made.back) == made.stir


# --- privacy


def make_device(*, rows, buckets, surely, threshold, seed, bits=2, word_bits=3):
    noise = DummiesHistogram(
        k=rows * buckets, surely=surely, threshold=threshold, word_bits=word_bits
    )
    part = HashedPart(levels=((bits, rows),), buckets=buckets, noise=noise)
    return HashedPrefixes(domain=Keys(bits=bits), parts=(part,), seed=seed)


@pytest.mark.parametrize(
    ("rows", "buckets", "surely", "threshold"),
    [(1, 4, 1, 0), (2, 2, 1, 0), (2, 2, 1, 3), (4, 2, 0, 7)],
)
def test_no_functions_are_worse_than_disjoint_cells(rows, buckets, surely, threshold):
    """Words that share some rows, all rows or none, and an adversary who holds any words: within two bins' delta."""
    shared, exact = set(), []
    for seed in range(12):
        device = make_device(
            rows=rows, buckets=buckets, surely=surely, threshold=threshold, seed=seed
        )
        cells = device.functions.find_cells(np.arange(4))
        shared |= {int((cells[:, x] == cells[:, y]).sum()) for x in range(4) for y in range(x)}
        laws = [device.pmf(x) for x in range(4)]
        for users, epsilon in ((1, 0.5), (2, 0.5), (2, 1.0)):
            claim = device.parts[0].delta(users, epsilon)
            found = float(shuffled_delta(laws, users, exp_lower(epsilon)))
            assert found <= claim * (1 + 1e-9), (seed, users, epsilon)
            exact.append(found / claim)
    assert shared == set(range(rows + 1))  # all ways to collide were tried
    assert max(exact) > 0.999  # disjoint cells are exactly as bad


def test_a_part_that_forgot_its_rows_would_be_refuted():
    """The mutant twin: dummies over one row's cells only hide one row of many."""
    device = make_device(rows=2, buckets=2, surely=1, threshold=0, seed=0)
    laws = [device.pmf(x) for x in range(4)]
    noise = device.parts[0].noise
    wrong = dummies(n=2, rho=2 * noise.rho, pair=2 * device.parts[0].rows * noise.hit).delta(0.5)
    assert float(shuffled_delta(laws, 2, exp_lower(0.5))) > wrong


def test_joint_guarantee_of_two_parts_is_not_the_sum():
    made = hashed_prefixes.make(n=10**6, bits=64, epsilon=1.0, delta=1e-8, honest=1.0, seed=1)
    (one, two) = made.randomizer.parts
    assert one.noise.rho == two.noise.rho
    together = made.accountant.delta(10**6, 1.0)
    assert one.delta(10**6, 0.5) > 1e-8  # basic composition would not do
    assert together <= 1e-8
    mu = float(10**6 * two.rows * two.noise.rho * two.noise.hit)
    assert 109.0 < mu < 110.5  # computed elsewhere: 109.35


# --- dealing


def test_dealt_words_have_the_law_of_the_messages():
    device = make_device(rows=2, buckets=2, surely=1, threshold=0, seed=4, word_bits=2)
    held, times = np.array([0, 3], dtype=np.uint64), np.array([1, 1])
    dealt = enumerate_outcomes(
        lambda source: tuple(
            (device.deal_words(held, times, source) + device.deal_noise(2, source)).tolist()
        )
    )
    law = Counter()
    for (one, p), (two, q) in product(device.pmf(0).items(), device.pmf(3).items()):
        law[tuple(np.bincount([*one, *two], minlength=device.cells).tolist())] += p * q
    assert dealt == {counts: mass for counts, mass in law.items() if mass}


def fit_cells(device, n, seed, dealer=None):
    """The squared error of the cells of all parts, each divided by its variance."""
    codes, times = np.array([5, 77], dtype=np.uint64), np.array([n // 4, 3 * n // 4])
    source = sdp.SeededWords(seed)
    dealer = dealer or device
    counts = dealer.deal_words(codes, times, source) + dealer.deal_noise(n, source)
    own = device.functions.find_cells(codes)
    terms = []
    for part, row, cell in device.place_parts():
        table = counts[cell : cell + part.cells].reshape(part.rows, part.buckets)
        mean = np.full(table.shape, n * float(part.noise.rho * part.noise.hit))
        variance = mean.copy()
        for word, people in enumerate(times.tolist()):
            here = np.arange(part.rows), own[row : row + part.rows, word]
            mean[here] += people / part.rows
            variance[here] += people / part.rows * (1 - 1 / part.rows)
        terms.append(((table - mean) ** 2 / variance).ravel())
    return np.concatenate(terms)


def test_dealt_at_64_bits_and_a_mutant(small):
    device = small.randomizer
    assert device.word_bits == 64
    terms = fit_cells(device, 20_000, 11)
    # The fourth moment of a Poisson cell of mean m is 3 m^2 + m: a little more spread than a normal one has.
    mean = float(20_000 * device.parts[0].noise.rho * device.parts[0].noise.hit)
    limit = norm.isf(ALPHA / 2) * np.sqrt(terms.size * (2 + 1 / mean))
    assert abs(terms.sum() - terms.size) < limit
    noise = device.parts[0].noise
    louder = replace(noise, surely=noise.surely + 1)
    mutant = replace(device, parts=(replace(device.parts[0], noise=louder), *device.parts[1:]))
    wrong = fit_cells(device, 20_000, 11, dealer=mutant)
    assert abs(wrong.sum() - wrong.size) > limit


def test_many_dummies_are_dealt_like_few(monkeypatch):
    noise = DummiesHistogram(k=4, surely=1, threshold=1, word_bits=2)
    few = enumerate_outcomes(
        lambda s: tuple(hashed_prefixes.device._deal_dummies(noise, 2, s).tolist())
    )
    monkeypatch.setattr(hashed_prefixes.device, "_DENSE", 0)
    many = enumerate_outcomes(
        lambda s: tuple(hashed_prefixes.device._deal_dummies(noise, 2, s).tolist())
    )
    assert few == many


# --- what is found


def plant(made, counts, seed, prefix_bits=0):
    """Random words, some of which begin alike, held by these `counts` of people; the rest of the crowd has words of its own."""
    rng = np.random.default_rng(seed)
    domain, n = made.randomizer.domain, made.users
    span = domain.bits - prefix_bits
    words = (
        rng.integers(0, 1 << span, len(counts), dtype=np.uint64)
        if span < 64
        else rng.integers(0, 2**64, len(counts), dtype=np.uint64)
    )
    lonely = rng.integers(0, 1 << min(domain.bits, 63), n - sum(counts), dtype=np.uint64)
    codes, times = np.unique(np.concatenate((np.repeat(words, counts), lonely)), return_counts=True)
    source = sdp.SeededWords(seed)
    cells = made.randomizer.deal_words(codes, times, source)
    tally = Tally(counts=cells + made.randomizer.deal_noise(n, source), users=n)
    return words, tally


LEVELS = {"bits": 24, "parts": [[[10, 11], [15, 11], [20, 10]], [[24, 16]]]}
FEW = {"bits": 22, "parts": [[[10, 16], [16, 16]], [[22, 16]]]}


@pytest.fixture(scope="module")
def small():
    """Four levels, each of few candidates: quick."""
    return hashed_prefixes.make(
        n=20_000, **LEVELS, buckets=1024, epsilon=1.0, delta=1e-6, honest=1.0, seed=11
    )


@pytest.fixture(scope="module")
def few():
    return hashed_prefixes.make(
        n=5_000, **FEW, buckets=512, epsilon=2.0, delta=1e-6, honest=1.0, seed=1
    )


def reseed(made, seed):
    """The same protocol with other functions."""
    device = replace(made.randomizer, seed=seed)
    offers = replace(made.offers, deal=device.deal, stream=device)
    analyzer = hashed_prefixes.WordsAnalyzer(device=device)
    return replace(made, randomizer=device, analyzer=analyzer, offers=offers)


@pytest.mark.parametrize("prefix_bits", [0, 12])
def test_large_words_are_found_and_counted(small, prefix_bits):
    counts = [6000, 2500, 2500, 900, 400, 300, 250, 200, 200, 200]
    words, tally = plant(small, counts, seed=prefix_bits + 1, prefix_bits=prefix_bits)
    estimate = small.analyzer.estimate(tally)
    found = dict(zip(map(int, estimate.labels), estimate.value, strict=True))
    assert set(found) == set(words.tolist())
    errors = [found[int(word)] - count for word, count in zip(words, counts, strict=True)]
    assert np.abs(np.array(errors) / estimate.stderr).max() < 6
    assert estimate.value.tolist() == sorted(estimate.value, reverse=True)
    assert (estimate.interval(0.95).low <= estimate.value).all()


def test_nothing_is_found_where_nobody_agrees(small):
    _, tally = plant(small, [], seed=3)
    estimate = small.analyzer.estimate(tally)
    assert len(estimate.value) == 0
    assert estimate.labels == ()


ONE_PART = {"bits": 20, "parts": [[[12, 8], [20, 8]]]}
TWO_PARTS = {"bits": 20, "parts": [[[12, 8]], [[20, 8]]]}


def count_chosen(layout, runs):
    """Errors over standard errors of words chosen before looking: large, of any count, and of nobody."""
    base = hashed_prefixes.make(
        n=6_000, **layout, buckets=256, epsilon=2.0, delta=1e-6, honest=1.0, seed=1
    )
    found = []
    for seed in range(runs):
        made, rng = reseed(base, 100 + seed), np.random.default_rng(seed)
        counts = [1500, *rng.integers(0, 150, 20).tolist(), *[0] * 40]
        words, tally = plant(made, counts, seed=seed)
        asked = made.analyzer.count(tally, words.tolist())
        found.append((asked.value - counts) / asked.stderr)
    return np.concatenate(found)


def are_standard(z):
    """Whether these could be standard normal, by their mean and by their squares."""
    limit = norm.isf(ALPHA / 4)
    mean, squares = z.sum() / np.sqrt(z.size), (np.square(z) - 1).sum() / np.sqrt(2 * z.size)
    return bool(abs(mean) < limit), bool(abs(squares) < limit)


@pytest.mark.parametrize("layout", [ONE_PART, TWO_PARTS])
def test_chosen_words_are_counted_without_bias(layout):
    """Found or not, and beside a word of a quarter of the crowd; errors are what is stated, and no 20 % off."""
    z = count_chosen(layout, runs=25)
    assert are_standard(z) == (True, True)
    assert not are_standard(z + 0.25)[0]
    assert not are_standard(z * 1.2)[1]
    assert not are_standard(z / 1.2)[1]


def look_for(few, seed, count):
    """Whether a word of that many people is found, and what could be seen.

    Beside it are larger and smaller words of random counts, all with a random number of first bits in common.
    """
    made, rng = reseed(few, 1000 + seed), np.random.default_rng(seed)
    counts = [count, *rng.integers(1, 800, 4).tolist()]
    words, tally = plant(made, counts, seed=seed, prefix_bits=int(rng.integers(0, 13)))
    estimate = made.analyzer.estimate(tally)
    return str(words[0]) in estimate.labels, estimate.error.sight


def find_share(few, seeds, count):
    """In how many runs it is found, and what was declared on average."""
    runs = [look_for(few, seed, count) for seed in seeds]
    declared = np.mean([sight.find_probability(count) for _, sight in runs])
    return sum(found for found, _ in runs), float(declared)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [0.5, 0.9])
def test_declared_curve_against_200_runs(few, wanted):
    """Words are found at least as often as declared, and hardly more often; a curve for fewer people is refuted."""
    sights = [look_for(few, seed, 40)[1] for seed in range(200, 207)]
    count = int(np.median([sight.find_count(wanted) for sight in sights]))
    found, declared = find_share(few, range(200), count)
    assert abs(declared - wanted) < 0.15
    assert binom.cdf(found, 200, declared) > ALPHA
    assert binom.sf(found - 1, 200, min(0.999, declared + 0.1)) > ALPHA
    assert binom.cdf(found, 200, sights[0].find_probability(2 * count)) < ALPHA


def test_a_declared_curve_is_met_in_a_few_runs(few):
    sight = few.analyzer.predict(5_000)
    found, declared = find_share(few, range(12), sight.find_count(0.999))
    assert declared > 0.95
    assert found == 12
    none, declared = find_share(few, range(12), max(1, sight.find_count(0.02) // 3))
    assert none == 0
    assert declared < 0.02


def test_an_adversary_who_makes_words_collide_adds_less_than_by_having_the_word():
    """Everybody else holds the word that shares most rows with a victim's word, of all words there are."""
    made = hashed_prefixes.make(
        n=15_300, bits=16, parts=[[[16, 16]]], buckets=512, epsilon=1.0, delta=1e-6, seed=4
    )
    device, victim = made.randomizer, 12_345
    cells = device.functions.find_cells(np.arange(1 << 16))
    meets = (cells == cells[:, [victim]]).sum(axis=0)
    meets[victim] = 0
    rival = int(np.argmax(meets))
    assert 1 < meets[rival] < 8
    source = sdp.SeededWords(9)
    codes = np.array(sorted([victim, rival]), dtype=np.uint64)
    held = device.deal_words(codes, np.where(codes == victim, 300, 15_000), source)
    tally = Tally(counts=held + device.deal_noise(15_300, source), users=15_300)
    estimate = made.analyzer.estimate(tally)
    found = dict(zip(map(int, estimate.labels), estimate.value, strict=True))
    assert set(found) == {victim, rival}  # nothing else, and the victim's count is not the rival's
    assert abs(found[victim] - 300) < 120
    assert abs(found[rival] - 15_000) < 120


@pytest.mark.parametrize("elements", [1 << 18, 1 << 12, 1 << 8])
def test_sums_by_a_transform_are_those_looked_up(monkeypatch, elements):
    """Whole prefixes in a block, several, and parts of one."""
    functions = draw_functions(bits=14, buckets=8, lengths=(14, 14, 14), source=sdp.SeededWords(3))
    rng = np.random.default_rng(3)
    tables, heads = rng.poisson(5.0, (2, 8)).astype(np.float32), rng.integers(0, 8, (2, 9))
    expected = np.zeros((9, 1 << 11))
    for row, table, head in zip((0, 2), tables, heads, strict=True):
        expected += table[head[:, None] ^ functions.find_tails(row, 3)[None, :]]
    monkeypatch.setattr(decoder, "_ELEMENTS", elements)
    for look in (0.0, 1e9):  # so much does it cost to look a cell up
        monkeypatch.setattr(decoder, "_LOOK", look)
        found = np.full(expected.shape, np.nan)
        for first, begin, sums in decoder.scan_sums(functions, (0, 2), 3, tables, heads):
            found[first : first + len(sums), begin : begin + sums.shape[1]] = sums
        np.testing.assert_allclose(found, expected, atol=1e-3)


# --- design


def test_the_budget_decides_the_design():
    crowd, promise = Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8)
    for budget in (1.5, 2.1, 12.0):
        made = hashed_prefixes.make(
            n=10**6, bits=64, epsilon=1.0, delta=1e-8, honest=1.0, max_messages=budget, seed=1
        )
        assert made.cost.messages_mean <= budget
    counts = [
        design.predict(
            design.choose_design(64, crowd, promise, budget),
            n=10**6,
            mu=joint_poisson_level(
                parts=len(design.choose_design(64, crowd, promise, budget).parts),
                epsilon=promise.epsilon,
                delta=promise.delta,
            ),
        ).find_count()
        for budget in (1.5, 2.1, 4.0, 12.0, 40.0)
    ]
    assert counts == sorted(counts, reverse=True)


def test_too_few_people_are_refused_with_the_number_needed():
    with pytest.raises(sdp.UnsupportedError, match=r"n=50 people are too few .* at least") as said:
        sdp.words(n=50, alphabet="letters", max_length=8, epsilon=1.0, delta=1e-6)
    needed = int(str(said.value).split("at least ")[1].split()[0].replace(",", ""))
    made = sdp.words(n=needed, alphabet="letters", max_length=8, epsilon=1.0, delta=1e-6)
    codes = made.randomizer.domain.codes(["cat"])
    source = sdp.SeededWords(1)
    cells = made.randomizer.deal_words(codes, np.array([needed]), source)
    tally = Tally(counts=cells + made.randomizer.deal_noise(needed, source), users=needed)
    assert made.analyzer.estimate(tally).labels == ("cat",)


def test_bad_parameters():
    common = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(sdp.ParameterError, match=r"max_messages=1\.0 must be > 1"):
        hashed_prefixes.make(**common, bits=8, max_messages=1.0)
    with pytest.raises(sdp.ParameterError, match="alphabet"):
        hashed_prefixes.make(**common)
    with pytest.raises(sdp.ParameterError, match="max_length"):
        hashed_prefixes.make(**common, alphabet="letters")
    with pytest.raises(sdp.ParameterError, match="is for texts"):
        hashed_prefixes.make(**common, bits=8, max_length=3)
    with pytest.raises(sdp.ParameterError, match="rows=3 of a part must be a power of two"):
        hashed_prefixes.make(**common, bits=8, parts=[[[8, 3]]], buckets=4)
    with pytest.raises(sdp.ParameterError, match="must end with all 8 bits"):
        hashed_prefixes.make(**common, bits=8, parts=[[[7, 2]]], buckets=4)
    with pytest.raises(sdp.ParameterError, match="buckets must be given with parts"):
        hashed_prefixes.make(**common, bits=8, parts=[[[8, 2]]])


def test_sums_of_cells():
    values = np.random.default_rng(1).poisson(3.0, 100_000).astype(float) - 3.0
    limit = decoder.sum_quantiles(values, 16, 1e-6)[-1]
    from scipy.stats import poisson

    assert abs(limit - (poisson.isf(1e-6, 48.0) - 48.0)) <= 2


def cover_reported(count, level, threshold=100.0, stderr=10.0, selective=True):
    """How often the interval of a normal number around `count` covers it, given that it exceeds the threshold."""
    values = np.linspace(threshold, max(count, threshold) + 12 * stderr, 40_001)[1:]
    density = norm.pdf(values, count, stderr)
    sight = design.LevelSight(shares=(1.0,), means=(1.0,), limits=(1.0,))
    error = hashed_prefixes.WordsError(
        stderr=np.full(len(values), stderr),
        threshold=threshold if selective else -np.inf,
        sight=sight,
    )
    low, high = error.interval(values, level)
    return float(density[(low <= count) & (count <= high)].sum() / density.sum())


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_intervals_of_reported_words_cover(level):
    """Near the threshold and far above it; with the interval of a word that was chosen before looking, they do not."""
    covered = [cover_reported(count, level) for count in (60, 80, 95, 100, 110, 130, 200)]
    assert min(covered) >= level - 1e-3
    assert covered[-1] < level + 1e-3
    assert cover_reported(80, level, selective=False) < level - 1e-3


@pytest.mark.parametrize("bit", [0, 15, 16, 31, 32, 52])
def test_every_bit_of_a_seed_counts(few, bit):
    """Functions of 16-bit seeds could be tabulated, and words be chosen that all of them confuse."""
    one, other = (replace(few.randomizer, seed=seed) for seed in (1, 1 ^ (1 << bit)))
    assert one.functions.rows != other.functions.rows
    assert one.functions.stir != other.functions.stir


def test_seeds_are_drawn_from_all_bits():
    drawn = [hashed_prefixes.draw_seed() for _ in range(64)]
    assert len(set(drawn)) == 64
    assert max(drawn) >= 1 << 52  # all below: probability 2^-64
    assert any(seed & 1 for seed in drawn)
