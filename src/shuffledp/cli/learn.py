"""`shuffledp learn`: the distribution of a population, from a column of files."""

from functools import partial

import shuffledp as sdp
from shuffledp.cli._options import (
    BudgetOptions,
    ForceOption,
    JsonOption,
    LevelOption,
    MaxMessagesOption,
    OutOption,
    PathsArgument,
    ProtocolOption,
    spread,
)
from shuffledp.cli._people import (
    CategoryOptions,
    InferenceOptions,
    open_ledger,
    read_people,
    show_answer,
)
from shuffledp.cli._terminal import (
    charge,
    check_result,
    explain_errors,
    stage_outputs,
    tell_written,
)


@spread
def learn(
    paths: PathsArgument,
    categories: CategoryOptions,
    given: InferenceOptions,
    budget: BudgetOptions,
    protocol: ProtocolOption = None,
    max_messages: MaxMessagesOption = None,
    level: LevelOption = 0.95,
    as_json: JsonOption = False,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    r"""Learn how a population is distributed over categories, and how far off that may be.

    The categories are public knowledge: list them, or count codes with --k.

    $ shuffledp learn people.csv --column way --categories car,bus,train \
        --on-invalid drop --epsilon 1 --delta 1e-8
    """
    with explain_errors():
        check_result(out)
        spending = open_ledger(budget, given, categories)
        given.refuse_needless(max_messages)
        with stage_outputs([out], force=force) as outputs:
            people = read_people(paths, categories, given, [out, budget.ledger])
            learned = sdp.learn(
                people.codes,
                k=people.domain.size,
                protocol=protocol,
                max_messages=max_messages,
                **given.promise,
            ).label(people.domain)
            text = learned.describe(level)
            record = {**learned.to_dict(level), **people.record}
            outputs.write(out, partial(sdp.engine.write_result, record))
            note = people.note("learn", learned.protocol)
            with charge(spending, learned.guarantee, note, err=as_json):
                try:
                    outputs.publish()
                finally:
                    written = out is not None
                    show_answer(people, text, record, as_json=as_json, written=written)
        tell_written([out], as_json=as_json)
