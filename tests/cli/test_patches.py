"""What `shuffledp.cli` changes inside Typer is still there, and options mean what they mean without the change."""

from functools import partial

import pytest
from typer.testing import CliRunner

from commands import commands
from shuffledp import cli
from shuffledp.cli import app

LEAVES = {
    name: command for name, command in commands().items() if not hasattr(command, "list_commands")
}
WORDS = ["1", "-2.5", "1e3", "1e", "nan", "", "yes", "local", "shuffle", "a,b", "@x", "0x1", " 1"]


def list_options(command):
    return command.get_params(command.make_context("x", [], resilient_parsing=True))


def judge(read, context, value):
    try:
        return read(context, value)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", LEAVES)
def test_an_option_that_is_read_plainly_is_read_alike(name):
    """If Typer renames what is replaced, or reads something in another way, this fails."""
    command = LEAVES[name]
    context = command.make_context("x", [], resilient_parsing=True)
    replaced = 0
    for option in list_options(command):
        mine = vars(option).get("process_value")
        if mine is None or option.callback is not None:
            continue
        replaced += 1
        flag = getattr(option, "is_flag", False)
        several = option.multiple or option.nargs != 1
        for value in (None, *((True, False) if flag else WORDS)):
            given = [value] if several and value is not None else value
            usual = judge(partial(type(option).process_value, option), context, given)
            assert repr(judge(mine, context, given)) == repr(usual), (option.name, value)
    assert replaced


def test_flags_show_no_type_because_typer_asks_what_is_replaced():
    typed = {"display_type", "display_type_rich"}
    flags = [each for each in list_options(LEAVES["shuffledp report"]) if vars(each).keys() & typed]
    assert flags
    for each in flags:
        assert typed & set(dir(type(each))), each.name
    shown = CliRunner().invoke(app, ["report", "--help"], terminal_width=200).output
    assert "--accept-floor" in shown
    assert "--accept-floor  BOOLEAN" not in shown


def test_without_the_change_the_command_line_says_the_same(monkeypatch):
    words = ["amplify", "--n", "1000", "--epsilon0", "1", "--delta", "1e-6", "--json"]
    mine = CliRunner().invoke(app, words)
    monkeypatch.setattr(cli, "_read_plainly", lambda options, _: options)
    cli._load.cache_clear()
    assert mine.exit_code == 0
    assert CliRunner().invoke(app, words).output == mine.output
