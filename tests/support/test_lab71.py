"""Lab 71's support: what a diary tells, what listens, and that a job's processes end with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import psutil
import pytest
from labkit.errors import LabError
from support import lab71
from support.lab71 import nursery
from support.lab71.ports import listening
from support.lab71.processes import processes

from tests.labkit.launch.leftovers import until
from tests.processes import lives
from tests.support.answers import solved

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")


def event(name: str, pid: int, step: int, ranks: int, used=(), loss: float = 0.0) -> dict:
    return {"event": name, "pid": pid, "step": step, "ranks": ranks, "used": list(used), "loss": loss}


def diary() -> list[dict]:
    """Two ranks, steps 1 to 3; process 2 dies; process 1 goes back to step 2, and process 3 comes."""
    events = [event("begins", pid, 0, 2) for pid in (1, 2)]
    for step in (1, 2, 3):
        events += [event("step", pid, step, 2, [2 * step + pid], loss=step) for pid in (1, 2)]
    events += [event("begins", 1, 2, 1), event("step", 1, 3, 1, [7, 8], loss=30)]
    events += [event("begins", pid, 3, 2) for pid in (1, 3)]
    return events + [event("step", pid, 4, 2, [9 + pid], loss=40) for pid in (1, 3)]


def test_a_story_leaves_out_what_was_undone():
    story = lab71.Story(diary())
    assert story.losses() == [1, 2, 30, 40]
    assert story.sizes() == [2, 2, 1, 2]
    assert story.samples() == [2, 4, 6, 8]
    assert story.lost() == [1]
    assert story.processes() == [(2, 2), (1, 0), (2, 1)]
    assert set(story.used().values()) == {1}


def test_what_listens_is_seen():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert server.getsockname() not in listening()
        server.listen()
        assert server.getsockname() in listening()


def test_the_control_learns():
    losses = lab71.losses_alone(48, 0.2)
    assert len(losses) == -(-lab71.SAMPLES // 48)
    assert losses[-1] < losses[0] / 3


def test_without_a_tabletop_nothing_is_submitted(monkeypatch, capsys):
    monkeypatch.setattr("support.lab71.plug.cluster.slurm.tabletop", lambda: None)
    assert lab71.unplugged(None, 1) is None
    assert "make tabletop" in capsys.readouterr().out


def broken_part(order, done, batch, rank, ranks):
    raise ValueError("a mistake in the part")


def after_resize(batch, rate, first, ranks, keep):
    return batch, rate


def test_horovod_puts_new_nodes_behind_those_that_stay():
    from horovod.runner.elastic.discovery import HostManager

    assert HostManager.order_available_hosts({"new", "b", "c"}, ["a", "b", "c"]) == ["b", "c", "new"]


def test_horovods_own_loop_skips_sync_where_nodes_have_only_gone():
    from horovod.common.elastic import State
    from horovod.runner.elastic.worker import HostUpdateResult

    for result, skips in ((HostUpdateResult.removed, True), (HostUpdateResult.added, False)):
        state = State(bcast_object=lambda what: what, get_rank=lambda: 0)
        state.on_hosts_updated(1, result)
        with pytest.raises(RuntimeError) as interrupt:
            state.check_host_updates()
        assert interrupt.value.skip_sync == skips


@pytest.mark.slow
def test_a_mistake_ends_the_job_in_a_sentence_and_leaves_no_process():
    task = lab71.Task(broken_part, after_resize, lab71.OWN, (48, 0.2, 2), True, 3, 8, 14)
    family = family_of(processes().process.pid)
    with pytest.raises(LabError, match="a mistake in the part"):
        lab71.with_horovod(task, 100)
    assert family
    assert until(lambda: not any(lives(process) for process in family))


@pytest.mark.slow
@pytest.mark.parametrize("own_network", [True, False])
def test_a_port_counts_as_open_outside_only_where_the_job_has_no_network_of_its_own(own_network, monkeypatch):
    if own_network and not lab71.spaces():
        pytest.skip("this kernel allows no namespaces")
    lab71.close()
    if not own_network:
        monkeypatch.setattr("support.lab71.processes.spaces", list)
    names = solved("71_elastic_training")
    functions = (names[name] for name in ("own_part", "after_resize", "run_elastic"))
    task = lab71.Task(*functions, (48, 0.2, 2), True, 3, 8, 14)
    try:
        story = lab71.with_horovod(task, 100)
    finally:
        lab71.close()
    assert story.known in story.outside, "the control"
    assert story.known not in story.ports
    assert story.ports
    open_outside = set(story.ports) & set(story.outside)
    assert open_outside == (set() if own_network else set(story.ports))


INTERRUPTED = """
import os, signal, threading, time
from pathlib import Path
from support import lab71
from support.lab71.processes import processes
from tests.labkit.launch.leftovers import until
from tests.processes import lives
from tests.support.test_lab71 import family_of

def own_part(order, done, batch, rank, ranks):
    return order[done : done + batch][rank::ranks]

def after_resize(batch, rate, first, ranks, keep):
    return batch, rate

def interrupt():
    # As a notebook's "interrupt the kernel" does: all of the kernel's process group.
    os.killpg(0, signal.SIGINT)

def interrupt_the_job():
    until(Path(first.folder.name, "job1", "events.jsonl").exists, 100)
    family.extend(family_of(first.process.pid))
    interrupt()

first = processes()
try:
    interrupt()
    time.sleep(100)
except KeyboardInterrupt:
    print("interrupted while nothing ran", flush=True)
family = []
threading.Thread(target=interrupt_the_job).start()
task = lab71.Task(own_part, after_resize, lab71.OWN, (500, 0.2, 2), True, 3, 0, 0)
try:
    lab71.with_horovod(task._replace(pause=100), 100)
except KeyboardInterrupt:
    print("interrupted while ranks trained", flush=True)
assert len(family) > 3, family  # the nursery, the launcher, a rank and its client
assert until(lambda: not any(lives(process) for process in family)), family
print("steps:", len(lab71.with_horovod(task, 100).losses()), flush=True)
lab71.close()
"""


@pytest.mark.slow
def test_after_an_interrupt_nothing_is_left_and_the_next_job_runs():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        start_new_session=True,  # the interrupt is for its process group
    )
    said = ["interrupted while nothing ran", "interrupted while ranks trained", "steps: 2"]
    assert done.stdout.splitlines() == said, done.stderr


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stalls", [False, True])
def test_a_client_that_dies_or_stalls_at_the_door_is_sent_away(stalls, tmp_path, monkeypatch):
    monkeypatch.setattr(nursery, "PATIENCE", 0.2)
    reader, writer = os.pipe()
    with (
        socket.socket(socket.AF_UNIX) as door,
        socket.socket(socket.AF_UNIX) as client,
        open(reader, "rb") as pipe,
    ):
        door.bind(str(tmp_path / "door"))
        door.listen()
        client.connect(str(tmp_path / "door"))
        if stalls:
            socket.send_fds(client, [(100).to_bytes(4, "little")], [writer] * 3)
        else:
            client.close()
        os.close(writer)
        home = nursery.Nursery(None, door)
        home.fork_rank()
        assert home.ranks == {}
        assert pipe.read() == b""  # nobody holds the other end any more
        if stalls:
            assert client.recv(1) == b""


def family_of(pid: int) -> list[psutil.Process]:
    """The process and all below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
