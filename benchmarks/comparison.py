"""Error and speed beside other tools, for docs/guides/comparison.md: `python benchmarks/comparison.py --save`.

What was measured is kept in comparison.json, and `make tables` writes it into the page.

The others live in an environment of their own, never in ours:

    python3 -m venv .venv-peers
    .venv-peers/bin/pip install -r benchmarks/requirements.txt

PEERS_PYTHON names another interpreter. Two papers come with a script instead of a package; put
`computeamplification.py` (github.com/apple/ml-shuffling-amplification) and `unifiedamplification.py`
(github.com/wangsw/PrivacyAmplification) into a folder and name it in SHUFFLE_SCRIPTS. What is missing is left out,
and said so.

This file has two roles, as peers.py has: it starts itself in that environment with the name of a contestant and reads
one line of JSON. Sizes are small, so that everything takes a minute or two on an idle core; `comparison.py OpenDP`
measures some of the tools. Times are CPU seconds, the best round; imports and compilation are not counted. Errors are
root mean squared errors of a bin over all rounds.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
RESULT = HERE.with_suffix(".json")
DEFAULT = HERE.parent.parent / ".venv-peers" / "bin" / "python"
N, K, EPSILON, DELTA, ROUNDS = 10_000, 16, 1.0, 1e-8, 40
MANY = 400  # rounds, where they cost little
LOCAL_EPSILON, AMPLIFIED, SMALL_DELTA = 1.0, 10_000, 1e-6
STEPS = 24  # of the scripts' searches: epsilon to seven digits or so
RR_EPSILON, REPEATED = 0.1, 100


def data() -> list[int]:
    """Few large groups and many small ones: the i-th has a share proportional to 1/i."""
    weights = [1 / (place + 1) for place in range(K)]
    counts = [int(N * weight / sum(weights)) for weight in weights]
    counts[0] += N - sum(counts)
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table: what, by whom, the number, the time."""

    what: str
    tool: str
    value: float | None
    seconds: float | None
    """CPU seconds."""
    note: str = ""
    """Why there is no number."""


def measure_errors(job: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
    """Root mean squared error of a bin, and CPU seconds of the fastest round; the first round warms up."""
    truth, total, fastest = data(), 0.0, math.inf
    job()
    for _ in range(rounds):
        start = time.process_time()
        found = job()
        fastest = min(fastest, time.process_time() - start)
        total += sum((float(a) - b) ** 2 for a, b in zip(found, truth, strict=True)) / K
    return math.sqrt(total / rounds), fastest


def measure_bound(job: Callable[[], float]) -> tuple[float, float]:
    """The bound, and CPU seconds of the fastest of three."""
    fastest = math.inf
    for _ in range(3):
        start = time.process_time()
        found = float(job())
        fastest = min(fastest, time.process_time() - start)
    return found, fastest


# What the others do, in their own environment.


def _codes() -> list[int]:
    return [code for code, count in enumerate(data()) for _ in range(count)]


def pure_ldp_unary() -> tuple[float, float]:
    from pure_ldp.frequency_oracles import UEClient, UEServer

    given = {"epsilon": EPSILON, "d": K, "use_oue": True, "index_mapper": lambda code: code}
    codes = _codes()

    def job() -> Any:
        client, server = UEClient(**given), UEServer(**given)
        server.aggregate_all([client.privatise(code) for code in codes])
        return server.estimate_all(range(K), suppress_warnings=True)

    return measure_errors(job)


def multi_freq_ldpy_unary() -> tuple[float, float]:
    from multi_freq_ldpy.pure_frequency_oracles import UE

    codes = _codes()

    def job() -> Any:
        return UE.UE_Aggregator_MI([UE.UE_Client(code, K, EPSILON) for code in codes], EPSILON) * N

    return measure_errors(job, MANY)


def opendp_laplace() -> tuple[float, float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    release = dp.m.make_laplace(*space, scale=2 / EPSILON)  # one person moves two bins by one each
    assert release.map(2) <= EPSILON * (1 + 1e-9)
    counts = data()
    return measure_errors(lambda: release(counts), MANY)


def opendp_local() -> tuple[float, float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    keep = math.exp(EPSILON) / (math.exp(EPSILON) + K - 1)
    device = dp.m.make_randomized_response(categories=list(range(K)), prob=keep)
    assert device.map(1) <= EPSILON * (1 + 1e-9)
    codes, lie = _codes(), (1 - keep) / (K - 1)

    def job() -> Any:
        seen = [0] * K
        for code in codes:
            seen[device(code)] += 1
        return [(count - N * lie) / (keep - lie) for count in seen]  # there is no analyzer: ours

    return measure_errors(job)


def dp_accounting_composition() -> tuple[float, float]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    lie = 2 / (1 + math.exp(RR_EPSILON))  # its parameter: how often the answer is a uniform bit

    def job() -> float:
        one = pld.from_randomized_response(lie, 2)
        return one.self_compose(REPEATED).get_epsilon_for_delta(SMALL_DELTA)

    return measure_bound(job)


def apple_script() -> tuple[float, float]:
    import computeamplification as script

    step = 10
    asked = AMPLIFIED, LOCAL_EPSILON, SMALL_DELTA, STEPS, step, True
    return measure_bound(lambda: script.numericalanalysis(*asked))


def wang_script() -> tuple[float, float]:
    import unifiedamplification as script

    power = math.exp(LOCAL_EPSILON)
    variation = (power - 1) / (power + 1)
    asked = power, variation, power, power, AMPLIFIED, SMALL_DELTA, STEPS
    return measure_bound(lambda: script.amplificationUB(*asked))


OTHERS: dict[str, Callable[[], tuple[float, float]]] = {
    each.__name__: each
    for each in (
        pure_ldp_unary,
        multi_freq_ldpy_unary,
        opendp_laplace,
        opendp_local,
        dp_accounting_composition,
        apple_script,
        wang_script,
    )
}


def ask(name: str) -> tuple[float, float] | str:
    """What a contestant measures in the other environment, or why it does not."""
    python = Path(os.environ.get("PEERS_PYTHON", DEFAULT))
    if not python.exists():
        return f"{python} does not exist"
    scripts = os.environ.get("SHUFFLE_SCRIPTS", "")
    done = subprocess.run(  # noqa: S603
        [str(python), str(HERE), "--contestant", name],
        env={**os.environ, "PYTHONPATH": scripts},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    value, seconds = json.loads(done.stdout.splitlines()[-1])
    return value, seconds


# What we do.


def ours() -> dict[str, tuple[float, float]]:
    import numpy as np

    import shuffledp as sdp

    counts = np.array(data())
    codes = np.repeat(np.arange(K), counts)
    rng = sdp.SecureWords()
    unary = sdp.protocols.optimized_unary.make_local(k=K, epsilon=EPSILON)
    direct = sdp.protocols.krr.make_local(k=K, epsilon=EPSILON)
    curator = sdp.mechanisms.geometric.make(k=K, sensitivity=2, epsilon=EPSILON)
    shuffled = sdp.histogram(k=K, n=N, epsilon=EPSILON, delta=DELTA)

    turns = count()  # a tiny change each time: nothing is remembered from the round before

    def amplify() -> float:
        local = LOCAL_EPSILON * (1 + 1e-9 * next(turns))
        return sdp.amplify(epsilon0=local, n=AMPLIFIED, delta=SMALL_DELTA, honest=1).epsilon

    def compose() -> float:
        curve = sdp.profile(epsilon0=RR_EPSILON * (1 + 1e-9 * next(turns)), n=1, honest=1)
        return sdp.compose([curve] * REPEATED, delta=SMALL_DELTA)

    return {
        "unary": measure_errors(lambda: sdp.run(unary, codes, rng).value, MANY),
        "direct": measure_errors(lambda: sdp.run(direct, codes, rng).value, MANY),
        "central": measure_errors(lambda: curator.release(counts, rng).value, MANY),
        "shuffled": measure_errors(lambda: sdp.run(shuffled, codes, rng).value, MANY),
        "amplify": measure_bound(amplify),
        "compose": measure_bound(compose),
    }


def lines(tools: list[str]) -> list[Line]:
    """What these tools do (all, if there are none), in the order of the page."""
    wanted = [tool.lower() for tool in tools] or [""]
    asked = any(word in "shuffledp" for word in wanted)
    found = ours() if asked else {}
    unary, direct, central = (
        f"histogram: {each}" for each in ("local, OUE", "local, k-RR", "central")
    )
    amplification, composition = "amplification: epsilon", "composition: epsilon"
    table = (
        (unary, "pure-ldp", "pure_ldp_unary"),
        (unary, "multi-freq-ldpy (clipped)", "multi_freq_ldpy_unary"),
        (unary, "shuffledp", "unary"),
        (direct, "OpenDP, debiased by hand", "opendp_local"),
        (direct, "shuffledp", "direct"),
        (central, "OpenDP", "opendp_laplace"),
        (central, "shuffledp", "central"),
        ("histogram: shuffle", "shuffledp", "shuffled"),
        (amplification, "Apple's script", "apple_script"),
        (amplification, "Wang's script", "wang_script"),
        (amplification, "shuffledp", "amplify"),
        (composition, "dp-accounting", "dp_accounting_composition"),
        (composition, "shuffledp", "compose"),
    )
    made = []
    for what, tool, name in table:
        if not any(word in tool.lower() for word in wanted):
            continue
        sys.stderr.write(f"{what}: {tool} ...\n")
        answer = ask(name) if name in OTHERS else found[name]
        if isinstance(answer, str):
            made.append(Line(what=what, tool=tool, value=None, seconds=None, note=answer))
        else:
            made.append(Line(what=what, tool=tool, value=answer[0], seconds=answer[1]))
    return made


def save(found: list[Line]) -> None:
    """Keep a whole run, with the day and the machine."""
    missing = [f"{line.tool}: {line.note}" for line in found if line.value is None]
    if missing:
        raise SystemExit("not saved, because a part is missing: " + "; ".join(missing))
    run = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "lines": [asdict(line) for line in found],
    }
    RESULT.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Error and speed beside other tools.")
    parser.add_argument("--save", action="store_true", help="keep them in comparison.json")
    parser.add_argument("tools", nargs="*", help="part of a tool's name; all by default")
    parser.add_argument("--contestant", choices=OTHERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.contestant:
        sys.stdout.write("\n" + json.dumps(OTHERS[asked.contestant]()) + "\n")
        return
    if asked.save and asked.tools:
        parser.error("--save keeps a whole run: name no tools")
    found = lines(asked.tools)
    for line in found:
        sys.stdout.write(f"{line.what}: {line.tool}: {line.note or (line.value, line.seconds)}\n")
    if asked.save:
        save(found)


if __name__ == "__main__":
    main()
