"""`shuffledp amplify`: the guarantee of a local randomizer after shuffling."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._completion import complete_randomizer
from shuffledp.cli._options import (
    Delta0Option,
    DeltaOption,
    ForceOption,
    HonestOption,
    JsonOption,
    spread,
    whole_number,
)
from shuffledp.cli._terminal import check_picture, draw_into, explain_errors, say, tell
from shuffledp.core.privacy import round_down, round_share_up, round_up
from shuffledp.core.protocol import HONEST, Maker, honest_users


@dataclass(frozen=True, kw_only=True)
class ParameterOptions:
    """The parameters of a protocol that is named, all but its privacy.

    >>> ParameterOptions(k=3).given
    {'k': 3}
    """

    k: Annotated[int | None, typer.Option(help="Categories of the randomizer.")] = None
    lower: Annotated[float | None, typer.Option(help="Smallest value, for means.")] = None
    upper: Annotated[float | None, typer.Option(help="Largest value, for means.")] = None
    steps: Annotated[int | None, typer.Option(help="Steps of the grid, for means.")] = None

    @property
    def given(self) -> dict[str, float]:
        """Those that were given."""
        named = {name: getattr(self, name) for name in ("k", "lower", "upper", "steps")}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class RandomizerOptions(ParameterOptions):
    """A local protocol by name with its parameters, all but epsilon; or any randomizer.

    >>> RandomizerOptions(randomizer="krr", k=16).make(1.0).domain.size
    16
    >>> RandomizerOptions(randomizer="krr").check()
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: krr needs --k
    """

    randomizer: Annotated[
        str | None,
        typer.Option(
            help="A local protocol by name (krr, rr, hadamard, ...). Default: any.",
            autocompletion=complete_randomizer,
        ),
    ] = None

    def check(self) -> None:
        """Refuse parameters that the randomizer does not take, or lacks."""
        given = self.given
        if self.randomizer is None:
            if given:
                raise sdp.UnsupportedError(f"{_list_flags(given)} needs --randomizer")
            return
        maker = self._find_maker(self.randomizer)
        wanted = [name for name, needed in maker.options.items() if needed]
        missing = [name for name in wanted if name not in given]
        if missing:
            raise sdp.UnsupportedError(f"{self.randomizer} needs {_list_flags(missing)}")
        unused = [name for name in given if name not in wanted]
        if unused:
            raise sdp.UnsupportedError(f"{self.randomizer} does not take {_list_flags(unused)}")

    def make(self, epsilon0: float) -> Any:
        """Return the randomizer at this epsilon0; None if none is named."""
        if self.randomizer is None:
            return None
        return self._find_maker(self.randomizer)(**self.given, epsilon=epsilon0).randomizer

    def _find_maker(self, name: str) -> Maker:
        maker = sdp.protocols.spec(name).make_local
        if maker is None:
            raise sdp.UnsupportedError(f"{name} is not local: there is no epsilon0 to amplify")
        return maker

    def law(self, epsilon0: float) -> dict[str, Any]:
        """Return what everybody runs, as arguments of `sdp.amplify` and `sdp.profile`."""
        made = self.make(epsilon0)
        return {"epsilon0": epsilon0} if made is None else {"randomizer": made}


def _list_flags(names: list[str] | dict[str, float]) -> str:
    return ", ".join(f"--{name}" for name in names)


@spread
def amplify(
    delta: DeltaOption,
    chosen: RandomizerOptions,
    n: Annotated[str | None, typer.Option("--n", help="How many people; 1e6 is a million.")] = None,
    epsilon0: Annotated[
        float | None, typer.Option(help="Local privacy of each message, above 0.")
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="In place of --epsilon0: messages are numbers with Gaussian noise of this standard "
            "deviation, in units of the range."
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="In place of --epsilon0 and --n: how many people use which epsilon0 of k-ary randomized response, "
            "such as 0.5:2000,2:8000 (needs --k)."
        ),
    ] = None,
    delta0: Delta0Option = 0.0,
    check_in: Annotated[
        float,
        typer.Option(help="The probability that a person takes part, decided by a secret coin."),
    ] = 1.0,
    adaptive: Annotated[
        bool,
        typer.Option("--adaptive", help="Randomizers may depend on earlier messages."),
    ] = False,
    honest: HonestOption = HONEST,
    rounds: Annotated[int, typer.Option(help="How often everybody is asked.")] = 1,
    bound: Annotated[
        str | None, typer.Option(help="Use this bound instead of the best; --all lists the names.")
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every bound side by side, with its reference.")
    ] = False,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw delta against epsilon into this file.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Compute the (epsilon, delta) of n shuffled messages, one from each person.

    $ shuffledp amplify --epsilon0 2 --n 1e6 --delta 1e-8
    """
    with explain_errors():
        if levels is not None:
            others = (n, epsilon0, sigma, chosen.randomizer, bound, plot, rounds - 1, delta0)
            alone = not any(others) and not (adaptive or show_all) and check_in == 1
            _tell_levels(levels, chosen.k, delta, honest, alone=alone, as_json=as_json)
            return
        if n is None:
            raise sdp.ParameterError("n", n, "must be given, with --n")
        _check_rounds(rounds, one_only=show_all or plot is not None)
        _check_pure(delta0, pure_only=show_all or rounds > 1)
        _check_everybody(check_in, everybody_only=show_all)
        check_picture(plot, force=force)
        chosen.check()
        law = _read_law(epsilon0, sigma, chosen) | ({"delta0": delta0} if delta0 else {})
        question = _Question(
            epsilon0=law["randomizer"].epsilon0 if epsilon0 is None else epsilon0,
            n=whole_number(n),
            delta=delta,
            law=law,
            honest=honest,
            rounds=rounds,
        )
        way: dict[str, Any] = {"check_in": check_in, "adaptive": adaptive, "bound": bound}
        curve = sdp.profile(**question.crowd, **question.law, **way)
        answer = question.answer(curve)
        lines = question.every.compare(delta) if show_all else ()
        lower = question.lower() if check_in == 1 and sigma is None and not lines else None
        lower = lines[-1].epsilon if lines else lower
        if plot is not None:
            with draw_into(plot, force=force) as place:
                _draw(question, curve, answer, place, every=show_all)
        if as_json:
            record = _make_record(question, chosen, curve, answer, lower)
            record |= {"check_in": check_in, "sigma": sigma}
            more = {"bounds": [asdict(line) for line in lines]} if lines else {}
            typer.echo(json.dumps({**record, **more}))
            return
        say(str(answer))
        if lines:
            _print_table(lines)
        elif lower is not None:
            whose = chosen.randomizer or (
                "an unknown randomizer" if sigma is None else "this noise"
            )
            tell(f"No analysis of {whose} can give less than epsilon = {round_down(lower, 6)}.")
    if plot is not None:
        tell(f"The picture is in {plot}.")


def _tell_levels(
    text: str, k: int | None, delta: float, honest: float, *, alone: bool, as_json: bool
) -> None:
    """Say what people of each level are promised: if messages hide their level, and if messages reveal it."""
    if not alone or k is None:
        raise sdp.UnsupportedError("--levels needs --k, and goes with --delta and --honest alone")
    people = _read_levels(text)
    trusted = {epsilon0: honest_users(count, honest) for epsilon0, count in people.items()}
    crowd = sdp.protocols.levels.Levels(k=k, people=trusted)
    hidden, visible = crowd.hide(delta), crowd.show(delta)
    if as_json:
        rows = [
            {
                "epsilon0": epsilon0,
                "people": count,
                "honest": trusted[epsilon0],
                "hidden": hidden[epsilon0].epsilon,
                "visible": visible[epsilon0].epsilon,
            }
            for epsilon0, count in people.items()
        ]
        typer.echo(json.dumps({"levels": rows, "k": k, "delta": delta}))
        return
    for epsilon0, count in people.items():
        say(
            f"epsilon0 = {round_up(epsilon0, 6)}, {count:,} people: epsilon = {round_up(hidden[epsilon0].epsilon, 4)} if messages "
            f"hide the level, {round_up(visible[epsilon0].epsilon, 4)} if they reveal it"
        )
    say(
        f"delta = {round_up(delta, 6)}, if {round_share_up(honest)} % of the people of each level are honest, "
        f"{sum(trusted.values()):,} in all; the level must not depend on the value. If messages hide the level: by "
        f"{next(iter(hidden.values())).proof}"
    )


def _read_levels(text: str) -> dict[float, int]:
    """Read how many people have each epsilon0.

    >>> _read_levels("0.5:2000,2:8e3")
    {0.5: 2000, 2.0: 8000}
    """
    crowds: dict[float, int] = {}
    for part in text.split(","):
        level, _, count = part.partition(":")
        try:
            crowds[float(level)] = whole_number(count, "levels")
        except ValueError:
            wanted = "must be pairs such as 0.5:2000,2:8000"
            raise sdp.ParameterError("levels", text, wanted) from None
    return crowds


_GRID = 8  # steps; values in between are rounded to it at random


def _read_law(
    epsilon0: float | None, sigma: float | None, chosen: RandomizerOptions
) -> dict[str, Any]:
    """Return what everybody runs, as arguments of `sdp.profile`: something local, or Gaussian noise."""
    if (epsilon0 is None) == (sigma is None):
        raise sdp.UnsupportedError(
            "give either --epsilon0 or --sigma: how private each message is by itself"
        )
    if sigma is None:
        assert epsilon0 is not None
        return chosen.law(epsilon0)
    if chosen.randomizer is not None:
        raise sdp.UnsupportedError("--sigma is a randomizer of its own: leave out --randomizer")
    grid = sdp.Reals(lower=0.0, upper=1.0, steps=_GRID)
    return {"randomizer": sdp.protocols.gaussian.GaussianNoise(domain=grid, sigma=sigma)}


def _check_rounds(rounds: int, *, one_only: bool) -> None:
    if rounds < 1:
        raise sdp.ParameterError("rounds", rounds, "must be >= 1")
    if rounds > 1 and one_only:
        raise sdp.UnsupportedError("--all and --plot are about one round: leave out --rounds")


def _check_pure(delta0: float, *, pure_only: bool) -> None:
    if delta0 and pure_only:
        raise sdp.UnsupportedError(
            "--all and --rounds are about pure randomizers: leave out --delta0"
        )


def _check_everybody(check_in: float, *, everybody_only: bool) -> None:
    if check_in != 1 and everybody_only:
        raise sdp.UnsupportedError("--all is about rounds of everybody: leave out --check-in")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The question of the command, after its options were checked."""

    epsilon0: float
    n: int
    delta: float
    law: dict[str, Any]
    """The randomizer, or epsilon0 alone."""
    honest: float
    rounds: int

    @property
    def crowd(self) -> dict[str, Any]:
        return {"n": self.n, "honest": self.honest}

    @property
    def every(self) -> sdp.accounting.BoundComparison:
        return sdp.accounting.BoundComparison(**self.crowd, **self.law)

    def answer(self, curve: sdp.accounting.ShuffledProfile) -> sdp.Guarantee:
        """Return the guarantee of all rounds together."""
        best = curve.best(self.delta)
        if self.rounds == 1:
            return best
        epsilon = sdp.compose([curve] * self.rounds, delta=self.delta)
        proofs = "; ".join(bound.proof for bound in curve.bounds)
        proof = f"{self.rounds} rounds composed as privacy-loss distributions, each by {proofs}"
        return replace(best, epsilon=epsilon, proof=proof)

    def lower(self) -> float | None:
        """Return what no analysis can beat, where we know it."""
        if self.rounds > 1 or self.delta <= self.law.get("delta0", 0.0):
            return None
        try:
            return sdp.amplify_lower(**self.crowd, **self.law, delta=self.delta)
        except sdp.UnsupportedError:
            return None


def _make_record(
    question: _Question,
    chosen: RandomizerOptions,
    curve: sdp.accounting.ShuffledProfile,
    answer: sdp.Guarantee,
    lower: float | None,
) -> dict[str, object]:
    return {
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "lower": lower,
        "method": "composition" if question.rounds > 1 else name_bound(curve, answer),
        "proof": answer.proof,
        "epsilon0": question.epsilon0,
        "delta0": curve.delta0,
        "n": question.n,
        "honest": curve.honest,
        "rounds": question.rounds,
        "randomizer": chosen.randomizer,
        "parameters": chosen.given,
        "model": answer.model.value,
        "neighbours": answer.neighbours.value,
    }


def name_bound(curve: sdp.accounting.ShuffledProfile, answer: sdp.Guarantee) -> str:
    """Return the name of the bound that gave the answer; "local" if shuffling added nothing.

    >>> curve = sdp.profile(epsilon0=1.0, n=1000, honest=1)
    >>> name_bound(curve, curve.best(1e-6)), name_bound(curve, curve.best(0.0))
    ('clones 2023', 'local')
    """
    names = (bound.name for bound in curve.bounds if bound.proof == answer.proof)
    return next(names, "local")


_DELTAS = [10.0**-power for power in range(1, 15)]


def _draw(
    question: _Question,
    curve: sdp.accounting.ShuffledProfile,
    answer: sdp.Guarantee,
    path: Path,
    *,
    every: bool,
) -> None:
    """Draw the bounds that count, or with `every` all that apply: formulas, approximations and the lower bound too."""
    title = (
        f"Shuffling turns epsilon0 = {round_up(question.epsilon0, 6)} into epsilon = {round_up(answer.epsilon, 3)} (delta = "
        f"{round_up(question.delta, 6)})"
    )
    curves: dict[str, Any] = {bound.name: bound.curve.delta for bound in curve.bounds}
    dashed: set[str] = set()
    smallest, largest = 0.0, min(curve.epsilon0, 1.3 * curve.epsilon(1e-12))
    if every:
        curves, dashed = question.every.trace(_DELTAS)
        drawn = [epsilon for each in curves.values() if not callable(each) for epsilon, _ in each]
        smallest, largest = answer.epsilon / 10, max(largest, *drawn)
    sdp.show.privacy_curves(
        curves,
        path,
        largest=largest,
        smallest=smallest,
        title=title,
        notes=[
            f"{curve.honest:,} honest users, epsilon0 = {round_up(question.epsilon0, 6)}. The ring: {answer}.",
            *(["Dashed: no guarantees (approximations, the lower bound)."] if dashed else []),
        ],
        dashed=dashed,
        mark=(answer.epsilon, question.delta),
    )


def _write_bound(epsilon: float, kind: str) -> str:
    """Write six digits: a lower bound is rounded down, everything else up.

    >>> _write_bound(1.23456749, "upper"), _write_bound(1.23456789, "lower")
    ('1.23457', '1.23456')
    """
    return round_down(epsilon, 6) if kind == "lower" else round_up(epsilon, 6)


def _print_table(lines: tuple[sdp.accounting.BoundLine, ...]) -> None:
    """Print the guarantees, the smallest in bold."""
    from rich.console import Console
    from rich.table import Table

    uppers = [line.epsilon for line in lines if line.kind == "upper" and line.epsilon is not None]
    table = Table(caption="approximation: not a guarantee, for comparison only")
    table.add_column("bound", no_wrap=True)
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("reference, or why it does not apply")  # half of 80 columns, for whole lines
    for line in lines:
        table.add_row(
            f"{line.name}\n  {'numeric' if line.numeric else 'formula'}, {line.kind}",
            "-" if line.epsilon is None else _write_bound(line.epsilon, line.kind),
            line.why_not or line.reference,
            style="bold" if line.epsilon == min(uppers) and line.kind == "upper" else None,
        )
    Console().print(table, highlight=False)
