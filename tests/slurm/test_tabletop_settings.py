"""What may be asked of a tabletop cluster, and the sentence for what may not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from labkit import paths
from labkit.errors import LabError

from env.install import debian
from slurm.tabletop import needs
from slurm.tabletop.settings import read_latency, read_node, read_rate
from tests.slurm.normal_user import command_line, needs_slurm

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes a right away from root")


@pytest.mark.parametrize("node", ["0", "3", "node", "²", "-1", ""])
def test_a_node_that_is_none_is_told_which_there_are(node):
    assert read_node("node2", 2) == 2
    with pytest.raises(LabError, match="Its nodes: node1 node2"):
        read_node(node, 2)


@needs_slurm
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up", "--nodes", "0"], "NODES=0 will not do: give a whole number from 1"),
        (["up", "--nodes", "many"], "NODES=many"),
        (["up", "--bandwidth", "fast"], "BANDWIDTH=fast will not do"),
        (["up", "--gpus", "-1"], "GPUS=-1"),
        (["up", "--latency", "soon"], "LATENCY=soon will not do"),
        (["up", "--name", "../x"], "NAME=../x will not do"),
        (["status"], "To start it: make tabletop"),
        (["fail", "--node", "2"], "No tabletop cluster 'table' is running"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(arguments, sentence):
    done = command_line(*arguments)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


@needs_slurm
@as_root
def test_a_machine_that_forbids_namespaces_is_told(tmp_path):
    without = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run(
        [*without, sys.executable, "-m", "slurm.tabletop", "up", "--name", "never"],
        cwd=paths.root(),
        env=os.environ | {"LABKIT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "Root may make no namespaces here" in done.stderr
    assert not (tmp_path / "tabletop/never").exists()


def test_latency_needs_netem_and_programs_their_packages(monkeypatch, tmp_path):
    netem = (
        subprocess.run(
            [
                "unshare",
                *([] if needs.is_root() else ["--user", "--map-root-user"]),
                "--net",
                *["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
            ],
            capture_output=True,
        ).returncode
        == 0
    )
    keys = [] if needs.is_root() else ["--user", "--map-root-user"]
    if netem:
        needs.check_netem(1000, keys)
    else:
        with pytest.raises(LabError, match="no netem"):
            needs.check_netem(1000, keys)
    monkeypatch.setattr(needs, "path", lambda: str(tmp_path))
    with pytest.raises(LabError, match=r"(?s)slurmctld.*apt-get install .*munge.*dnf install .*slurm-slurmd"):
        needs.check_programs()


def test_rates_and_times_are_read():
    assert [read_rate(text) for text in ("50mbit", "1gbit", "2.5Gbit")] == [50e6, 1e9, 2.5e9]
    assert [read_latency(text) for text in ("500us", "1ms", "", None)] == [500, 1000, 0, 0]
    listed = set(debian.packages("tabletop")) | {"util-linux"}  # the latter is part of every Debian
    assert {packages[0] for packages in (needs.PROGRAMS | needs.FOR_USERS).values()} <= listed
