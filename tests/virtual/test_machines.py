"""Named machines: every number has a source or is called an estimate."""

import numpy as np
import pytest
import virtual
from labkit.errors import LabError

NAMES = [name for name in virtual.machines() if name != "here"]


def test_a_machine_that_there_is_not():
    there = r"no machine 'cray'. There are laptop, .*h100_ndr, .*ndr, here"
    for ask in (virtual.machine, lambda name: virtual.Cluster(machine=name)):
        with pytest.raises(LabError, match=there):
            ask("cray")


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_that_of_a_machine_and_has_a_source(name):
    machine = virtual.machine(name)
    assert machine.name == name
    assert set(machine.sources) == set(machine.numbers())
    for number, source in machine.sources.items():
        assert len(source) > 15, number
        if source.startswith(("estimate:", "computed:", "left out:")):
            assert len(source.split(":", 1)[1]) > 10, f"{number}: an estimate says why"
    for number in ("inside.overhead", "between.overhead", "inside.gap", "between.gap"):
        assert machine.sources[number].startswith("left out:") == (machine.numbers()[number] == 0)
    for link in (machine.inside, machine.between):
        assert 1e-7 < link.alpha < 1e-3
        assert 1e8 < link.bandwidth < 1e12
    assert machine.inside.bandwidth >= 0.99 * machine.between.bandwidth
    assert machine.ranks_per_node % machine.nics == 0
    assert 1e3 <= machine.eager <= 1e6
    assert machine.reduce > machine.between.bandwidth
    assert virtual.Cluster(2, None, name).size == 2 * machine.ranks_per_node


def test_but_changes_numbers_and_forgets_their_sources():
    link = virtual.Link(1e-6, np.float32(1e9))
    machine = virtual.machine("dgx1").but(nics=np.int64(1), inside=link)
    assert (machine.nics, machine.inside.bandwidth) == (1, 1e9)
    assert (type(machine.nics), type(machine.inside.bandwidth)) == (int, float)
    assert "nics" not in machine.sources
    assert "inside.latency" not in machine.sources
    assert "between.latency" in machine.sources
    assert virtual.machine("dgx1").nics == 4
    with pytest.raises(LabError, match="A machine has no cards. It has name, inside"):
        machine.but(cards=2)
