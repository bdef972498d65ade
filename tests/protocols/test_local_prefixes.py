"""Words of the local model: the law of the functions, sums by transform and by hand, and what is found."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm, poisson

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.core.texts import Keys
from shuffledp.engine.local import tally_each
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import local_prefixes
from shuffledp.protocols.local_prefixes import LocalPrefixes, Polynomials
from shuffledp.testing import ALPHA, Examples

TINY = {"bits": 3, "seed": 4, "lengths": [2, 3], "rows": [1, 3], "buckets": 2}
EXAMPLES = Examples(
    local_prefixes.SPEC,
    local=(
        {"bits": 12, "epsilon": 1.0, "seed": 1},
        {"bits": 24, "lengths": [12, 24], "epsilon": 3.0, "seed": 1},
    ),
    local_tiny=(
        {**TINY, "epsilon": 1.0, "word_bits": 4},
        {**TINY, "epsilon": 2.0, "buckets": 4, "rows": [2, 2], "word_bits": 5},
        {"bits": 2, "seed": 9, "rows": [2], "lengths": [2], "epsilon": 1.0, "word_bits": 5},
    ),
    shuffled=({"n": 100_000, "bits": 14, "epsilon": 1.0, "delta": 1e-8, "seed": 1},),
    shuffled_tiny=(
        {
            **TINY,
            "n": 3,
            "lengths": [3],
            "rows": [2],
            "epsilon": 1.0,
            "delta": 0.1,
            "honest": 1.0,
            "word_bits": 5,
        },
    ),
)
RUNS, PLANTED = 60, 5
SMALL = {"bits": 16, "lengths": [8, 16], "rows": [200, 312], "epsilon": 3.0, "seed": 5}


# --- the public functions


def test_a_row_is_any_linear_map_and_two_rows_are_independent():
    """Two coefficients, over all of them: every pair of maps in two rows is equally likely."""
    seen = Counter()
    for numbers in product(range(4), repeat=4):
        made = Polynomials(bits=2, buckets=4, coefficients=(numbers[:2], numbers[2:]), field=2)
        maps = [made.find_cells(np.arange(4), np.full(4, row)).tolist() for row in (1, 3)]
        for cells in maps:
            assert cells[0] == 0
            assert cells[3] == cells[1] ^ cells[2]
        seen[tuple(map(tuple, maps))] += 1
    assert len(seen) == 16**2
    assert set(seen.values()) == {1}


def test_with_one_coefficient_rows_would_be_the_same():
    """The mutant of the test above."""
    made = Polynomials(bits=2, buckets=4, coefficients=((1, 2),), field=2)
    cells = [made.find_cells(np.arange(4), np.full(4, row)).tolist() for row in range(4)]
    assert cells[0] == cells[1] == cells[2]


def make_device(seed=3, buckets=8, bits=14, lengths=(6, 14), rows=(12, 20), epsilon0=2.0):
    return LocalPrefixes(
        domain=Keys(bits=bits),
        lengths=lengths,
        rows=rows,
        buckets=buckets,
        seed=seed,
        epsilon0=epsilon0,
    )


def test_tables_agree_with_single_cells():
    device = make_device()
    codes = np.arange(0, 1 << 14, 37, dtype=np.uint64)
    stirred = device.stirring.stir_words(codes)
    counts = np.ones((20, 8), dtype=np.int64)
    level = local_prefixes.Level.of(device, 1, counts)
    cells = level.find_cells(stirred)
    for row in (0, 7, 19):
        expected = device.find_cells(codes, np.full(len(codes), 12 + row))
        np.testing.assert_array_equal(cells[row], expected)


def test_rows_of_a_level_look_at_its_first_bits():
    device = make_device()
    codes = np.arange(1 << 14, dtype=np.uint64)
    prefix = device.stirring.stir_words(codes) >> np.uint64(8)
    cells = device.find_cells(codes, np.full(len(codes), 5))
    for each in range(64):
        assert len(set(cells[prefix == each].tolist())) == 1
    assert len(set(device.find_cells(codes, np.full(len(codes), 12))[prefix == 9].tolist())) > 1


@pytest.mark.parametrize("seed", range(6))
def test_no_functions_weaken_the_device(seed):
    """Whoever chose them: all words, all messages, exactly."""
    device = LocalPrefixes(
        domain=Keys(bits=3), lengths=(1, 3), rows=(2, 2), buckets=4, seed=seed, epsilon0=1.5
    )
    laws = [device.pmf(x) for x in range(8)]
    ratios = {one[sent] / other[sent] for one, other in product(laws, repeat=2) for sent in one}
    assert max(ratios) <= exp_lower(1.5)
    assert all(sum(law.values()) == 1 for law in laws)


# --- sums


def test_all_sums_are_one_transform():
    """Of every continuation of some prefixes, against sums over the cells one by one."""
    device = make_device()
    counts = np.random.default_rng(1).integers(0, 50, (20, 8))
    level = local_prefixes.Level.of(device, 1, counts)
    parents = np.array([0, 5, 63], dtype=np.uint64)
    every = (parents[:, None] << np.uint64(8) | np.arange(256, dtype=np.uint64)).ravel()
    sums = level.excess[np.arange(20)[:, None], level.find_cells(every)].sum(axis=0)
    limit = float(np.sort(sums)[-40])
    hits = local_prefixes._scan(level, level.excess, parents, limit - 1e-9)
    assert set(hits.tolist()) == set(every[sums > limit - 1e-9].tolist())


@pytest.mark.parametrize("given", EXAMPLES.local_tiny, ids=["two", "four", "one level"])
def test_what_a_message_adds_is_unbiased_but_for_meetings(given):
    """A person of word x adds unit to the sum of x, and unit (meetings - 1/g) / (1 - 1/g) to that of another word."""
    made = local_prefixes.make_local(**given)
    device, place = made.randomizer, len(made.randomizer.lengths) - 1
    first, g = device.starts[place], device.buckets
    words = np.arange(device.domain.size, dtype=np.uint64)
    stirred = device.stirring.stir_words(words)
    added = {}
    for message in range(device.alphabet):
        counts = np.zeros(device.alphabet, dtype=np.int64)
        counts[message] = 1
        level = local_prefixes.Level.of(device, place, counts.reshape(-1, g)[first:])
        cells = level.find_cells(stirred)
        added[message] = level.excess[np.arange(len(cells))[:, None], cells].sum(axis=0)
    every = np.array([*added.values()]) / level.unit
    assert np.ptp(every, axis=0).max() == pytest.approx(1 / level.unit)
    for x in range(device.domain.size):
        mean = sum(float(mass) * added[sent] for (sent,), mass in device.pmf(x).items())
        meetings = (cells == cells[:, [x]]).mean(axis=0)
        np.testing.assert_allclose(mean, level.unit * (meetings - 1 / g) / (1 - 1 / g), atol=1e-12)


def test_one_message_can_decide_whether_a_word_is_peeled_or_not():
    """It moves the count of another word by far more than it adds to its own: no influence is stated."""
    made = local_prefixes.make_local(**SMALL)
    device = made.randomizer
    rows, words = np.arange(device.all_rows), np.array([12345, 25473], dtype=np.uint64)
    cells = [device.find_cells(np.full(len(rows), word), rows) for word in words]
    even = np.full((device.all_rows, device.buckets), 40)
    even[rows, cells[0]] += 40

    def count(messages):
        """Of both words, with this many more messages in the cells of the second, row by row."""
        counts = even.copy()
        counts[rows, cells[1]] += messages // len(rows)
        counts[rows[: messages % len(rows)], cells[1][: messages % len(rows)]] += 1
        found = made.analyzer.find(Tally(counts=counts.ravel(), users=int(counts.sum())))
        values = dict(zip(found.codes.tolist(), found.values.tolist(), strict=True))
        return np.array([values.get(int(word), 0.0) for word in words])

    low, high = 5 * len(rows), 6 * len(rows)
    first, last = count(low)[0], count(high)[0]
    while high - low > 1:
        middle = (low + high) // 2
        like_first = abs(count(middle)[0] - first) < abs(count(middle)[0] - last)
        low, high = (middle, high) if like_first else (low, middle)
    moved = np.abs(count(high) - count(low))
    own = 1 / made.analyzer.predict(int(even.sum())).shares[-1]
    assert moved[0] > 10 * own
    assert moved[0] <= made.analyzer.influence()


def test_meetings_are_as_many_as_they_should_be():
    """Over functions: the mean and the variance of the share of rows in which two words meet."""
    shares = []
    for seed in range(400):
        device = make_device(seed=seed, bits=20, lengths=(20,), rows=(64,), buckets=4)
        rows = np.arange(64)
        one, other = (device.find_cells(np.full(64, x, dtype=np.uint64), rows) for x in (77, 4242))
        shares.append(np.mean(one == other))
    spread = np.sqrt(0.25 * 0.75 / 64)
    assert abs(np.mean(shares) - 0.25) < norm.isf(ALPHA) * spread / np.sqrt(400)
    assert np.var(shares) == pytest.approx(spread**2, rel=0.5)


def test_large_words_are_peeled():
    """Without noise: what two words add is taken off exactly, where their rows meet others' as well."""
    device = make_device(rows=(12, 20), epsilon0=20.0)
    codes = np.array([100, 9000], dtype=np.uint64)
    counts = np.zeros((20, 8))
    stirred = device.stirring.stir_words(codes)
    blank = local_prefixes.Level.of(device, 1, np.ones((20, 8), dtype=np.int64))
    for word, people in zip(stirred, (32_000, 3_200), strict=True):
        cells = blank.find_cells(np.array([word]))[:, 0]
        counts[np.arange(20), cells] += people / 32
    level = local_prefixes.Level.of(device, 1, counts.astype(np.int64))
    values, left = level.fit(stirred, -np.inf)
    np.testing.assert_allclose(values, [32_000, 3_200], rtol=1e-2)
    assert np.abs(left).max() < 10


def test_thresholds_are_wider_where_rows_are_uneven():
    """A word of everybody makes the sums of others spread; once it is peeled, they do not."""
    made = local_prefixes.make_local(**SMALL)
    device, n = made.randomizer, 4000
    crowd = tally_each(made, np.full(n, 77, dtype=np.uint64), sdp.SeededWords(1))
    level = local_prefixes.Level.of(device, 1, crowd.counts.reshape(-1, device.buckets)[200:])
    uneven = local_prefixes._spread(level.excess)
    even = level.people / 16 * (1 - 1 / 16)
    assert uneven > 1.5 * even
    narrow, wide = (
        local_prefixes.limit_sum(level.people, 16, 1e-6, each) for each in (even, uneven)
    )
    assert wide == pytest.approx(narrow * np.sqrt(uneven / even))
    own = device.stirring.stir_words(np.array([77], dtype=np.uint64))
    assert local_prefixes._spread(level.fit(own, 0.0)[1]) < 1.2 * even


def test_prefixes_near_the_threshold_are_not_peeled():
    """Noise that is subtracted from the cells of others is one more noise."""
    device = make_device()
    counts = np.random.default_rng(1).integers(0, 50, (20, 8))
    level = local_prefixes.Level.of(device, 1, counts)
    some = np.arange(100, dtype=np.uint64)
    values, left = level.fit(some, np.inf)
    np.testing.assert_array_equal(left, level.excess)
    clearly = float(np.sort(values)[-3])
    assert np.count_nonzero((level.fit(some, clearly)[1] != level.excess).any(axis=1)) > 0


# --- what is found


def find_some(count, n=4000):
    """How many of five words, of this many people each, are found in some runs, and what the answers said."""
    made = local_prefixes.make_local(**SMALL)
    rng = np.random.default_rng(8)
    hits, false, values, errors = 0, 0, [], []
    for run in range(RUNS):
        words = rng.integers(0, 1 << 16, PLANTED)
        others = rng.integers(0, 1 << 16, n - PLANTED * count)
        people = np.concatenate((np.repeat(words, count), others)).astype(np.uint64)
        tally = tally_each(made, people, sdp.SeededWords(run))
        found, planted = set(made.analyzer.estimate(tally).labels), set(map(str, words.tolist()))
        hits += len(found & planted)
        false += len(found - planted)
        counted = made.analyzer.count(tally, words[:1])
        values.append(float(counted.value[0]))
        errors.append(float(counted.stderr[0]))
    return hits, false, np.array(values), np.array(errors), made.analyzer.predict(n)


@pytest.fixture(scope="module")
def found():
    predicted = local_prefixes.make_local(**SMALL)
    count = predicted.analyzer.predict(4000).find_count(0.7)
    return count, *find_some(count)


def test_words_are_found_as_often_as_predicted(found):
    """At least as often as declared: a word fails at one of the levels, and the sum of these is a bound."""
    count, hits, *_, predicted = found
    chance = predicted.find_probability(count)
    assert 0.7 <= chance < 0.75
    assert binom.cdf(hits, RUNS * PLANTED, chance) > ALPHA
    assert binom.sf(hits - 1, RUNS * PLANTED, min(1.0, chance + 0.1)) > ALPHA


def test_half_as_many_people_would_be_noticed(found):
    """The mutant of the test above."""
    _, hits, *_, predicted = found
    less = predicted.find_probability(found[0] // 2)
    assert binom.sf(hits - 1, RUNS * PLANTED, less) < ALPHA


def test_hardly_a_false_word_is_found(found):
    assert poisson.sf(found[2] - 1, 0.01 * RUNS) > ALPHA


def test_counts_of_chosen_words_have_the_stated_error(found):
    count, _, _, values, errors, _ = found
    scaled = (values - count) / errors
    assert abs(scaled.mean()) < norm.isf(ALPHA) / np.sqrt(RUNS)
    assert 0.6 < scaled.std() < 1.4


def test_the_stated_error_is_the_declared_variance():
    """Of a word that nobody has; of one that everybody has, that of Bin(n, share p) and the like."""
    made = local_prefixes.make_local(**SMALL)
    people = np.arange(4000, dtype=np.uint64) % (1 << 15)
    counted = made.analyzer.count(tally_each(made, people, sdp.SeededWords(2)), [1 << 15])
    declared = float(made.analyzer.variance(np.array([4000])))
    assert counted.stderr[0] ** 2 == pytest.approx(declared, rel=0.2)


def test_nobody_and_everybody():
    made = local_prefixes.make_local(**SMALL)
    nobody = Tally(counts=np.zeros(made.randomizer.alphabet, dtype=np.int64), users=0)
    assert len(made.analyzer.find(nobody).codes) == 0
    everybody = made.analyzer.estimate(
        tally_each(made, np.full(3000, 77, dtype=np.uint64), sdp.SeededWords(1))
    )
    assert everybody.labels == ("77",)
    assert everybody.value[0] == pytest.approx(3000, abs=6 * everybody.stderr[0])


def test_the_variance_is_that_of_local_hashing():
    """4 e^epsilon / (e^epsilon - 1)^2 n at the best g (Wang, Blocki, Li, Jha 2017), where there is one level."""
    made = local_prefixes.make_local(bits=16, lengths=[16], epsilon=1.0, seed=5)
    best = 4 * np.e / (np.e - 1) ** 2 * 10**6
    assert best < made.analyzer.variance(np.array([10**6])) < 1.01 * best


def test_a_shuffler_is_worth_a_threshold_many_times_smaller():
    """The same question in the local and in the shuffle model; one message may be enough for the latter."""
    plan = sdp.plan("words", n=10**6, bits=64, epsilon=1.0, delta=1e-8)
    found = {(row.protocol, row.model.value): row.found for row in plan.rows}
    alone = found["local_prefixes", "local"]
    assert alone > 20 * found["hashed_prefixes", "shuffle"]
    assert alone > 20 * found["local_prefixes", "shuffle"]
    assert found["stability_histogram", "central"] < found["hashed_prefixes", "shuffle"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bits": None}, "must be given with max_length, or else bits"),
        ({"lengths": [8]}, "must rise by 1 to 24 bits each, and end with all 40"),
        ({"lengths": [40]}, "must rise by 1 to 24 bits each"),
        ({"lengths": [20, 20, 40]}, "must rise by 1 to 24 bits each"),
        ({"rows": [4, 3]}, "must be as many as lengths, with a power of two"),
        ({"rows": [4]}, "must be as many as lengths"),
        ({"buckets": 3}, "buckets=3 must be a power of two"),
        (
            {"buckets": 1 << 10, "rows": [1 << 14, 1 << 14], "lengths": [20, 40]},
            "with at most 1048576 cells",
        ),
        ({"seed": -1}, "seed=-1 must be >= 0"),
        ({"word_bits": 5}, "word_bits=5 must be >= 14"),
        ({"epsilon": 0.0}, "must be > 0"),
    ],
)
def test_bad_parameters_are_refused(change, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        local_prefixes.make_local(**{"bits": 40, "epsilon": 1.0, **change})


def test_too_few_people_are_refused_with_the_number_needed():
    task = {"task": "words", "bits": 40, "epsilon": 1.0}
    with pytest.raises(sdp.UnsupportedError, match="too few for any word to be seen") as refused:
        sdp.ask(list(range(300)), **task, model="local")
    needed = int(str(refused.value).split("at least ")[1].split(" ")[0].replace(",", ""))
    made = local_prefixes.make_local(bits=40, epsilon=1.0, seed=1)
    assert made.analyzer.predict(needed).find_count(0.95) <= needed
    fewer = int(0.98 * needed)
    assert made.analyzer.predict(fewer).find_count(0.95) > fewer


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_error_of_a_word_that_many_have_is_that_of_the_law(epsilon):
    """What the own people add varies, too: they draw another level, or another cell."""
    n, made = 10_000, local_prefixes.make_local(**{**SMALL, "epsilon": epsilon})
    device, word = made.randomizer, np.array([77], dtype=np.uint64)
    first, g, rows = device.starts[-1], device.buckets, device.rows[-1]
    cells = device.find_cells(np.repeat(word, rows), first + np.arange(rows))
    lead = float(device.response.p - device.response.q) * (1 - 1 / g)
    mean = square = 0.0
    for (message,), mass in device.pmf(77).items():
        row, cell = divmod(message, g)
        if row >= first:
            added = ((cell == cells[row - first]) - 1 / g) * device.all_rows / rows / lead
            mean, square = mean + float(mass) * added, square + float(mass) * added**2
    assert mean == pytest.approx(1)
    counted = made.analyzer.count(tally_each(made, np.repeat(word, n), sdp.SeededWords(1)), word)
    assert counted.stderr[0] == pytest.approx(np.sqrt(n * (square - 1)), rel=0.02)


def test_of_too_many_words_the_largest_are_peeled(monkeypatch):
    device = make_device(rows=(12, 20), epsilon0=20.0)
    stirred = device.stirring.stir_words(np.array([9000, 100, 77], dtype=np.uint64))
    blank = local_prefixes.Level.of(device, 1, np.ones((20, 8), dtype=np.int64))
    counts = np.zeros((20, 8), dtype=np.int64)
    for word, people in zip(stirred, (3_200, 32_000, 320), strict=True):
        counts[np.arange(20), blank.find_cells(np.array([word]))[:, 0]] += people // 32
    level = local_prefixes.Level.of(device, 1, counts)
    for most, least in ((1, 10_000), (2, 1_000), (3, -np.inf)):
        wanted = level.fit(stirred, least)[1]
        with monkeypatch.context() as patched:
            patched.setattr(local_prefixes, "_PEELED", most)
            np.testing.assert_array_equal(level.fit(stirred, -np.inf)[1], wanted)
    values = level.fit(stirred, np.inf)[0]
    peeled = level.fit(stirred, float(values.max()))[1]  # at the limit itself it is peeled
    assert (peeled != level.excess).any()
