"""CVE-2024-10190: what a stranger who reaches the port of one of Horovod's servers can do, before and after.

The payload is harmless: it makes a file in the test's own folder. All sockets are on loopback. "0.28.1" is
the installed package with the edits of five files undone; their SHA-256 is that of the source distribution.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import http.server
import importlib.util
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from env.horovod import build, edits
from env.horovod.edit import Edit

HERE = Path(__file__).resolve().parent
SERVERS = HERE / "horovod_servers.py"
JOB = HERE / "horovod_elastic_job.py"
BIN = Path(sys.executable).parent
INSTALLED = Path(importlib.util.find_spec("horovod").origin).parent
ORIGINALS = {  # SHA-256 in horovod-0.28.1.tar.gz
    "horovod/runner/http/http_server.py": "f3d31823899951d3b97b5d4cc7ef47d5d81433db65f51a9c7bb0436e920f4272",
    "horovod/runner/http/http_client.py": "50dc543975a3df3af25a10e082d1c206969cf1ee9923c2b1936dc13ef7fef46e",
    "horovod/runner/elastic/rendezvous.py": (
        "57eef5c34cac312bb50480293abda2dd3b8d4a2f8a3e216d97b07cf962b2fd86"
    ),
    "horovod/runner/elastic/worker.py": "4207f8734733ee50b3fa0f673db6482e4d990701ec3ab5b03385110f48988b04",
    "horovod/runner/common/util/network.py": (
        "b2bdf0324864d241f9bde0b8583acf2523f66f6c36c34f484009dd35a50ffc4a"
    ),
}
KEY = "f1" * 32
KEY_NAME = "_HOROVOD_SECRET_KEY"
PROOF_NAME = "X-Horovod-Proof"
LIMIT = 120  # seconds for what takes one or two, or five

pytestmark = pytest.mark.slow


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def undo(edit: Edit, root: Path) -> None:
    """Give a file the text that it had before the edit."""
    file = root / edit.path
    text = file.read_text(encoding="utf-8")
    assert text.count(edit.new) == edit.times, edit.name
    file.write_text(text.replace(edit.new, edit.old), encoding="utf-8")


@pytest.fixture(scope="module")
def horovods(tmp_path_factory) -> dict[str, Path]:
    """What PYTHONPATH must name: {"0.28.1": …, "ours": …}."""
    root = tmp_path_factory.mktemp("horovod-0.28.1")
    shutil.copytree(INSTALLED, root / "horovod", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for edit in reversed(edits.all_edits()):
        if edit.path in ORIGINALS:
            undo(edit, root)
    for path, digest in ORIGINALS.items():
        assert hashlib.sha256((root / path).read_bytes()).hexdigest() == digest, path
    return {"0.28.1": root, "ours": INSTALLED.parent}


def environment(horovod: Path, **more: str) -> dict[str, str]:
    """A clean environment for that Horovod; find_port, which all servers use, keeps them on loopback."""
    env = {name: value for name, value in os.environ.items() if "HOROVOD" not in name}
    env["PATH"] = f"{BIN}{os.pathsep}{env['PATH']}"
    return env | {
        "PYTHONPATH": str(horovod),
        "HOROVOD_RENDEZVOUS_BIND": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        **more,
    }


@contextmanager
def server(horovod: Path, kind: str, **more: str) -> Iterator[tuple[int, subprocess.Popen]]:
    """That server in a process of its own: its port, and the process."""
    command = [sys.executable, str(SERVERS), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(horovod, **more), text=True, **pipes) as process:
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def client(horovod: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess:
    """That client, to its end."""
    command = [sys.executable, str(SERVERS), *arguments]
    env = environment(horovod, **more)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)


def knock(port: int, method: str, path: str, body: bytes = b"", headers: dict | None = None) -> int | None:
    """The status that a stranger is answered; None when the server breaks off."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        connection.request(method, path, body or None, headers or {})
        return connection.getresponse().status
    except (http.client.HTTPException, OSError):
        return None
    finally:
        connection.close()


def signed(
    method: str, path: str, body: bytes = b"", key: str = KEY, nonce: str = "0" * 32
) -> dict[str, str]:
    """The headers of a proven request, written here a second time from the description in HOROVOD.md."""
    body_hash = hashlib.sha256(body).hexdigest()
    text = "\n".join(["horovod http request", nonce, method, path, str(len(body)), body_hash])
    proof = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {
        "Content-Length": str(len(body)),
        "X-Horovod-Nonce": nonce,
        "X-Horovod-Body": body_hash,
        PROOF_NAME: proof,
    }


def as_sent(payload: Payload) -> bytes:
    """As Horovod's codec writes an object."""
    return base64.b64encode(pickle.dumps(payload))


@pytest.mark.parametrize(("name", "runs"), [("0.28.1", True), ("ours", False)])
def test_a_strangers_pickle_at_the_elastic_server(horovods, tmp_path, name, runs):
    body = as_sent(Payload(tmp_path / "ran"))
    with server(horovods[name], "rendezvous", **{KEY_NAME: KEY}) as (port, _):
        status = knock(port, "PUT", "/worker_addresses/localhost:0", body)
        assert (tmp_path / "ran").exists() == runs
        if not runs:
            assert status in (403, None)  # it does not even read the body
            # Nor is it unpickled for who knows the secret: this server takes plain data.
            headers = signed("PUT", "/worker_addresses/localhost:0", body)
            assert knock(port, "PUT", "/worker_addresses/localhost:0", body, headers) is None
            assert not (tmp_path / "ran").exists()


def test_without_a_secret_given_the_servers_make_one(horovods, tmp_path):
    body = as_sent(Payload(tmp_path / "ran"))
    for kind, path in (("rendezvous", "/worker_addresses/localhost:0"), ("function", "/runfunc/func")):
        with server(horovods["ours"], kind) as (port, _):
            assert knock(port, "PUT", path, body) in (403, None)
            assert knock(port, "GET", path) == 403
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("name", "runs"), [("0.28.1", True), ("ours", False)])
def test_a_client_and_a_function_that_a_stranger_put_there(horovods, tmp_path, name, runs):
    """`horovod.run` hands its function to the ranks through a server that took anybody's."""
    with server(horovods[name], "function", **{KEY_NAME: KEY}) as (port, _):
        knock(port, "PUT", "/runfunc/func", as_sent(Payload(tmp_path / "ran")))
        done = client(horovods[name], "read", str(port), **{KEY_NAME: KEY})
    assert (tmp_path / "ran").exists() == runs
    assert (done.returncode == 0) == runs


class Impostor(http.server.BaseHTTPRequestHandler):
    """Stands where a server was: answers all with a payload, and keeps what it is sent."""

    def do_GET(self) -> None:
        self.send_response(200)
        for header in self.server.more.items():
            self.send_header(*header)
        self.send_header("Content-Length", str(len(self.server.value)))
        self.end_headers()
        self.wfile.write(self.server.value)

    def do_PUT(self) -> None:
        self.server.heard += self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_) -> None:
        """Not into the test's output."""


@contextmanager
def impostor(value: bytes, **more: str) -> Iterator[http.server.HTTPServer]:
    """That server, with these headers in its answers."""
    with http.server.HTTPServer(("127.0.0.1", 0), Impostor) as host:
        host.value = value
        host.more = more
        host.heard = b""
        thread = threading.Thread(target=host.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()


@pytest.mark.parametrize(("name", "runs"), [("0.28.1", True), ("ours", False)])
def test_a_client_and_a_server_that_a_stranger_set_up(horovods, tmp_path, name, runs):
    value = as_sent(Payload(tmp_path / "ran"))
    with impostor(value, **{PROOF_NAME: "0" * 64}) as host:
        done = client(horovods[name], "read", str(host.server_port), **{KEY_NAME: KEY})
    assert (tmp_path / "ran").exists() == runs
    if not runs:
        assert "is not from who knows this job's secret" in done.stderr


def test_a_client_without_the_secret_reads_nothing(horovods, tmp_path):
    with impostor(as_sent(Payload(tmp_path / "ran"))) as host:
        done = client(horovods["ours"], "read", str(host.server_port))
    assert f"{KEY_NAME} is not set" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("name", "tells"), [("0.28.1", True), ("ours", False)])
def test_a_worker_keeps_its_secret_to_itself(horovods, name, tells):
    """In 0.28.1 a worker sends the secret that its notifications are proven with, in clear."""
    with impostor(b"") as host:
        client(horovods[name], "worker", str(host.server_port), **{KEY_NAME: KEY})
        heard = host.heard
    assert heard
    if tells:
        addresses, secret = pickle.loads(base64.b64decode(heard))  # from our own worker
        assert len(secret) == 32
    else:
        addresses = json.loads(heard)
        assert KEY.encode() not in heard
        assert bytes.fromhex(KEY) not in heard
    assert [list(address)[0] for address in addresses["lo"]] == ["127.0.0.1"]


@pytest.mark.parametrize(("name", "tells"), [("0.28.1", True), ("ours", False)])
def test_nobody_asks_for_the_launchers_files(horovods, tmp_path, monkeypatch, name, tells):
    (tmp_path / "private").write_text("a file", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with server(horovods[name], "rendezvous", **{KEY_NAME: KEY}) as (port, _):
        assert knock(port, "HEAD", "/private") == (200 if tells else 403)
        assert knock(port, "HEAD", "/nothing") == (404 if tells else 403)


def test_a_proof_holds_for_one_request_alone(horovods):
    """Changed, made with another secret, or sent again, it is refused: here on the store of Gloo's ranks."""
    path = "/global/0"
    with server(horovods["ours"], "rendezvous", **{KEY_NAME: KEY}) as (port, _):
        good = signed("PUT", path, b"here")
        assert knock(port, "PUT", path, b"here", signed("PUT", path, b"here", key="another")) in (403, None)
        assert knock(port, "PUT", "/global/1", b"here", good) in (403, None)
        assert knock(port, "DELETE", path, b"here", good) in (403, None)
        assert knock(port, "PUT", path, b"herE", signed("PUT", path, b"here", nonce="1" * 32)) == 403
        assert knock(port, "PUT", path, b"here", good | {"Content-Length": "3"}) in (403, None)
        assert knock(port, "PUT", path, b"here", good | {"X-Horovod-Nonce": "2" * 32}) in (403, None)
        assert knock(port, "GET", path, headers=signed("GET", path, nonce="3" * 32)) == 404
        assert knock(port, "PUT", path, b"here", good) == 200
        assert knock(port, "GET", path, headers=signed("GET", path, nonce="4" * 32)) == 200
        assert knock(port, "PUT", path, b"here", good) in (403, None)
        assert knock(port, "GET", path) == 403


@contextmanager
def recorder(port: int) -> Iterator[tuple[int, list[bytes]]]:
    """Between one client and a service: a port for the client, and what it sends there, once it is done."""
    sent = []

    def copy(source: socket.socket, target: socket.socket, note: list[bytes]) -> None:
        while data := source.recv(65536):
            note.append(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        near, _ = gate.accept()
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            back = threading.Thread(target=copy, args=(far, near, []))
            back.start()
            copy(near, far, sent)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as gate:
        thread = threading.Thread(target=serve)
        thread.start()
        yield gate.getsockname()[1], sent
        thread.join()


NOTIFY = """
import sys
from horovod.runner.common.util.network import Wire
from horovod.runner.elastic.worker import HostsUpdatedRequest, WorkerNotificationClient
class One(WorkerNotificationClient):
    def _probe(self, addresses):
        return addresses
One({"lo": [("127.0.0.1", int(sys.argv[1]))]}, sys.argv[2].encode(), 0).notify_hosts_updated(7, 1)
"""


def notify(horovod: Path, port: int, key: str) -> subprocess.CompletedProcess:
    """Tell a worker's notification service, from a process of its own."""
    command = [sys.executable, "-c", NOTIFY, str(port), key]
    return subprocess.run(command, env=environment(horovod), capture_output=True, text=True, timeout=LIMIT)


def send_again(port: int, recorded: bytes) -> None:
    """Send these bytes to a service, and wait until it has done with them."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as line:
        line.sendall(recorded)
        line.shutdown(socket.SHUT_WR)
        try:
            while line.recv(65536):
                pass
        except ConnectionResetError:
            pass


@pytest.mark.parametrize(("name", "times"), [("0.28.1", 2), ("ours", 1)])
def test_a_recorded_message_to_a_service(horovods, name, times):
    with server(horovods[name], "service") as (port, process):
        with recorder(port) as (gate, sent):
            told = notify(horovods[name], gate, "key")
        assert told.returncode == 0, told.stderr
        send_again(port, b"".join(sent))
        process.stdin.close()  # it ends
        assert process.stdout.read().splitlines() == ["notified 7"] * times


def test_a_service_unpickles_nothing_of_a_strangers(horovods, tmp_path):
    """With a wrong key, in the right form; and as 0.28.1 wrote it."""
    message = pickle.dumps(Payload(tmp_path / "ran"))
    head = len(message).to_bytes(8, "big") + hashlib.sha256(message).digest()
    with server(horovods["ours"], "service") as (port, _):
        assert notify(horovods["ours"], port, "another key").returncode != 0
        send_again(port, bytes(32) + head + bytes(32) + message)
        digest = hmac.new(b"key", message, hashlib.sha256).digest()
        send_again(port, digest + len(message).to_bytes(4, "little") + message)
    assert not (tmp_path / "ran").exists()


CHECK_PROOF_H = """
#include <iostream>
#include <iterator>
#include "proof.h"
using namespace horovod::common::proof;
int main() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), {});
  for (std::size_t n = 0; n <= text.size(); ++n) {
    std::cout << Hex(Sha256(text.substr(0, n))) << " " << Hex(Hmac(text.substr(0, n), text)) << "\\n";
  }
}
"""


def test_the_hashes_in_cpp_are_pythons(tmp_path):
    (tmp_path / "check.cc").write_text(CHECK_PROOF_H, encoding="utf-8")
    include = ["-I", str(edits.HERE)]
    program = tmp_path / "check"
    compiler = [build.compiler_path(), "-std=c++14", "-Wall", "-Werror", *include]
    subprocess.run([*compiler, str(tmp_path / "check.cc"), "-o", str(program)], check=True)
    text = os.urandom(200)
    lines = (
        subprocess.run([program], input=text, capture_output=True, check=True).stdout.decode().splitlines()
    )
    assert lines == [
        f"{hashlib.sha256(text[:n]).hexdigest()} {hmac.new(text[:n], text, 'sha256').hexdigest()}"
        for n in range(201)
    ]


def test_a_rank_of_gloo_believes_no_stranger(horovods):
    """It asks from C++, hears a wrong proof three times, and ends."""
    numbers = {f"HOROVOD_{name}_RANK": "0" for name in ("LOCAL", "CROSS")} | {"HOROVOD_RANK": "0"}
    numbers |= {f"HOROVOD_{name}_SIZE": "1" for name in ("LOCAL", "CROSS")} | {"HOROVOD_SIZE": "1"}
    with impostor(b"", **{PROOF_NAME: "0" * 64}) as host:
        env = environment(
            horovods["ours"],
            HOROVOD_CONTROLLER="gloo",
            HOROVOD_CPU_OPERATIONS="gloo",
            HOROVOD_GLOO_IFACE="lo",
            HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(host.server_port),
            **numbers,
            **{KEY_NAME: KEY},
        )
        command = [sys.executable, "-c", "import horovod.torch as hvd; hvd.init()"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode != 0
    assert done.stderr.count("without a proof that it comes from this job, got 200") == 3, done.stderr


def horovodrun(*arguments: str) -> list[str]:
    """Horovod's launcher, as its command starts it."""
    return [sys.executable, "-m", "horovod.runner.launch", *arguments]


SSH = """#!/bin/sh
# Stands in for ssh: a shell with an environment of its own, as on another host. It notes its command line.
echo "$@" >> "{log}"
while [ $# -gt 1 ]; do shift; done
exec env -i PATH="$PATH" PYTHONPATH="$PYTHONPATH" HOME="$HOME" HOROVOD_RENDEZVOUS_BIND=127.0.0.1 sh -c "$1"
"""

HELLO = """
import os, sys, torch
import horovod.torch as hvd
hvd.init()
total = float(hvd.allreduce(torch.ones(1), op=hvd.Sum)[0])
key = os.environ["_HOROVOD_SECRET_KEY"]
print("HELLO", hvd.rank(), total, len(key), key in open(sys.argv[1]).read() if len(sys.argv) > 1 else None)
"""


def test_workers_on_other_hosts_have_the_secret(horovods, tmp_path):
    """Two hosts that ssh alone reaches: services find the network, two ranks sum."""
    log = tmp_path / "ssh.log"
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(log=log), encoding="utf-8")
    ssh.chmod(0o755)
    hello = tmp_path / "hello.py"
    hello.write_text(HELLO, encoding="utf-8")
    env = environment(horovods["ours"])
    env["PATH"] = f"{ssh.parent}{os.pathsep}{env['PATH']}"
    command = horovodrun("--gloo", "--disable-cache", "-np", "2", "-H", "far.invalid:1,farther.invalid:1")
    command += [sys.executable, str(hello), str(log)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=2 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "HELLO 0 2.0 64 False" in done.stdout
    assert "HELLO 1 2.0 64 False" in done.stdout
    assert "horovod.runner.task_fn" in log.read_text(encoding="utf-8")


def test_horovod_run_hands_over_a_function(horovods, tmp_path):
    """`horovod.run` with Gloo: function and results go through a server, pickled, with proofs."""
    code = "import horovod; print('SUM', sum(horovod.run(lambda: 21, num_proc=2, use_gloo=True)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        env=environment(horovods["ours"]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert "SUM 42" in done.stdout, done.stdout + done.stderr


def wait_for(what, process: subprocess.Popen, limit: float = 2 * LIMIT):
    """What `what` answers as soon as that is something; fails when the job ends or time is up before."""
    end = time.monotonic() + limit
    while time.monotonic() < end and process.poll() is None:
        answer = what()
        if answer:
            return answer
        time.sleep(0.1)
    process.kill()
    pytest.fail(process.communicate()[0])


def listening(process: psutil.Process) -> set[str]:
    """The addresses on which this process and those that it started listen."""
    addresses = set()
    for member in [process, *process.children(recursive=True)]:
        try:
            sockets = member.net_connections("tcp")
        except psutil.Error:
            continue
        addresses |= {entry.laddr.ip for entry in sockets if entry.status == psutil.CONN_LISTEN}
    return addresses


WAIT = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / os.environ["HOROVOD_RANK"]).touch()
while not (folder / "go").exists():
    time.sleep(0.05)
"""


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root can be another user")
def test_another_user_reads_no_secrets_on_command_lines(horovods, tmp_path):
    """horovodrun writes its environment on them: /proc shows it to all users."""
    secrets = {"JUPYTERHUB_API_TOKEN": "of-the-hub", "JPY_API_TOKEN": "of-jupyter", "DB_PASSWORD": "of-a-db"}
    script = tmp_path / "wait.py"
    script.write_text(WAIT, encoding="utf-8")
    env = environment(horovods["ours"], A_VARIABLE="for-all-to-see", **secrets)
    command = horovodrun("--gloo", "-np", "2", "--network-interfaces", "lo", sys.executable)
    command += [str(script), str(tmp_path)]
    job = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), job)
        looked = subprocess.run(
            ["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null"],
            user=61234, group=61234, extra_groups=[], capture_output=True, timeout=LIMIT,
        )  # fmt: skip
        (tmp_path / "go").touch()
        assert job.wait(LIMIT) == 0
    finally:
        job.kill()
        job.communicate()
    assert looked.stdout.count(b"A_VARIABLE=for-all-to-see") >= 2
    assert [value for value in secrets.values() if value.encode() in looked.stdout] == []


def test_a_stranger_at_an_elastic_job(horovods, tmp_path):
    """Two ranks, one of which is killed; a stranger knocks before and after; it ends well."""
    script = tmp_path / "hosts.sh"
    script.write_text("#!/bin/sh\necho localhost:1\necho 127.0.0.1:1\n", encoding="utf-8")
    script.chmod(0o755)
    command = horovodrun("-np", "2", "--min-np", "1", "--network-interfaces", "lo")
    command += ["--host-discovery-script", str(script), sys.executable, str(JOB), str(tmp_path)]
    env = environment(horovods["ours"])
    del env["HOROVOD_RENDEZVOUS_BIND"]  # nobody has to set it
    job = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def seen(host: str, size: int) -> dict | None:
        file = tmp_path / f"seen-{host}.json"
        story = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return story if story.get("size") == size and story["sum"] == size else None

    def intrude(port: int) -> None:
        body = as_sent(Payload(tmp_path / "ran"))
        assert knock(port, "PUT", "/worker_addresses/localhost:0", body) in (403, None)
        assert knock(port, "GET", "/rank_and_size/localhost:0") == 403
        assert knock(port, "PUT", "/global/0", b"my address") in (403, None)

    try:
        wait_for(lambda: seen("127.0.0.1", 2), job)
        story = wait_for(lambda: seen("localhost", 2), job)
        assert story["address"] == "127.0.0.1"
        assert story["key_length"] == 64
        assert story["key_on_command_lines"] == []
        assert listening(psutil.Process(job.pid)) == {"127.0.0.1"}
        intrude(story["port"])
        (tmp_path / "die").touch()
        alone = wait_for(lambda: seen("localhost", 1), job)
        assert alone["turn"] >= story["turn"]
        intrude(story["port"])
        (tmp_path / "end").touch()
        output, _ = job.communicate(timeout=2 * LIMIT)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 0, output
    assert not (tmp_path / "ran").exists()
