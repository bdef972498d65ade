"""What `deploy/` has is tried: nginx with certificates, the steps of the container files, units, the compose file."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import shuffledp as sdp
from repository import ROOT, tracked_files
from shuffledp.live.serve import find_port
from support import need

DEPLOY = ROOT / "deploy"
ROLES = ("shuffler", "analyzer")
BATCH = os.urandom(1 << 20) * 8


class Backend(BaseHTTPRequestHandler):
    """In place of a role: says what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = (
            BATCH if self.path.startswith("/batches") else json.dumps(dict(self.headers)).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        taken = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"bytes": len(taken)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: tests are quiet."""


def make_certificate(folder, name):
    folder.mkdir(parents=True)
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    command += ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def running_nginx(tmp_path, backend):
    """The example, word for word but for ports and the places of certificates."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    need(program, "nginx (apt-get install nginx-light)")
    need(shutil.which("openssl"), "openssl")
    port = find_port()
    text = (DEPLOY / "nginx.conf").read_text()
    for name in ("shuffler.example", "results.example"):
        make_certificate(tmp_path / "ssl" / name, name)
    text = text.replace("/etc/ssl", str(tmp_path / "ssl")).replace(
        "listen 443 ssl", f"listen 127.0.0.1:{port} ssl"
    )
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{backend}").replace(
        "127.0.0.1:8001", f"127.0.0.1:{backend}"
    )
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\n{places}{text}}}\n"
    if os.geteuid() == 0:
        whole = "user root;\n" + whole
    (tmp_path / "nginx.conf").write_text(whole)
    command = [program, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr.decode()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def test_nginx_passes_on_what_it_should_and_remembers_nothing(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with running_nginx(tmp_path, server.server_port) as port:
        trusted = ssl.create_default_context(cafile=tmp_path / "ssl/shuffler.example/fullchain.pem")
        named = {"sni_hostname": "shuffler.example"}
        with httpx.Client(
            verify=trusted, base_url=f"https://127.0.0.1:{port}", trust_env=False
        ) as client:
            client.headers["Host"] = "shuffler.example"
            client.headers["X-Forwarded-For"] = "192.0.2.7"

            def ask(method, address, **more):
                return client.send(
                    client.build_request(method, address, extensions=named, **more), stream=False
                )

            end = time.monotonic() + 20
            while True:
                try:
                    seen = ask("GET", "/windows").json()
                    break
                except httpx.TransportError:
                    assert time.monotonic() < end
                    time.sleep(0.05)
            assert seen["Host"] == "shuffler.example"
            assert not [name for name in seen if name.lower() in ("x-forwarded-for", "x-real-ip")]
            assert ask("POST", "/reports", content=b"x" * 20_000).json() == {"bytes": 20_000}
            assert ask("POST", "/reports", content=b"x" * 70_000).status_code == 413
            assert ask("GET", "/batches/0").content == BATCH
            watch_a_slow_reader(client, named, tmp_path)
        assert "127.0.0.1" not in (tmp_path / "error.log").read_text()
        left = [
            path
            for path in tmp_path.rglob("*")
            if path.is_file() and path.parent.parent != tmp_path / "ssl"
        ]
        assert {path.name for path in left} <= {"nginx.conf", "error.log", "pid"}
    server.shutdown()
    server.server_close()


def test_the_caddyfile_of_the_guide_passes_on_what_it_should(tmp_path):
    program = shutil.which("caddy")
    need(program, "caddy (apt-get install caddy)")
    guide = (ROOT / "docs/howto/run-a-collection.md").read_text()
    text = re.search(r"`Caddyfile`:\n\n```text\n(.*?)```", guide, re.DOTALL)[1]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = {name: find_port() for name in ("shuffler", "results")}
    for name, port in ports.items():
        text = text.replace(f"{name}.example", f"http://127.0.0.1:{port}")
    text = re.sub(r"127\.0\.0\.1:800[01]", f"127.0.0.1:{server.server_port}", text)
    (tmp_path / "Caddyfile").write_text(text.replace("{\n", "{\n    admin off\n", 1))
    command = [program, "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        for port in ports.values():
            transport = httpx.HTTPTransport(retries=8)
            with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
                seen = client.get("/windows", headers={"X-Forwarded-For": "192.0.2.7"}).json()
                assert "X-Forwarded-For" not in seen
                assert client.get("/batches/0").content == BATCH
                sent = client.post("/reports", content=b"x" * 20_000)
                assert sent.json() == {"bytes": 20_000}
        shuffler = f"http://127.0.0.1:{ports['shuffler']}/reports"
        assert httpx.post(shuffler, content=b"x" * 70_000).status_code >= 400
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        server.shutdown()
        server.server_close()
    assert "127.0.0.1" not in (tmp_path / "log").read_text().partition("serving")[2]


def watch_a_slow_reader(client, named, tmp_path):
    """A batch that is read slowly is not put on the disk meanwhile."""
    request = client.build_request("GET", "/batches/0", extensions=named)
    answer = client.send(request, stream=True)
    pieces = answer.iter_raw(1 << 16)
    next(pieces)
    time.sleep(0.5)
    kept = [path for path in (tmp_path / "proxy").rglob("*") if path.is_file()]
    assert kept == []
    assert open_temporary_files(tmp_path) == []
    answer.close()


def open_temporary_files(folder):
    """Files that nginx holds open and has deleted already, as it does with temporary ones."""
    pid = (folder / "pid").read_text().strip()
    children = Path(f"/proc/{pid}/task/{pid}/children")
    pids = [pid, *(children.read_text().split() if children.exists() else [])]
    links = [link for each in pids for link in Path(f"/proc/{each}/fd").glob("*")]
    found = []
    for link in links:
        try:
            found.append(str(link.readlink()))
        except OSError:  # closed meanwhile
            continue
    return [
        each
        for each in found
        if str(folder / "proxy") in each or str(folder / "client_body") in each
    ]


@pytest.mark.parametrize("role", ROLES)
def test_units_have_limits_and_start_what_exists(role):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / f"shuffledp-{role}.service")
    service = unit["Service"]
    wanted = {
        "LimitCORE": "0",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "UMask": "0077",
    }
    assert wanted.items() <= dict(service).items()
    assert {"MemoryMax", "TasksMax", "LimitNOFILE", "User", "StateDirectory"} <= set(service)
    program, command, folder, *options = shlex.split(service["ExecStart"])
    assert (program, command) == ("/opt/shuffledp/bin/shuffledp", role)
    assert folder.startswith(f"/var/lib/{service['StateDirectory']}/")
    check_options(role, options)
    verify = shutil.which("systemd-analyze")
    if verify:
        said = subprocess.run(
            [verify, "verify", str(DEPLOY / f"shuffledp-{role}.service")],
            capture_output=True,
            check=False,
        ).stderr.decode()
        assert "Unknown" not in said


def check_options(role, options):
    """They are options of the command."""
    helped = subprocess.run(
        [sys.executable, "-m", "shuffledp", role, "--help"],
        capture_output=True,
        check=True,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
    ).stdout.decode()
    for option in options:
        assert not option.startswith("--") or re.search(rf"{option}\b", helped), option


def read_container(role):
    lines = (DEPLOY / f"Containerfile.{role}").read_text().replace("\\\n", " ").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("role", ROLES)
def test_container_files_run_one_role_as_nobody(role):
    found = dict(read_container(role))
    assert found["USER"] == "10001:10001"
    program, command = json.loads(found["ENTRYPOINT"])
    assert (program, command) == ("/opt/shuffledp/bin/shuffledp", role)
    check_options(role, json.loads(found["CMD"]))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_the_steps_of_a_container_file_run_in_a_clean_folder(role, tmp_path):
    """As a script: what is COPYed is a copy of the checkout, and / is a folder."""
    for path in tracked_files():
        place = tmp_path / "src" / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    for folder in ("opt", "var/lib"):
        (tmp_path / folder).mkdir(parents=True)
    steps = [rest for word, rest in read_container(role) if word == "RUN"]
    assert len(steps) >= 3
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    clean |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for step in steps:
        here = re.sub(r"(?<![\w.])/(opt|var)/", rf"{tmp_path}/\1/", step)
        if here.startswith("chown") and os.geteuid() != 0:
            continue
        done = subprocess.run(
            ["/bin/sh", "-euc", here],
            cwd=tmp_path / "src",
            env=clean,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (here, done.stderr.decode()[-2000:])
    program = [str(tmp_path / "opt/shuffledp/bin/shuffledp"), role, "--help"]
    said = subprocess.run(program, cwd=tmp_path, env=clean, capture_output=True, check=True)
    assert "--metrics" in said.stdout.decode()


def test_the_compose_file_fits_the_container_files():
    yaml = pytest.importorskip("yaml")  # of mkdocs
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"database", "seals", "shuffler-a", "shuffler-b", "analyzer"}
    apart = [services[name]["volumes"] for name in ("database", "seals")]
    assert apart[0] != apart[1]
    lines = re.findall(r"^#   (.*)$", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE)
    named = {name: said.split()[0] for name, said in tomllib.loads("\n".join(lines)).items()}
    assert named == {"postgresql": "host=database", "seals": "host=seals"}
    instances = []
    for name, service in services.items():
        assert {"mem_limit", "restart"} <= set(service)
        if "build" not in service:
            continue
        role = name.partition("-")[0]
        assert (DEPLOY / ".." / service["build"]["dockerfile"]).exists()
        assert service["build"]["dockerfile"].endswith(f".{role}")
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        if "command" in service:
            check_options(role, service["command"])
            instances.append(service["command"][-1])
    assert instances == ["a", "b"]


def test_metrics_have_an_address_and_a_token_of_their_own(tmp_path):
    import asyncio

    from shuffledp.live.serve.journal import Journal, bind_place, keep_token, make_metrics_app

    lines = []
    journal = Journal("shuffler", write=lines.append)
    folder = tmp_path / "shuffler"
    folder.mkdir(mode=0o700)
    token = keep_token(folder / "metrics-token", journal)
    assert keep_token(folder / "metrics-token", journal) == token
    assert (folder / "metrics-token").stat().st_mode & 0o777 == 0o600
    assert keep_token(tmp_path / "nowhere" / "metrics-token", journal) != token
    assert json.loads(lines[0])["event"] == "failing"

    async def write():
        return "shuffledp_failing 0\n"

    async def scene():
        transport = httpx.ASGITransport(make_metrics_app(token, write))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://10.0.0.1:9100"
        ) as client:
            right = {"Authorization": f"Bearer {token}"}
            found = await client.get("/metrics", headers=right)
            assert (found.status_code, found.text) == (200, "shuffledp_failing 0\n")
            for headers in ({}, {"Authorization": f"Bearer {token}x"}, {"Authorization": token}):
                assert (await client.get("/metrics", headers=headers)).status_code == 401
            for path in ("/status", "/close", "/tokens"):
                assert (await client.get(path, headers=right)).status_code == 404

    asyncio.run(scene())
    with bind_place("0") as place:
        assert place.getsockname()[0] == "127.0.0.1"
    with bind_place("[::1]:0") as place:
        assert place.getsockname()[0] == "::1"
    for said in ("x", "127.0.0.1:", "65536", "1e3", "²"):
        with pytest.raises(sdp.DataError, match=r"must be a port or HOST:PORT"):
            bind_place(said)


def test_the_analyzer_has_metrics_of_its_own(tmp_path):
    from live.test_roles import fill, hand_over, open_analyzer, open_shuffler
    from shuffledp.live.serve.analyzer import Contact, write_metrics
    from shuffledp.live.serve.journal import Health, Journal

    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    fill(shuffler)
    shuffler.tick(1110.0)
    assert hand_over(shuffler, analyzer) == "published"
    moment = [100.0]
    contact = Contact(lambda: moment[0])
    health = Health(Journal("analyzer", write=lambda _: None))
    before = write_metrics(analyzer, {}, health, contact)
    assert "shuffledp_shuffler_last_contact_seconds -1\n" in before
    contact.note({1: "not_ready: window 1 takes reports for another 9 seconds"})
    moment[0] = 130.0
    contact.note({1: "the shuffler at http://127.0.0.1:8000 cannot be reached"})
    health.fail("work", "BudgetError: no", uptime=0.0)
    lines = write_metrics(analyzer, {1: "unreachable"}, health, contact).splitlines()
    assert lines == [
        'shuffledp_windows{state="published"} 1',
        "shuffledp_windows_waiting 1",
        "shuffledp_failing 1",
        'shuffledp_failures_total{kind="work"} 1',
        "shuffledp_shuffler_last_contact_seconds 30",
    ]
