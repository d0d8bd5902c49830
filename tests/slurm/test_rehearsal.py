"""`make rehearse`, whole: the track's five jobs on a tabletop cluster of two nodes.

The labs run as they do in the rehearsal at a site, solved and with small parameters. It takes two
minutes on two cores.
"""

from __future__ import annotations

import re

import pytest
from authoring import rehearsal
from labkit import builds, cluster

from slurm import tabletop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def table(tmp_path, monkeypatch):
    with tabletop.up("rehearsal", nodes=2, home=tmp_path) as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running
        for job in cluster.jobs():
            if not job.status().ended:
                job.cancel()


def test_all_jobs_of_the_track_are_ready(table, capsys):
    status = rehearsal.main(["--site", "tabletop", "--patience", "900"])
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith(("✓", "✗"))]
    assert status == 0, "\n".join(lines)
    labs = [line[2:4] for line in lines]
    # Lab 46 runs once with each build of Horovod; without GPUs there is one.
    assert labs == ["40", "41", "42", "43", *["46"] * len(builds.horovod_builds())]
    assert all(re.search(r"\): (tensors on cpu|every check passed)", line) for line in lines)
    assert f"{len(lines)} of {len(lines)} jobs ready on tabletop." in printed
