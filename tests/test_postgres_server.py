"""The server of the tests: as somebody who may do nothing else, and never longer than the tests."""

import subprocess
import sys
import time
from pathlib import Path

from postgres import get_server
from repository import ROOT


def test_a_server_ends_with_the_tests_however_they_end(tmp_path):
    """The process of the tests is killed: nothing of its own can run any more."""
    data = tmp_path / "pg" / "data"
    data.mkdir(parents=True)
    code = f"""
import subprocess, sys, time
from pathlib import Path
sys.path.append({str(ROOT / "tests")!r})
from postgres import watch_over
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
Path({str(data / "postmaster.pid")!r}).write_text(f"{{server.pid}}\\nmore\\n")
watch_over({str(tmp_path / "pg")!r})
print(server.pid, flush=True)
time.sleep(600)
"""
    tests = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with tests.stdout as said:
        server = int(said.readline())
    state = Path(f"/proc/{server}/status")
    assert state.exists()
    tests.kill()
    tests.wait()
    end = time.monotonic() + 60
    while (state.exists() and "Z (zombie)" not in state.read_text()) or (tmp_path / "pg").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_runs_as_nobody_who_could_do_more():
    server = get_server()
    owner = Path(f"/proc/{server.process.pid}").stat().st_uid
    assert owner != 0
