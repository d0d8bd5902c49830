"""virtual.here: made-up records, real ones, none, and broken ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
import virtual
from labkit import paths, record
from labkit.errors import LabError
from virtual import here

LAB = "22_latency_and_bandwidth"
LINK = {
    "lab": LAB, "result": "link", "where": "inside a node", "host": "node7",
    "utc": "2026-11-21T10:00:00", "alpha": 2e-6, "step": 3e-6 + 1024 / 10e9,
    "bandwidth": 10e9, "eager": 4096, "handshake": 4e-6, "busy": 1e-6,
}  # fmt: skip
ADDITION = {"lab": LAB, "result": "addition", "speed": 25e9}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The learner's records file and the kit's, both not there yet."""
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "root", lambda: tmp_path / "kit")
    own, kit = record.path(LAB), tmp_path / "kit/solutions/results" / f"{LAB}.jsonl"
    for file in (own, kit):
        file.parent.mkdir(parents=True)
    return own, kit


def write(file, *entries):
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_the_learners_newest_usable_records_make_the_machine(folders):
    worse = {**LINK, "bandwidth": 5e9, "eager": 1}, {**ADDITION, "speed": 30e9}
    broken = {**LINK, "bandwidth": None}, {**ADDITION, "speed": None}
    write(folders[0], *worse, LINK, ADDITION, *broken)
    machine = here.machine()
    assert machine.inside.alpha == pytest.approx(3e-6), "a step with 1 KiB, less its bytes"
    assert machine.inside.overhead == pytest.approx(1e-6)
    assert machine.inside == machine.between
    assert (machine.inside.bandwidth, machine.eager, machine.handshake) == (10e9, 4096, 4e-6)
    assert machine.reduce == 25e9
    assert machine.name.startswith("here (your own records of lab 22, 2026-11-21, node7:")
    assert all("your own records" in source for source in machine.sources.values())


def test_inside_and_between_nodes_are_two_links(folders):
    far = {"where": "between nodes", "alpha": 20e-6, "step": 21e-6, "bandwidth": 1e9, "eager": 1024}
    write(folders[0], {**LINK, **far}, LINK, ADDITION)
    machine = here.machine()
    assert (machine.inside.bandwidth, machine.between.bandwidth) == (10e9, 1e9)
    assert machine.eager == 1024, "the slow link's"
    assert "between nodes" in machine.sources["between"]
    assert "inside a node" in machine.sources["inside"]
    assert "measured" in str(machine)


def test_none_at_all_is_a_sentence(folders):
    lack = r"records have no usable α and β \(result `link`\)"
    with pytest.raises(LabError, match=f"your own {lack}, and the kit's reference {lack}"):
        here.machine()
    with pytest.raises(LabError, match="Solve and run lab 22, or choose another machine"):
        virtual.machine("here")


def test_where_no_own_record_is_usable_the_kits_are_taken_and_said(folders):
    write(folders[1], LINK, ADDITION)
    for field, *values in (
        ("bandwidth", None, 0, -3e9),
        ("alpha", "2 µs", 0),
        ("handshake", -1e-6),
        ("eager", True),
        ("where", "on the moon"),
        ("step", [1, 2]),
    ):
        for value in values:
            write(folders[0], {**LINK, field: value}, ADDITION)
            name = here.machine().name
            assert name.startswith("here (the kit's reference records of lab 22"), (field, value)


def test_the_virtual_ranks_cost_what_the_record_says(folders):
    write(folders[0], LINK, ADDITION)
    node = virtual.Cluster(nodes=1, ranks_per_node=2, machine="here")

    def swap(comm, nbytes):
        give, take = np.zeros((2, nbytes), np.uint8)
        comm.Sendrecv(give, 1 - comm.rank, 0, take, 1 - comm.rank)

    for nbytes, handshake in ((0, 0), (4096, 0), (10**6, 4e-6)):
        assert node.run(swap, nbytes).time == pytest.approx(3e-6 + handshake + nbytes / 10e9)
    # An overhead is never longer than the message.
    write(folders[0], {**LINK, "busy": 1e-3}, ADDITION)
    link = here.machine().inside
    assert (link.latency, link.alpha, link.gap) == (0, pytest.approx(3e-6), pytest.approx(3e-6))


def test_the_kits_own_reference_records_make_a_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    machine = virtual.machine("here")
    assert "the kit's reference" in machine.name
    assert 0 < machine.inside.alpha < 1e-3
    assert 1e8 < machine.inside.bandwidth < 1e12
