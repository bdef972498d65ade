"""Two libraries that a user would pick instead, timed client + server in their own environment.

    python3 -m venv .venv-peers && .venv-peers/bin/pip install -r benchmarks/requirements.txt

Set PEERS_PYTHON to use another interpreter. This file has two roles. Imported, `times` starts it in
that environment; run there, it reads cases as JSON from standard input and prints CPU seconds per
user.

Both libraries work one user at a time: the client is called in a list comprehension over plain
Python integers, the server gets the whole list at once. Compilation by Numba and set-up of the
objects are done before the clock starts. Of each case the best of `rounds` counts.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["LIBRARIES", "Case", "times"]

LIBRARIES = ("pure-ldp", "multi-freq-ldpy")
HERE = Path(__file__).resolve()
DEFAULT = HERE.parent.parent / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Case:
    """One oracle at stated parameters; `oracle` is the name of our protocol (or `fast_hashing`)."""

    oracle: str
    k: int
    epsilon: float
    n: int
    rounds: int = 3


def times(cases: Iterable[Case]) -> dict[tuple[str, Case], float] | str:
    """Seconds per user by (library, case), for what the libraries offer; or why there are none."""
    python = Path(os.environ.get("PEERS_PYTHON", DEFAULT))
    if not python.exists():
        return f"the other libraries are not installed ({python} does not exist)"
    asked = tuple(cases)
    done = subprocess.run(  # noqa: S603
        [str(python), str(HERE)],
        input=json.dumps([asdict(case) for case in asked]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return f"the other libraries do not run: {done.stderr.strip().splitlines()[-1]}"
    found = json.loads(done.stdout)
    return {(each["library"], asked[each["case"]]): each["seconds_per_user"] for each in found}


# From here on: runs in the environment of the other libraries.

Job = Callable[[list[int]], Any]
"""Client and server for a column of 0-based codes."""


def pure_ldp(case: Case) -> Callable[[], Job] | None:
    """A maker of fresh jobs: servers keep their counts, so each round needs a new one."""
    import pure_ldp.frequency_oracles as oracles

    classes = {
        "krr": (oracles.DEClient, oracles.DEServer, {}),
        "optimized_unary": (oracles.UEClient, oracles.UEServer, {"use_oue": True}),
        "local_hashing": (oracles.LHClient, oracles.LHServer, {"use_olh": True}),
        # A pool of k = 1000 public hash functions: another law than OLH, shown for comparison.
        "fast_hashing": (
            oracles.FastLHClient,
            oracles.FastLHServer,
            {"use_olh": True, "k": 1000},
        ),
        "hadamard": (oracles.HadamardResponseClient, oracles.HadamardResponseServer, {}),
    }
    if case.oracle not in classes:
        return None
    make_client, make_server, options = classes[case.oracle]
    # The identity, in place of its default that counts categories from 1.
    given = {"epsilon": case.epsilon, "d": case.k, "index_mapper": lambda code: code, **options}

    def fresh() -> Job:
        server = make_server(**given)
        # Only here does the client need something that the server has drawn.
        shared = {"hash_funcs": server.get_hash_funcs()} if case.oracle == "hadamard" else {}
        client = make_client(**given, **shared)

        def job(codes: list[int]) -> Any:
            server.aggregate_all([client.privatise(code) for code in codes])
            return server.estimate_all(range(case.k), suppress_warnings=True)

        return job

    return fresh


def multi_freq_ldpy(case: Case) -> Callable[[], Job] | None:
    """Functions without state, so every round gets the same job."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    epsilon, k = case.epsilon, case.k

    def direct(codes: list[int]) -> Any:
        reports = [GRR.GRR_Client(code, k, epsilon) for code in codes]
        return GRR.GRR_Aggregator_MI(reports, k, epsilon)

    def unary(codes: list[int]) -> Any:
        return UE.UE_Aggregator_MI([UE.UE_Client(code, k, epsilon) for code in codes], epsilon)

    def hashing(codes: list[int]) -> Any:
        return LH.LH_Aggregator_MI([LH.LH_Client(code, k, epsilon) for code in codes], k, epsilon)

    def subset(codes: list[int]) -> Any:
        return SS.SS_Aggregator_MI([SS.SS_Client(code, k, epsilon) for code in codes], k, epsilon)

    jobs = {
        "krr": direct,
        "optimized_unary": unary,
        "local_hashing": hashing,
        "subset_selection": subset,
    }
    job = jobs.get(case.oracle)
    return None if job is None else (lambda: job)


def seconds_per_user(fresh: Callable[[], Job], case: Case) -> float:
    """The best round, after one round with few users in which Numba compiles."""
    import numpy as np

    codes = np.random.default_rng(1).integers(case.k, size=case.n).tolist()
    fresh()(codes[:20])
    fastest = float("inf")
    for _ in range(case.rounds):
        job = fresh()
        start = time.process_time()
        job(codes)
        fastest = min(fastest, time.process_time() - start)
    return fastest / case.n


def main() -> None:
    warnings.simplefilter("ignore")
    makers = dict(zip(LIBRARIES, (pure_ldp, multi_freq_ldpy), strict=True))
    found = []
    for number, fields in enumerate(json.load(sys.stdin)):
        case = Case(**fields)
        for library, maker in makers.items():
            fresh = maker(case)
            if fresh is not None:
                took = seconds_per_user(fresh, case)
                found.append({"library": library, "case": number, "seconds_per_user": took})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
