"""Workers of a pool end with the process that started them, however it ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

SERVER = """
import os, sys, time
from shuffledp.live.serve.pool import start_pool

if __name__ == "__main__":
    pool = start_pool(1, print, "")
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.xdist_group("servers")
def test_a_killed_server_leaves_no_worker_with_its_keys(tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as server:
        worker = next(int(line) for line in server.stdout if line.strip())
        assert is_alive(worker)
        server.send_signal(signal.SIGKILL)
        end = time.monotonic() + 60
        while is_alive(worker) and time.monotonic() < end:
            time.sleep(0.05)
        left = is_alive(worker)
        if left:
            os.kill(worker, signal.SIGKILL)
    assert not left
