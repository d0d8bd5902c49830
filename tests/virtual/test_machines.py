"""Named machines: every number has a source or is called an estimate; nonsense gets a sentence."""

import math

import pytest
import virtual
from labkit.errors import LabError

NAMES = [name for name in virtual.machines() if name != "here"]


def test_the_names():
    names = "laptop ethernet10_4gpu roce25_p100 k80_fdr k80_edr dgx1 summit h100_ndr"
    networks = "ethernet10 ethernet25 ethernet100 roce100 omnipath fdr edr ndr"
    assert " ".join(virtual.machines()) == f"{names} {networks} here"
    with pytest.raises(LabError, match=r"no machine 'cray'. There are laptop, .*h100_ndr, .*ndr, here"):
        virtual.machine("cray")
    with pytest.raises(LabError, match="no machine 'cray'"):
        virtual.Cluster(machine="cray")


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source(name):
    machine = virtual.machine(name)
    assert machine.name == name
    assert set(machine.sources) == set(machine.numbers())
    for number, source in machine.sources.items():
        assert len(source) > 15, number
        if source.startswith(("estimate:", "computed:", "left out:")):
            assert len(source.split(":", 1)[1]) > 10, f"{number}: an estimate says why"
    for number in ("inside.overhead", "between.overhead", "inside.gap", "between.gap"):
        assert machine.sources[number].startswith("left out:") == (machine.numbers()[number] == 0)


def test_but_changes_numbers_and_forgets_their_sources():
    machine = virtual.machine("dgx1").but(nics=1, inside=virtual.Link(1e-6, 1e9))
    assert (machine.nics, machine.inside.bandwidth) == (1, 1e9)
    assert "nics" not in machine.sources
    assert "inside.latency" not in machine.sources
    assert "between.latency" in machine.sources
    assert virtual.machine("dgx1").nics == 4
    with pytest.raises(LabError, match="A machine has no cards. It has name, inside"):
        machine.but(cards=2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: virtual.Link(1e-6, 0), "bandwidth is in bytes per second, above 0, not 0"),
        (lambda: virtual.Link(1e-6, "fast"), "bandwidth is in bytes per second"),
        (lambda: virtual.Link(-1, 1e9), "latency is a number of seconds, 0 or more, not -1"),
        (lambda: virtual.Link(1e-6, 1e9, gap=math.nan), "gap is a number of seconds"),
        (lambda: virtual.ideal().but(nics=0), "nics is a whole number, 1 or more, not 0"),
        (lambda: virtual.ideal().but(ranks_per_node=1.5), "ranks_per_node is a whole number"),
        (lambda: virtual.ideal().but(reduce=0), "reduce is a number above 0"),
        (lambda: virtual.ideal().but(inside=1e-6), "inside is a virtual.Link, not float"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(LabError, match=sentence):
        make()
