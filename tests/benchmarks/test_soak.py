"""The soak notices what it is for: reports that are lost or counted twice, and steps at which nobody died."""

import argparse
import hashlib
import importlib.util
import json
import subprocess
import sys
import time

import numpy as np
import pytest

from repository import ROOT
from shuffledp.live.seals import Entry


def load(name):
    """A program of benchmarks/. The folder stays off the path, where its live.py would hide the tests of that name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


Control = load("soak_role").Control
load("soak_clients")
soak = load("soak")


def ask(noise="devices"):
    return argparse.Namespace(
        store="sqlite", reports=1000, kills=5, hostile=0.01, seed=1, noise=noise
    )


class Ledger:
    def __init__(self, charges):
        self.charges = charges

    def entries(self, name):
        return [None] * self.charges


class Published:
    """An analyzer that has published these tallies."""

    def __init__(self, tallies, charges):
        self._tallies, self.ledger = tallies, Ledger(charges)

    def states(self):
        return dict.fromkeys(self._tallies, "published")

    def tallies(self, window):
        return (argparse.Namespace(counts=np.array(self._tallies[window])),)

    def count_dropped(self, window):
        return {"copy": 1}

    def close(self):
        """Nothing is open."""


def test_lost_and_doubled_reports_are_counted(tmp_path, monkeypatch):
    asked = ask()
    found = soak.Soak(asked, tmp_path)
    cases = [
        ({0: [1, 1, 1], 1: [1, 1, 0]}, [3, 2], 2, (0, 0), 0),
        ({0: [1, 0, 1], 1: [2, 1, 3]}, [3, 3], 2, (1, 2), 0),
        ({0: [1, 1, 1]}, [3, 2], 2, (2, 0), 1),  # a window that was not published
        ({0: [1, 1, 1], 1: [1, 1, 0]}, [3, 2], 3, (0, 0), 1),  # charged twice
    ]
    for tallies, acknowledged, charges, wanted, troubles in cases:
        found.acknowledged, found.trouble = acknowledged, []
        published = Published(tallies, charges)
        monkeypatch.setattr(soak.Home, "open_analyzer", lambda _, found=published: found)
        assert found.compare() == wanted
        assert len(found.trouble) == troubles, found.trouble
    assert found.rejected["dropped: copy"] == 7


def test_with_noise_messages_are_looked_for_in_the_batch_and_both_in_the_seal_log(tmp_path):
    found = soak.Soak(ask("servers"), tmp_path)
    size = found.collection.inner_size
    one, two, dummy = (bytes([each]) * size for each in range(3))
    (tmp_path / "inners-0").write_bytes(one + two)
    (found.home.analyzer / "result-0.json").write_bytes(b"{}")
    log = soak.FolderLog(found.home.seals("analyzer"))
    log.begin()
    cases = [(one + two + dummy, (0, 0)), (one + dummy, (1, 0)), (one * 2 + two, (0, 1))]
    for window, (batch, wanted) in enumerate(cases):
        (tmp_path / f"inners-{window}").write_bytes(one + two)
        (found.home.analyzer / f"batch-{window}.bin").write_bytes(batch)
        (found.home.analyzer / f"result-{window}.json").write_bytes(b"{}")
        digests = [hashlib.sha256(each).digest() for each in (batch, b"{}")]
        log.create(window, Entry(batch=digests[0], other=digests[1]))
        assert found.look_for(window) == wanted
    assert found.trouble == []
    (found.home.analyzer / "result-1.json").write_bytes(b"another draw")
    found.look_for(1)
    assert found.trouble == ["window 1: the seal log has another batch or result"]


def test_a_soak_with_noise_of_the_servers_kills_at_the_steps_of_the_seal_log(tmp_path):
    found = soak.Soak(ask("servers"), tmp_path)
    assert "logged" in found.actors["shuffler"].steps
    assert {"drafted", "logged"} <= set(found.actors["analyzer"].steps)


def test_a_batch_that_is_left_behind_is_trouble(tmp_path, monkeypatch):
    asked = ask()
    found = soak.Soak(asked, tmp_path)
    (found.home.shuffler / "batch-0.bin").write_bytes(b"x")
    found.acknowledged = []
    monkeypatch.setattr(soak.Home, "open_analyzer", lambda _: Published({}, 0))
    found.compare()
    assert found.trouble == ["left behind: batch-0.bin"]


def test_a_role_dies_at_the_step_that_is_written_down(tmp_path):
    control = Control(tmp_path / "control")
    control.offset = 5.0
    control.arm("sealed")
    code = f"""
import sys
sys.path.append({str(ROOT / "benchmarks")!r})
from pathlib import Path
from soak_role import Control
control = Control(Path({str(tmp_path / "control")!r}))
assert control.offset == 5.0
control.step("admitted")
print("alive", flush=True)
control.step("sealed")
print("still alive")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (-9, b"alive\n")
    assert (control.deaths, control.armed) == (1, "")


def test_a_window_begins_at_its_time_however_long_the_ones_before_took(tmp_path, monkeypatch):
    found = soak.Soak(ask(), tmp_path)
    opens = found.collection.windows.opens
    monkeypatch.setattr(soak.time, "time", lambda: opens(0) + 9000.0)
    found.begin_window(2)
    assert opens(2) < soak.time.time() + found.offset < opens(3)
    assert {actor.control.offset for actor in found.actors.values()} == {found.offset}


def test_memory_is_counted_from_the_first_half_minute_on():
    found = object.__new__(soak.Soak)
    found.memory = {
        ("shuffler", 7): [(5.0, 10.0), (16.0, 60.0), (36.0, 75.0), (40.0, 70.0)],
        ("shuffler", 8): [(45.0, 10.0), (50.0, 90.0)],
        ("analyzer", 9): [(5.0, 90.0), (36.0, 70.0)],
    }
    assert found.grow() == {"shuffler": 15.0, "analyzer": 0.0}


@pytest.mark.slow
@pytest.mark.xdist_group("servers")
@pytest.mark.parametrize("noise", ["devices", "servers"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_small_soak_loses_and_doubles_nothing(store, noise):
    began = time.monotonic()
    program = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), "--reports", "1000"]
    ended = subprocess.run(
        [*program, "--kills", "16", "--store", store, "--noise", noise],
        capture_output=True,
        check=False,
    )
    last = json.loads(ended.stdout.decode().splitlines()[-1])
    assert ended.returncode == 0, ended.stdout.decode()
    assert (last["accepted"], last["lost"], last["doubled"]) == (1000, 0, 0)
    assert last["kills"] >= 16
    assert time.monotonic() - began < 600
