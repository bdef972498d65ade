"""A real PostgreSQL server for tests, from the system's packages: one per process, in a folder of its own."""

import atexit
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from support import need


def find_programs():
    """The folder of the newest server's programs; None if there is none."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4])
    )
    if debian:
        return debian[-1].parent
    found = shutil.which("postgres")
    return Path(found).parent if found else None


_WATCH = """
read -r _
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"
left=20
while [ $left -gt 0 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; left=$((left - 1)); done
kill -KILL "$pid" 2>/dev/null
rm -rf "$1"
"""


def watch_over(folder):
    """A process that waits for the end of this one, however it comes, and ends the server that is in the folder then."""
    command = ["/bin/sh", "-c", _WATCH, "sh", str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def name_schema(key):
    return "t" + hashlib.sha256(str(key).encode()).hexdigest()[:20]


class Server:
    """A server on a Unix socket. It refuses to be root, so root starts it as somebody who may do nothing else."""

    def __init__(self, *settings):
        programs = find_programs()
        need(programs is not None, "PostgreSQL's server (apt-get install postgresql)")
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self.programs, self.data, self.settings = programs, self.folder / "data", settings
        self.as_whom = {}
        if os.geteuid() == 0:
            self.as_whom = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        options = ["-U", "shuffledp", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
        self.process, self.watch = None, watch_over(self.folder)
        self.run("initdb", "-D", str(self.data), *options)
        self.start()

    def run(self, program, *arguments):
        command = [str(self.programs / program), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            cwd=self.folder,
            env=self.environment,
            **self.as_whom,
        )
        assert done.returncode == 0, done.stderr.decode()

    @property
    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}

    def start(self):
        """Start it; right after a kill its memory may still be in use for a moment."""
        for _ in range(50):
            self.launch()
            if self.wait():
                return
            time.sleep(0.2)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def launch(self):
        said = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": 40,
        }
        said |= {"shared_buffers": "64MB", "max_wal_size": "256MB", **dict(self.settings)}
        options = [word for name, value in said.items() for word in ("-c", f"{name}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self.data), *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
                **self.as_whom,
            )

    def wait(self):
        """Whether it has started; False if it gave up."""
        import psycopg

        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.where()).close()
                return True
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    return False
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.05)

    def where(self, database="postgres"):
        return f"host={self.folder} user=shuffledp dbname={database}"

    def kill(self):
        """The server; its children notice at once, and end."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.watch.stdin.close()
        self.watch.wait(20)

    def execute(self, *statements):
        import psycopg

        with psycopg.connect(self.where(), autocommit=True) as db:
            db.execute("SET client_min_messages = warning")
            return [db.execute(each) for each in statements][-1]

    def drop_schema(self, key):
        self.execute(f"DROP SCHEMA IF EXISTS {name_schema(key)} CASCADE")

    def make_schema(self, key):
        """A schema of its own for a key, the same one the next time: cheaper than a database."""
        name = name_schema(key)
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        return self.where() + f" options='-c search_path={name}'"

    def copy_schema(self, key, other):
        """What is in one schema now, in place of the other one."""
        old, new = name_schema(key), name_schema(other)
        self.execute(f"DROP SCHEMA IF EXISTS {new} CASCADE", f"CREATE SCHEMA {new}")
        query = f"SELECT tablename FROM pg_tables WHERE schemaname = '{old}'"  # noqa: S608
        for (table,) in self.execute(query).fetchall():
            self.execute(
                f"CREATE TABLE {new}.{table} (LIKE {old}.{table} INCLUDING ALL)",
                f"INSERT INTO {new}.{table} SELECT * FROM {old}.{table}",  # noqa: S608
            )


@lru_cache(maxsize=1)
def get_server():
    """The server of this process; it ends with it."""
    need(importlib.util.find_spec("psycopg"), "psycopg (the extra shuffledp[postgres])")
    owner = os.getpid()
    server = Server(("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off"))

    def end():
        if os.getpid() == owner:
            server.remove()

    atexit.register(end)
    return server
