"""`shuffledp report`: what could not be sent is kept, and the same command sends it again."""

import time

import httpx
import pytest
from typer.testing import CliRunner

import live_support as live
import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.live.device import Device, Sending
from shuffledp.live.serve import client
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.report import open_report, split_upload

ANSWERS = ("--answer", "way=bus", "--answer", "home=yes")


class Shuffler:
    """What the network does with each upload, in turn; it keeps the messages that it was sent."""

    def __init__(self, collection):
        self.collection = collection
        self.outcomes = []
        self.inners = []
        self.tokens = []

    def send_upload(self, collection, body, reports):
        (sealed,) = split_upload(collection, body)
        opened = open_report(collection, sealed, live.outer_secrets(collection))
        self.inners.append(opened.inners)
        self.tokens.append(opened.token)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome]


@pytest.fixture
def network(monkeypatch):
    def make(**changes):
        windows = Windows(start=int(time.time()) - 10, seconds=1000, count=2, grace=10)
        collection = live.make_collection(windows=windows, **changes)
        shuffler = Shuffler(collection)
        monkeypatch.setattr(client, "send_upload", shuffler.send_upload)
        monkeypatch.setattr(client.time, "sleep", lambda _: None)
        documents = [(collection.raw, collection.id)]
        fetch = lambda _: documents[0]  # noqa: E731
        monkeypatch.setattr(sdp.live.serve, "fetch_document", fetch)
        return shuffler

    return make


def call(tmp_path, collection, *words, **more):
    outbox = str(tmp_path / "outbox.sqlite")
    return CliRunner().invoke(app, ["report", collection.link, "--outbox", outbox, *words], **more)


def test_after_an_outage_the_same_command_sends_the_same_report(network, tmp_path):
    shuffler = network()
    shuffler.outcomes = [httpx.ConnectError("away")] * 5
    first = call(tmp_path, shuffler.collection, *ANSWERS)
    assert first.exit_code == 1
    assert "sends the same report again" in first.output
    again = call(tmp_path, shuffler.collection, *ANSWERS)
    assert again.exit_code == 0, again.output
    assert "acknowledged" in again.output
    assert "no new answer" in again.output
    assert len(shuffler.inners) == 6
    assert len(set(shuffler.inners)) == 1
    device = Device(tmp_path / "outbox.sqlite")
    assert device.state(shuffler.collection, 0) is Sending.ACKNOWLEDGED
    assert device.spent.epsilon == shuffler.collection.pledge.epsilon


def test_without_answers_it_sends_what_is_kept(network, tmp_path, monkeypatch):
    shuffler = network()
    shuffler.outcomes = [httpx.ReadError("lost")] * 5
    call(tmp_path, shuffler.collection, *ANSWERS)

    def away(_):
        raise sdp.WireError("unreachable", "the page is away, and not needed")

    monkeypatch.setattr(sdp.live.serve, "fetch_document", away)
    again = call(tmp_path, shuffler.collection)
    assert again.exit_code == 0, again.output
    assert len(set(shuffler.inners)) == 1


def test_an_answer_that_arrived_is_not_given_again(network, tmp_path):
    shuffler = network()
    assert call(tmp_path, shuffler.collection, *ANSWERS).exit_code == 0
    again = call(tmp_path, shuffler.collection, *ANSWERS)
    assert again.exit_code != 0
    assert "answered" in again.output + str(again.stderr)
    assert len(shuffler.inners) == 1


@pytest.mark.parametrize("reason", ["token_spent", "unknown_token"])
@pytest.mark.parametrize("lost", [0, 2])
def test_a_report_whose_token_was_not_taken_waits_for_another_one(network, tmp_path, reason, lost):
    shuffler = network(tokens=True)
    shuffler.outcomes = [httpx.ReadError("lost")] * lost + [reason]
    first = call(tmp_path, shuffler.collection, *ANSWERS, "--token", "07" * 32)
    state = "sent" if lost else "pending"
    assert first.exit_code == 1
    assert f"Report of window 0: {state} ({reason})." in first.output
    assert "With another --token the same command sends the same report." in first.output
    assert len(shuffler.tokens) == lost + 1, "it is not tried again with the same one"
    second = call(tmp_path, shuffler.collection, "--token", "09" * 32)
    assert second.exit_code == 0, second.output
    assert "Report of window 0: acknowledged." in second.output
    assert shuffler.tokens == [b"\7" * 32] * (lost + 1) + [b"\11" * 32]
    assert len(set(shuffler.inners)) == 1
    device = Device(tmp_path / "outbox.sqlite")
    assert device.spent.epsilon == shuffler.collection.pledge.epsilon


def test_a_token_that_cannot_be_one_leaves_what_is_kept(network, tmp_path):
    shuffler = network(tokens=True)
    shuffler.outcomes = ["token_spent"]
    call(tmp_path, shuffler.collection, *ANSWERS, "--token", "07" * 32)
    assert "needs a token" in call(tmp_path, shuffler.collection, "--token", "07").output
    assert call(tmp_path, shuffler.collection).exit_code == 0
    assert shuffler.tokens == [b"\7" * 32] * 2


def test_simulated_devices_have_no_tokens(network, tmp_path):
    shuffler, people = network(tokens=True), tmp_path / "people.csv"
    people.write_text("way,home\nbus,yes\n")
    refused = call(tmp_path, shuffler.collection, "--simulate", str(people))
    assert refused.exit_code == 2
    assert "simulated devices have no tokens" in refused.output


def test_why_a_report_was_refused_is_told(network, tmp_path):
    shuffler = network()
    shuffler.outcomes = ["malformed"]
    refused = call(tmp_path, shuffler.collection, *ANSWERS)
    assert refused.exit_code == 1
    assert refused.output.splitlines()[-1] == "Report of window 0: refused (malformed)."


def test_answers_and_tokens_need_not_be_arguments(network, tmp_path):
    """Other users of a machine see the arguments of every command."""
    shuffler = network(tokens=True)
    (tmp_path / "token").write_text(f"{'07' * 32}\n")
    done = call(
        tmp_path,
        shuffler.collection,
        "--answer", "-", "--token", f"@{tmp_path / 'token'}",
        input="way=bus\n\nhome=yes\n",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert shuffler.tokens == [b"\7" * 32]
    missing = call(tmp_path, shuffler.collection, *ANSWERS, "--token", "@nowhere")
    assert missing.exit_code != 0


FILE = "Way;home\nbus;yes\nBUS;no\n-9;no\ncar;yes\n"


@pytest.fixture
def sent(network, monkeypatch):
    """What simulated devices send: everybody's places."""
    found = []

    def send_people(_, window, places):
        found.append({name: codes.tolist() for name, codes in places.items()})
        return sdp.live.serve.Sent(accepted=len(places["way"]))

    monkeypatch.setattr(sdp.live.serve, "send_people", send_people)
    return found


def test_simulated_devices_read_files_as_run_does(network, sent, tmp_path):
    """The hint names an option that there is, and the options of `run` take a file as it is written."""
    collection = network().collection
    (tmp_path / "people.csv").write_text(FILE)
    file = ("--simulate", str(tmp_path / "people.csv"), "--column", "way=Way", "--delimiter", ";")
    refused = call(tmp_path, collection, *file)
    assert refused.exit_code == 2
    assert "--on-invalid unknown=drop" in refused.stderr
    assert sent == []
    kept = call(tmp_path, collection, *file, "--on-invalid", "drop", "--missing=-9")
    assert kept.exit_code == 0, kept.output
    assert "2 of 4 people had a value that no device would send, and were left out." in kept.output
    chosen = call(tmp_path, collection, *file, "--where", "Way = 'car'")
    assert chosen.exit_code == 0, chosen.output
    names = next(question.labels for question in collection.questions if question.name == "way")
    assert sent == [
        {"way": [names.index("bus"), names.index("car")], "home": [1, 1]},
        {"way": [names.index("car")], "home": [1]},
    ]
    nobody = call(tmp_path, collection, *file, "--where", "Way = 'plane'")
    assert "column 'Way' is empty where Way = 'plane'" in nobody.stderr


@pytest.mark.parametrize(
    "option", [("--where", "a = 1"), ("--column", "way=Way"), ("--decimal", ",")]
)
def test_options_about_a_file_need_one(network, tmp_path, option):
    refused = call(tmp_path, network().collection, *ANSWERS, *option)
    assert refused.exit_code == 2
    assert "options about a file need --simulate FILE" in refused.stderr
