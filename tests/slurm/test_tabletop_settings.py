"""What may be asked of a tabletop cluster, and the sentence for what may not."""

from __future__ import annotations

import os
import sys

import pytest
from labkit import paths
from labkit.errors import LabError

from env.install import debian
from slurm.tabletop import config, needs
from slurm.tabletop.settings import Settings, read_latency, read_node, read_rate
from tests.helpers import ran
from tests.slurm.own_machine import needs_root, needs_slurm


@pytest.mark.parametrize("node", ["0", "3", "node", "²", "-1", ""])
def test_a_node_that_is_none_is_told_which_there_are(node):
    assert read_node("node2", 2) == 2
    with pytest.raises(LabError, match="Its nodes: node1 node2"):
        read_node(node, 2)


@needs_slurm
@needs_root
def test_a_machine_that_forbids_namespaces_is_told(tmp_path):
    without = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    up = [*without, sys.executable, "-m", "slurm.tabletop", "up", "--name", "never"]
    done = ran(*up, cwd=paths.root(), env=os.environ | {"LABKIT_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "Root may make no namespaces here" in done.stderr
    assert not (tmp_path / "tabletop/never").exists()


@needs_slurm
def test_a_kernel_without_netem_is_told(monkeypatch, tmp_path):
    (tmp_path / "tc").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    needs.check_netem(0)
    with pytest.raises(LabError, match="no netem"):
        needs.check_netem(1000)


def test_missing_programs_are_told_with_their_packages(monkeypatch, tmp_path):
    monkeypatch.setattr(needs, "path", lambda: str(tmp_path))
    packages = r"(?s)slurmctld.*apt-get install .*munge.*dnf install .*slurm-slurmd"
    with pytest.raises(LabError, match=packages):
        needs.check_programs()


def test_rates_and_times_are_read():
    assert [read_rate(text) for text in ("50mbit", "1gbit", "2.5Gbit")] == [50e6, 1e9, 2.5e9]
    assert [read_latency(text) for text in ("500us", "1ms", "", None)] == [500, 1000, 0, 0]
    listed = set(debian.packages("tabletop")) | {"util-linux"}  # the latter is part of every Debian
    assert {packages[0] for packages in (needs.PROGRAMS | needs.FOR_USERS).values()} <= listed


# The machine's /dev/shm, in a mount namespace of the test's own; uid 61234 is another user.
SHARED_MEMORY = """
mount -t tmpfs -o mode=1777 shm /dev/shm
cd /dev/shm
stranger() { setpriv --reuid=61234 --regid=61234 --clear-groups -- "$@"; }
eval "$1"
"$2/bin/tabletop-enter" bash -c 'echo "on the host, with $SLURM_CONF"' || true
cd "$3"
"$4" -c 'from labkit.cluster import slurm; print(slurm.tabletop())'
"""


@needs_slurm
@needs_root
@pytest.mark.parametrize(
    ("make", "believed"),
    [
        ("stranger mkdir .tabletop; echo table | stranger tee .tabletop/name >&2", False),
        ("mkdir real; echo table >real/name; stranger ln -s real .tabletop", False),
        ("mkdir .tabletop; echo table >real; ln -s ../real .tabletop/name", False),
        ("mkdir .tabletop; echo table >.tabletop/name", True),
    ],
)
def test_root_alone_makes_the_files_by_which_one_knows_to_be_inside(tmp_path, make, believed):
    """Outside of a cluster any user may make them: then root would run what they name."""
    state = tmp_path / "tabletop" / "table"
    state.mkdir(parents=True)
    config.write(state, "table", Settings(1, 10**6, 0, 0), 1, (22, 5))
    (state / "holder").write_text("1 net:[1]\n", encoding="utf-8")  # of a cluster that has ended
    command = ["unshare", "--mount", "bash", "-ec", SHARED_MEMORY, "bash"]
    words = [*command, make, state, paths.root(), sys.executable]
    done = ran(*words, env=os.environ | {"LABKIT_HOME": str(tmp_path)})
    if believed:
        host = "on the host, with /dev/shm/.tabletop/conf/slurm.conf"
        assert done.stdout.splitlines() == [host, str(state / "bin")], done.stderr
    else:
        assert done.stdout == "None\n", done.stderr
        assert "is not running" in done.stderr
