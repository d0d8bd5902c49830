"""Who listens during a run on one machine: nobody but at the loopback address."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from labkit import builds, launch
from labkit.launch import loopback

pytestmark = pytest.mark.usefixtures("nothing_left")
SCRIPT = """
import json, pathlib
from labkit import launch
from tests.labkit.launch.test_sockets import over_mpi
sockets = launch.run(over_mpi, {top})[0]
pathlib.Path({file!r}).write_text(json.dumps(sockets))
"""


def listening(top: int) -> list[tuple[str, str, int]]:
    """(process, address, port) of each socket that awaits others, of the process `top` and all
    below it."""
    import socket

    import psutil

    own = psutil.Process(top)
    sockets = []
    for process in (own, *own.children(recursive=True)):
        for each in process.net_connections("inet"):
            if each.status == psutil.CONN_LISTEN or each.type == socket.SOCK_DGRAM:
                sockets.append((process.name(), each.laddr.ip, each.laddr.port))
    return sockets


def open_to_others(sockets: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return [each for each in sockets if not _is_loopback(each[1])]


def _is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def shown(sockets: list[tuple[str, str, int]]) -> str:
    return "\n".join(f"{process} {address} {port}" for process, address, port in sockets)


def over_mpi(comm, top):
    """Short and long messages first: whatever MPI opens for them is open."""
    right = (comm.rank + 1) % comm.size
    for size in (10, 10_000_000):
        comm.sendrecv(b"x" * size, dest=right)
    comm.Barrier()
    sockets = listening(top) if comm.rank == 0 else []
    comm.Barrier()
    return sockets


@launch.in_group("gloo")
def over_gloo(top):
    import torch
    from torch import distributed

    distributed.all_reduce(torch.ones(3))
    sockets = listening(top) if distributed.get_rank() == 0 else []
    distributed.barrier()
    return sockets


def over_horovod(top):
    import horovod.torch as hvd
    import torch

    hvd.init()
    hvd.allreduce(torch.ones(3))
    sockets = listening(top) if hvd.rank() == 0 else []
    hvd.allreduce(torch.ones(3))
    return sockets


def over_gloo_by_mpi(comm, top):
    """As lab 51 starts PyTorch's backends: on the ranks of an MPI job."""
    import torch
    from torch import distributed

    with launch.reserve_port() as taken:
        port = comm.bcast(taken.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with launch.environment({**place, "RANK": str(comm.rank), "WORLD_SIZE": str(comm.size)}):
        distributed.init_process_group("gloo")
    distributed.all_reduce(torch.ones(3))
    sockets = listening(top) if comm.rank == 0 else []
    comm.Barrier()
    distributed.destroy_process_group()
    return sockets


def over_grpc(top):
    """As lab 61 starts TensorFlow's servers."""
    import tensorflow as tf

    with launch.reserve_port() as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    server = tf.distribute.Server({"worker": [address]}, "worker", 0, protocol="grpc")
    assert server.target == f"grpc://{address}"
    with tf.device("/job:worker/task:0"):
        tf.config.experimental_connect_to_host(address)
        assert float(tf.constant(1.0) + 1.0) == 2.0
    return listening(top)


RUNS = {
    "MPI": (over_mpi, {}),
    "MPI over libfabric": (over_mpi, {"env": {"MPICH_CH4_NETMOD": "ofi"}}),
    "MVAPICH2": (over_mpi, {"mpi": "mvapich2"}),
    "Gloo": (over_gloo, {"controller": "torch"}),
    "Gloo by MPI": (over_gloo_by_mpi, {}),
    "Horovod over Gloo": (over_horovod, {"env": {"HOROVOD_CPU_OPERATIONS": "gloo"}}),
    "TensorFlow's servers": (over_grpc, {"ranks": 1}),
}


def sockets_of(name: str) -> list[tuple[str, str, int]]:
    function, options = RUNS[name]
    return launch.run(function, os.getpid(), **{"ranks": 2, **options})[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name != "MPI"])
def test_a_run_on_one_machine_listens_to_that_machine_alone(name):
    if name == "MVAPICH2" and "mvapich2" not in builds.mpi_builds():
        pytest.skip("MVAPICH2 is not built here")
    sockets = sockets_of(name)
    assert sockets  # the launcher's control port, or where Gloo's ranks meet
    assert not open_to_others(sockets), shown(sockets)


def test_ranks_of_mpi_listen_not_at_all_and_have_lost_their_launchers_socket():
    sockets = sockets_of("MPI")
    names = {process for process, _, _ in sockets}
    assert names == {"mpiexec", "hydra_pmi_proxy"}, shown(sockets)
    assert not open_to_others(sockets), shown(sockets)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "listener"), [("MPI", "mpiexec"), ("Gloo", "python")])
def test_without_the_variables_it_would_listen_to_all(name, listener, monkeypatch):
    """The control: the tests above see what they are to see."""
    monkeypatch.setattr(loopback, "loopback_variables", lambda environ: {})
    sockets = sockets_of(name)
    everywhere = {process for process, address, _ in sockets if address in ("0.0.0.0", "::")}
    assert listener in everywhere, shown(sockets)


def test_make_run_listens_to_this_machine_alone(checkout, tmp_path):
    file = tmp_path / "sockets.txt"
    for folder in ("labs", "solutions"):
        script = checkout.root / folder / "20_sockets.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(SCRIPT.format(top=os.getpid(), file=str(file)))
    code = (
        "import sys; from pathlib import Path; from labkit import paths; from labkit.cli import"
        f" run; paths.root = lambda: Path({str(checkout.root)!r}); sys.exit(run.run('20', 2))"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sockets = json.loads(file.read_text())
    assert sockets
    assert not open_to_others(sockets), shown(sockets)


def test_what_is_set_already_stays():
    own = {"UCX_TLS": "self,sm", "NCCL_SOCKET_IFNAME": "eth1", "LD_PRELOAD": "/usr/lib/libown.so"}
    chosen = loopback.loopback_variables(own)
    assert not {"UCX_TLS", "NCCL_SOCKET_IFNAME"} & chosen.keys()
    library, kept = chosen["LD_PRELOAD"].split()
    assert Path(library).name == loopback.LIBRARY
    assert kept == "/usr/lib/libown.so"
    assert "LD_PRELOAD" not in loopback.loopback_variables(own | chosen)  # not twice


@pytest.mark.parametrize("folder", ["my labs", "a:b"])
def test_a_path_that_the_linker_cannot_be_told_is_left_out(folder, monkeypatch, tmp_path):
    (tmp_path / folder / "lib").mkdir(parents=True)
    (tmp_path / folder / "lib" / loopback.LIBRARY).touch()
    assert loopback.loopback_gap() is None
    monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
    assert "LD_PRELOAD" not in loopback.loopback_variables({})
    assert "move the checkout" in loopback.loopback_gap()
    (tmp_path / folder / "lib" / loopback.LIBRARY).unlink()
    assert "`make setup` makes it" in loopback.loopback_gap()


SERVERS = """
import socket
import sys

def bound(family, address, kind=socket.SOCK_STREAM, only=None):
    with socket.socket(family, kind) as made:
        if only is not None:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        made.bind((address, 0))
        return made.getsockname()[0]

v4, v6 = socket.AF_INET, socket.AF_INET6
print(bound(v4, ""), bound(v4, "127.0.0.2"), bound(v4, "", socket.SOCK_DGRAM))
print(bound(v6, "::", only=0), bound(v6, "::", only=1), bound(v6, "::1"))
with socket.socket(socket.AF_UNIX) as made:
    made.bind(sys.argv[1])
try:
    bound(v4, "203.0.113.1")
except OSError as error:
    print(error.strerror)
"""


def test_only_servers_that_name_no_address_get_the_loopback_address(tmp_path):
    env = os.environ | {"LD_PRELOAD": str(Path(sys.prefix, "lib", loopback.LIBRARY))}
    command = [sys.executable, "-c", SERVERS, str(tmp_path / "door")]
    v4, v6, refused = subprocess.check_output(command, env=env, text=True).splitlines()
    assert v4.split() == ["127.0.0.1", "127.0.0.2", "0.0.0.0"]
    assert v6.split() == ["::ffff:127.0.0.1", "::1", "::1"]
    assert refused == "Cannot assign requested address"
