"""What Horovod's build leaves out: servers, ranks over Gloo, other hosts, elastic jobs
(CVE-2024-10190)."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ran

INSTALLED = Path(importlib.util.find_spec("horovod").origin).parent
BIN = Path(sys.executable).parent
HOROVODRUN = [sys.executable, "-m", "horovod.runner.launch"]
SERVERS = r"^\s*(import|from) (socket|socketserver|http|xmlrpc)\b"
UNPICKLING = r"\bpickle\.loads?\("

pytestmark = pytest.mark.slow


def run(command: list[str], **more: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in os.environ.items() if "HOROVOD" not in name} | more
    env |= {"OMP_NUM_THREADS": "1", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return ran(*command, env=env)


def test_no_file_of_the_package_can_serve():
    """CVE-2024-10190 was in horovod/runner/elastic/rendezvous.py; nothing that listens is left."""
    runner = {path.name for path in (INSTALLED / "runner").glob("*.py")}
    assert runner == {"__init__.py", "launch.py"}
    found = {
        str(path.relative_to(INSTALLED)): re.findall(SERVERS, path.read_text(), re.MULTILINE)
        for path in INSTALLED.rglob("*.py")
    }
    # horovodrun asks for this host's name.
    served = {name: what for name, what in found.items() if what}
    assert served == {"runner/launch.py": [("import", "socket")]}


def test_ranks_unpickle_only_what_other_ranks_send():
    readers = [path for path in INSTALLED.rglob("*.py") if re.search(UNPICKLING, path.read_text())]
    names = {str(path.relative_to(INSTALLED)) for path in readers}
    assert names <= {f"{part}/functions.py" for part in ("mxnet", "tensorflow", "torch")}


ALONE = "it starts ranks on this machine alone"
HOW = "say how many ranks, and what they run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--gloo -np 2 true", "--gloo: ranks are started by MPI"),
        ("-np 2 --jsrun true", "--jsrun: ranks are started by MPI"),
        ("-np 2 --min-np 1 true", "--min-np: elastic jobs are not in this build"),
        ("--host-discovery-script=hosts.sh -np 2 true", "elastic jobs are not in this build"),
        ("-np 2 -H node1:1,node2:1 true", f"-H node1:1,node2:1: {ALONE}"),
        ("-np 2 -hostfile hosts true", f"-hostfile: {ALONE}"),
        ("-np 2 --ssh-port 22 true", f"--ssh-port: {ALONE}"),
        ("-np 2 --cycle-time-ms 3 true", "--cycle-time-ms is no option here. Horovod's settings"),
        ("-np 2", f"{HOW}: horovodrun -np 2 python train.py"),
        ("-np 0 true", HOW),
        ("true", HOW),
    ],
)
def test_horovodrun_refuses_with_what_to_type_instead(words, said):
    done = run([*HOROVODRUN, *words.split()])
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_horovodrun_starts_ranks_here_and_ends_as_they_do():
    show = "import os; print(os.environ['PMI_RANK'], os.environ['PMI_SIZE'], flush=True)"
    done = run([*HOROVODRUN, "-np", "2", "-H", "localhost:2", sys.executable, "-c", show])
    assert sorted(done.stdout.splitlines()) == ["[0] 0 2", "[1] 1 2"], done.stderr
    assert run([*HOROVODRUN, "-np", "2", "sh", "-c", "exit 3"]).returncode == 3


def test_horovodrun_says_what_is_built():
    done = run([*HOROVODRUN, "--check-build"])
    marks = dict(reversed(line.split("] ")) for line in done.stdout.splitlines() if "] " in line)
    assert marks.keys() == {"TensorFlow", "PyTorch", "MPI", "NCCL", "CCL", "Gloo"}
    assert all(marks[name].endswith("[X") for name in ("TensorFlow", "PyTorch", "MPI", "Gloo"))


INIT = "import horovod.torch as hvd; hvd.init()"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import horovod; horovod.run(print)", "horovod.run is not in this build of Horovod"),
        (INIT, "leave HOROVOD_CONTROLLER out, and use mpiexec"),
    ],
)
def test_other_ways_to_start_ranks_are_refused(code, said):
    done = run([sys.executable, "-c", code], HOROVOD_CONTROLLER="gloo")
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


LISTENING = """
import json, psutil
from mpi4py import MPI
def listening():
    connections = psutil.Process().net_connections()
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}
before = listening()  # of MPI itself
import torch
import horovod.torch as hvd
hvd.init()
facts = [hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), bool(hvd.gloo_enabled())]
new = MPI.COMM_WORLD.gather(sorted({ip for ip, _ in listening() - before}))
if hvd.rank() == 0:
    print(json.dumps([*facts, new]))
"""


@pytest.mark.parametrize(("carrier", "hosts"), [("mpi", []), ("gloo", ["127.0.0.1"])])
def test_no_rank_listens_to_others(carrier, hosts):
    """Beside MPI's own sockets there are none, or Gloo's, on the interface that it is told."""
    command = [str(BIN / "mpiexec"), "-n", "2", sys.executable, "-c", LISTENING]
    done = run(command, HOROVOD_CPU_OPERATIONS=carrier, HOROVOD_GLOO_IFACE="lo")
    total, by_gloo, new = json.loads(done.stdout.splitlines()[-1])
    assert (total, by_gloo) == (2.0, carrier == "gloo"), done.stderr
    assert all(ips in ([], hosts) for ips in new)
