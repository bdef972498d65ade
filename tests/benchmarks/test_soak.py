"""The soak notices what it is for: reports that are lost or counted twice, and steps at which nobody died."""

import argparse
import importlib.util
import json
import subprocess
import sys
import time

import numpy as np
import pytest

from repository import ROOT


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
    asked = argparse.Namespace(store="sqlite", reports=1000, kills=5, hostile=0.01, seed=1)
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


def test_a_batch_that_is_left_behind_is_trouble(tmp_path, monkeypatch):
    asked = argparse.Namespace(store="sqlite", reports=1000, kills=5, hostile=0.01, seed=1)
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


def test_memory_is_counted_from_the_tenth_second_on():
    found = object.__new__(soak.Soak)
    found.memory = {("shuffler", 7): [(0.0, 10.0), (11.0, 60.0), (30.0, 75.0), (40.0, 70.0)]}
    assert found.grow() == {"shuffler": 15.0}


@pytest.mark.slow
@pytest.mark.xdist_group("servers")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_small_soak_loses_and_doubles_nothing(store):
    began = time.monotonic()
    program = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), "--reports", "1000"]
    ended = subprocess.run(
        [*program, "--kills", "16", "--store", store], capture_output=True, check=False
    )
    last = json.loads(ended.stdout.decode().splitlines()[-1])
    assert ended.returncode == 0, ended.stdout.decode()
    assert (last["accepted"], last["lost"], last["doubled"]) == (1000, 0, 0)
    assert last["kills"] >= 16
    assert time.monotonic() - began < 600
