"""Noise of the servers: errors of live collections, small groups included

Shuffler and analyzer each add discrete Laplace numbers of messages to every bin, cut at L; nobody else's honesty is
counted on. Here people are simulated, the noise of both servers is drawn, and what would be published is compared with
the truth: a histogram, a count, a floor among 80 people, the survey of the tutorial, and a mean.
"""

import math

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Reals
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.live.design import Settings, choose_protocols, foresee_error
from shuffledp.live.servers import add_noise
from shuffledp.questions import Survey
from shuffledp.show.style import BLUE, GREY, VERMILION, panels

ORDER = 84
PEOPLE = (30, 80, 300, 1_000, 10_000, 100_000)
FIVE = {"way": {"task": "histogram", "categories": ["car", "bicycle", "bus", "train", "other"]}}
TUTORIAL = {
    "way": {"task": "histogram", "categories": [f"choice {j}" for j in range(10)]},
    "home": {"task": "count"},
}
NO_FLOOR = {"local_epsilon": "none", "trust_the_shuffler": True}
MEAN = {"age": {"task": "mean", "lower": 0, "upper": 120}}


def plan(questions, people: int, delta: float = 1e-8, **collection):
    content = {"epsilon": 1.0, "delta": delta, "questions": questions}
    content["collection"] = {"people": people, **collection}
    survey = Survey.read(content)
    return choose_protocols(survey, Settings.read(survey))


def publish(question, places, words):
    """What the analyzer would publish of people at these places: both servers' noise is drawn anew."""
    people = len(places)
    tape = words.words(people * question.width, 64).reshape(people, question.width)
    sent = question.randomize(places, tape)
    counts = np.bincount(sent, minlength=question.noise.bins)
    shuffled = Tally(counts=counts + question.noise.draw(words), users=people)
    (noisy,) = add_noise([question], [shuffled], people, words)
    return question.protocol.analyzer.estimate(noisy)


def spread(people: int, bins: int):
    """Many in the first bin, few in the last: everybody's code."""
    shares = 1 / np.arange(1, bins + 1)
    return np.searchsorted(np.cumsum(shares / shares.sum()), (np.arange(people) + 0.5) / people)


def measure_bins(context: Context, design, people: int, trials: int):
    """Errors of every bin, trial by trial; tallies are dealt, with the exact law of what people and servers send."""
    (question,) = design.questions
    truth = np.bincount(spread(people, question.noise.bins), minlength=question.noise.bins)
    words = context.words(f"{design.pledge.local_epsilon} {people}")
    deal, analyzer = question.protocol.offers.deal, question.protocol.analyzer
    return np.array([analyzer.estimate(deal(truth, words)).value - truth for _ in range(trials)])


def measure_count(context: Context, trials: int) -> float:
    (question,) = plan({"home": {"task": "count"}}, 80, **NO_FLOOR).questions
    codes = (np.arange(80) % 3 == 0).astype(np.int64)
    errors = [
        float(publish(question, codes, context.words(f"count {trial}")).value) - codes.sum()
        for trial in range(trials)
    ]
    return rmse(errors)


def measure_widest(context: Context) -> float:
    """Half of the longest interval of the tutorial's first question."""
    design = plan(TUTORIAL, 3_005, **NO_FLOOR)
    question = design.questions[0]
    found = publish(question, spread(3_005, 10), context.words("tutorial"))
    low, high = found.exact_interval(0.95)
    return float(np.max(np.asarray(high) - np.asarray(low)) / 2)


def measure_mean(context: Context, trials: int) -> tuple[float, float, float]:
    """The error of a mean of 0..120 among 1,000, that of a curator, and the largest of rounding to the grid."""
    (question,) = plan(MEAN, 1_000, **NO_FLOOR).questions
    domain = question.protocol.randomizer.domain
    assert isinstance(domain, Reals)
    ages = context.generator("ages").beta(2, 3, 1_000) * 120
    places = domain.places(ages)
    errors = [
        float(publish(question, places, context.words(f"mean {trial}")).value) - ages.mean()
        for trial in range(trials)
    ]
    central = 0.12 * math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))
    return rmse(errors), central, 120 / domain.steps / 2 / math.sqrt(1_000)


def rmse(errors) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def run(context: Context) -> Result:
    trials = context.pick(quick=2_000, full=20_000)
    rows = []
    for people in PEOPLE:
        free = measure_bins(context, plan(FIVE, people, **NO_FLOOR), people, trials)
        floored = plan(FIVE, people, delta=1e-6, noise="servers")
        rare = measure_bins(context, floored, people, trials)[:, -1]
        devices = plan(FIVE, people, delta=1e-6, noise="devices")
        rows.append(
            {
                "people": people,
                "no floor": rmse(free),
                "floor 3, rarest bin": rmse(rare),
                "devices, floor 3": people * foresee_error(devices, people),
            }
        )
    few = trials // 10
    count, widest = measure_count(context, trials), measure_widest(context)
    mean, central, rounding = measure_mean(context, few)
    largest = max(row["no floor"] for row in rows)
    eighty = next(row["floor 3, rarest bin"] for row in rows if row["people"] == 80)
    return Result(
        verdicts=(
            Verdict(
                claim="a histogram of 5 without a floor errs by at most 4.1 people, from 30 people to 100,000",
                measured=f"at most {largest:.2f}",
                agrees=largest <= 4.1,
            ),
            Verdict(
                claim="a count without a floor errs by at most 2.0 people",
                measured=f"{count:.2f}",
                agrees=count <= 2.0,
            ),
            Verdict(
                claim="with a floor of 3 among 80 people a rare bin errs by at most 5.2 people",
                measured=f"{eighty:.2f}",
                agrees=eighty <= 5.2,
            ),
            Verdict(
                claim="no interval of the tutorial's survey of 3,005 people is wider than 20 people on either side",
                measured=f"{widest:.1f}",
                agrees=widest <= 20,
            ),
            Verdict(
                claim="a mean of 0..120 among 1,000 errs by at most three times a curator's, and the rounding of its grid",
                measured=f"{mean:.3f}, a curator's {central:.3f}, rounding {rounding:.3f}",
                agrees=mean <= 3 * central + rounding,
            ),
        ),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={"epsilon": 1.0, "delta": "1e-8, with a floor 1e-6", "trials": trials},
    )


def draw(rows) -> Drawn:
    figure, axes = panels(["A histogram of five"], x="people", y="root mean square error, people")
    (only,) = np.atleast_1d(axes)
    only.set_xscale("log")
    only.set_yscale("log")
    colours = {"no floor": BLUE, "floor 3, rarest bin": VERMILION, "devices, floor 3": GREY}
    for name, colour in colours.items():
        only.plot(
            [row["people"] for row in rows],
            [row[name] for row in rows],
            "o-",
            color=colour,
            label=name,
        )
    only.legend(frameon=False)
    return Drawn(name="servers", caption="Whose noise, and how much of it.", figure=figure)
