"""Lab 43: the reader of NCCL's logs, ranks without a GPU, and allreduces that know nodes.

Logs: real excerpts (their sources stand in them), and lines in NCCL's own printf formats.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from labkit import virtual
from labkit.errors import LabError
from support.lab43 import allreduces, double_tree, nccl_lines, nccl_log, ranks

READ = {name: nccl_log.read(nccl_log.example(name)) for name in nccl_log.examples()}

VERSIONS = {
    "2.10.3_roce_gdrdma": "2.10.3+cuda11.0",
    "2.12.7_efa": "2.12.7+cuda11.4",
    "2.12.12_hidden_gpus": "2.12.12+cuda11.7",
    "2.18.3_socket_shm": "2.18.3+cuda12.2",
    "2.21.5_ib_gdrdma": "2.21.5+cuda12.4",
    "2.26.2_one_rank": "2.26.2+cuda12.8",
    "2.30.7_mnnvl": "2.30.7+cuda13.3",
}


def test_every_example_tells_its_source_and_hides_its_hosts():
    assert len(READ) >= 12
    for name in READ:
        text = nccl_log.example(name).read_text()
        assert re.search(r"^# Source: https://github\.com/\S+", text, re.MULTILINE), name
        for address in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text):
            assert address.startswith("192.0.2."), (name, address)  # RFC 5737: for documentation


@pytest.mark.parametrize("name", READ)
def test_version(name):
    assert READ[name].version == VERSIONS.get(name)


def test_network_and_its_devices():
    assert READ["2.10.3_roce_gdrdma"].networks == ("IB",)
    assert READ["2.10.3_roce_gdrdma"].devices == ("mlx5_6:1/RoCE",)
    assert READ["2.12.12_hidden_gpus"].devices == ("mlx5_0:1/IB", "mlx5_1:1/IB", "mlx5_2:1/RoCE")
    assert READ["2.12.7_efa"].networks == ("AWS Libfabric",)
    assert READ["2.18.3_socket_shm"].networks == ("Socket",)


def test_transports_between_pairs():
    roce = READ["2.10.3_roce_gdrdma"].transports()
    assert roce[13, 4] == roce[4, 12] == roce[12, 4] == {"NET/IB"}
    assert roce[14, 13] == {"P2P/direct pointer"}
    assert len(roce) == 10
    assert READ["2.10.3_roce_gdrdma"].transports(short=True)[13, 4] == {"NET+GDRDMA"}
    assert READ["nvls_64_ranks"].transports(short=True)[33, 40] == {"NET"}
    assert READ["2.21.5_ib_gdrdma"].transports()[3, 7] == {"NET/IBext_v8"}
    assert READ["2.21.5_ib_gdrdma"].transports()[4, 7] == {"P2P/CUMEM"}
    assert READ["2.30.7_mnnvl"].transports() == {(0, 1): {"P2P/MNNVL"}}
    assert READ["2.12.7_efa"].transports() == {(0, 1): {"NET/AWS Libfabric"}, (1, 0): {"NET/AWS Libfabric"}}
    assert READ["a100_nvlink_shm"].transports() == {
        (3, 0): {"SHM"},
        (1, 2): {"SHM"},
        (2, 3): {"P2P/CUMEM"},
        (0, 1): {"P2P/CUMEM"},
    }
    assert READ["shared_memory_2021"].transports() == {(0, 3): {"NET/Socket"}, (3, 2): {"SHM"}}
    assert READ["shm_other_gpus"].transports() == {(2, 3): {"SHM"}, (3, 2): {"SHM"}}  # on GPUs 6 and 7


@pytest.mark.parametrize(
    ("name", "gdrdma"),
    [
        ("2.10.3_roce_gdrdma", "all"),
        ("2.21.5_ib_gdrdma", "all"),
        ("rings_two_hosts", "all"),
        ("2.12.7_efa", "none"),
        ("nvls_64_ranks", "none"),
        ("2.18.3_socket_shm", "none"),
        ("a100_nvlink_shm", None),
        ("2.30.7_mnnvl", None),
    ],
)
def test_gpudirect_rdma(name, gdrdma):
    assert READ[name].gdrdma == gdrdma


def test_rings_and_trees():
    roce = READ["2.10.3_roce_gdrdma"]
    assert roce.rings == {0: [0, 7, 6, 5, 12, 11, 10, 9, 8, 15, 14, 13, 4, 3, 2, 1]}
    assert roce.trees[1][12] == (None, [13, 4])
    assert roce.trees[0][12] == (4, [13])
    assert READ["2.12.7_efa"].rings == {0: [0, 1], 1: [0, 1]}
    assert len(READ["tuning_h100_allreduce"].rings[0]) == 20  # of 24: NCCL prints no more
    assert READ["rings_two_hosts"].rings == {}  # only two of four ranks told their neighbours
    assert READ["rings_two_hosts"].trees[0][0] == (None, [1, 2])


def test_channels_and_nvlink_sharp():
    assert READ["2.10.3_roce_gdrdma"].channels == 2
    assert READ["nvls_64_ranks"].channels == 16
    assert READ["nvls_64_ranks"].nvls is True
    assert READ["tuning_h100_allreduce"].nvls is True
    assert READ["2.21.5_ib_gdrdma"].nvls is False
    assert READ["2.12.7_efa"].nvls is None  # NCCL 2.12 knew nothing of it


def test_where_the_ranks_are_and_who_is_missing():
    two = READ["rings_two_hosts"]
    assert two.size == 4
    assert two.missing() == []
    assert two.ranks[3] == nccl_log.Rank("node6", 4015540, 1, "38000", True)
    assert READ["2.12.7_efa"].ranks[1] == nccl_log.Rank("worker-1", 21, 0, "f5000", True)
    assert READ["2.26.2_one_rank"].missing() == [0, 1]  # rank 0 began, rank 1 was never seen
    assert READ["2.26.2_one_rank"].ranks[0].bus == "1901000"
    assert READ["2.21.5_ib_gdrdma"].missing() == [0, 1, 2, 3, 5, 6, 7]
    assert READ["shared_memory_2021"].missing() == [0, 1]
    assert READ["2.30.7_mnnvl"].missing() == []  # the excerpt names no ranks


def test_chosen_algorithms_of_numbers_and_of_names():
    numbers = READ["tuning_h100_allreduce"]
    assert numbers.chosen() == {
        128: "Tree/LL",
        256: "Tree/LL",
        512: "Tree/LL",
        262144: "Tree/LL128",
        524288: "NVLSTree/Simple",
    }
    assert numbers.choices[0].seconds == pytest.approx(25.214764e-6)
    names = READ["tuning_sockets_broadcast"]
    assert names.chosen("Broadcast")[134217728] == "Ring/Simple"
    assert names.chosen("AllReduce") == {}
    assert [choice.channels for choice in names.choices[:3]] == [1, 2, 4]


def test_problems_in_plain_words():
    duplicate = READ["duplicate_gpu"].problems()
    assert "Ranks 2 and 0 took the same GPU (PCI bus 1000)" in duplicate[0]
    assert len(duplicate) == 3
    assert any("/dev/shm" in problem for problem in READ["2.18.3_socket_shm"].problems())
    assert any("error of the system" in problem for problem in READ["2.18.3_socket_shm"].problems())
    assert "--gpu-bind=none" in READ["2.12.12_hidden_gpus"].problems()[0]
    assert len(READ["2.12.12_hidden_gpus"].problems()) == 1  # both ranks said the same
    assert "unspecified launch failure" in READ["2.30.7_mnnvl"].problems()[0]
    assert "NCCL_ALGO=COLLNET" in READ["2.10.3_roce_gdrdma"].problems()[0]
    unknown = nccl_log.parse("n:1:1 [0] init.cc:1 NCCL WARN something that nobody ever saw")
    assert unknown.problems() == ["something that nobody ever saw"]


def test_summary_says_it_in_a_few_lines():
    text = READ["2.10.3_roce_gdrdma"].summary()
    assert "version: 2.10.3+cuda11.0" in text
    assert "NET/IB 4, P2P/direct pointer 6" in text
    assert "GPUDirect RDMA on all of them" in text
    assert "ranks: 4, complete: 2" in READ["shared_memory_2021"].summary()
    assert "chosen: Ring/Simple" in READ["tuning_sockets_broadcast"].summary()


# One line per form that src/transport/*.cc and src/enqueue.cc print, with its tags.
@pytest.mark.parametrize(
    ("text", "kind", "gdrdma"),
    [
        ("Channel 00 : 0[1a000] -> 1[1b000] via P2P/IPC/read", "P2P/IPC", False),  # v2.10.3-1
        ("Channel 00 : 0[1a000] -> 1[1b000] via direct shared memory", "SHM", False),  # to v2.12.12-1
        ("Channel 00 : 1[b2] -> 6[b1] [send] via NET/IB/0/GDRDMA/Shared", "NET/IB", True),  # v2.10.3-1
        ("Channel 01/0 : 7[b2] -> 6[b1] [send] via NET/IB/0(3)/GDRDMA", "NET/IB", True),  # PXN, v2.12.12-1
        ("Channel 02 : 0[1a000] -> 1[1b000] via SHM/CE/direct", "SHM", False),  # v2.13.4-1, v2.14.3-1
        ("Channel 00/0 : 0[0] -> 2[2] via P2P/indirect/1[1]", "P2P/indirect", False),  # v2.18.3-1
        ("Channel 00/1 : 0[0] -> 2[2] [receive] via NET/IB/1/GDRDMA(PCI)", "NET/IB", True),  # v2.26.2-1
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read/CE", "P2P/CUMEM", False),  # v2.30.7-1
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct", "SHM", False),  # v2.30.7-1
        (
            "Channel 02/0 : 1[c6000] -> 4[c1000] [send] via NET/Socket/1 comm 0x9e nRanks 08",
            "NET/Socket",
            False,
        ),
    ],
)
def test_each_form_of_a_connection(text, kind, gdrdma):
    (link,) = nccl_log.parse(f"node:1:1 [0] NCCL INFO {text}").links
    assert (link.kind, link.gdrdma) == (kind, gdrdma)


def test_rings_put_together_from_neighbours():
    ring = [(3, 0, 1), (0, 1, 2), (1, 2, 3), (2, 3, 0)]
    lines = [f"n:{me}:{me} [0] NCCL INFO Ring 05 : {a} -> {me} -> {b}" for a, me, b in ring]
    assert nccl_log.parse("\n".join(lines)).rings == {5: [0, 1, 2, 3]}
    assert nccl_log.parse("\n".join(lines[:3])).rings == {}


def test_choice_of_2_23_and_of_2_24():
    log = nccl_log.parse(
        "n:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo 4 proto 2 time 25.5\n"
        "n:1:1 [0] NCCL INFO ReduceScatter: 2048 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..15}"
    )
    assert log.chosen("AllReduce") == {1024: "NVLS/Simple"}
    assert log.choices[1] == nccl_log.Choice("ReduceScatter", 2048, "PAT", "Simple", None, 16)


def test_messages_that_ran_together_and_labels_before_them():
    both = "3: a:1:2 [0] NCCL INFO Using network IB b:3:4 [1] NCCL INFO Using network Socket"
    assert nccl_log.parse(both).networks == ("IB", "Socket")
    table = "[0]   512   float  sum  -1[0] a:1:2 [0] NCCL INFO 512 Bytes -> Algo 1 proto 0 time 9.5"
    assert nccl_log.parse(table).chosen() == {512: "Ring/LL"}
    for label in ("[1,3]<stdout>:", "12: ", "[2026-03-01 10:00:00] ", "(Worker pid=7) "):
        line = f"{label}host:5:6 [1] NCCL INFO comm 0xa rank 3 nranks 4 cudaDev 1 busId 1b000 - Init COMPLETE"
        assert nccl_log.parse(line).ranks[3] == nccl_log.Rank("host", 5, 1, "1b000", True), label


def job(commands) -> str:
    """Threads (rank, communicator size) that begin, connect with the next rank, and are complete."""
    text = []
    for rank, size, number in commands:
        head = f"n{rank}:7:{rank} [0] NCCL INFO "
        where = f"comm 0x1 rank {number} nranks {size} cudaDev 0 nvmlDev 0 busId 1000 commId 0x{size}"
        text += [
            f"{head}{where} - Init START",
            f"{head}Channel 00/02 :    {'   '.join(map(str, range(size)))}",
        ]
        text += [f"{head}Channel 00/0 : {number}[0] -> {(number + 1) % size}[0] via P2P/IPC"]
        text += [f"{head}{where} - Init COMPLETE"]
    return "\n".join(text)


def test_the_largest_communicator_counts():
    """Horovod's hierarchical allreduce makes one for each node besides the one of all ranks."""
    log = nccl_log.parse(
        job([(rank, 2, rank % 2) for rank in range(4)] + [(rank, 4, rank) for rank in range(4)])
    )
    assert log.size == 4
    assert sorted(log.transports()) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert log.rings == {0: [0, 1, 2, 3]}
    assert log.missing() == []


def test_files_of_ranks_and_folders(tmp_path):
    text = job([(rank, 3, rank) for rank in range(3)]).splitlines()
    for rank in range(3):
        (tmp_path / f"nccl.n{rank}.log").write_text("\n".join(text[4 * rank : 4 * rank + 4]))
    assert nccl_log.read(tmp_path).missing() == []
    assert nccl_log.read(tmp_path / "nccl.n2.log", tmp_path / "nccl.n0.log").missing() == [1]


def test_bad_input_gets_a_sentence(tmp_path):
    (tmp_path / "poem.txt").write_text("Shall I compare thee to a summer's day?\n")
    with pytest.raises(LabError, match=r"no line of NCCL.*NCCL_DEBUG=INFO"):
        nccl_log.read(tmp_path / "poem.txt")
    with pytest.raises(LabError, match=r"Cannot read the log .*nothing\.log"):
        nccl_log.read(tmp_path / "nothing.log")
    with pytest.raises(LabError, match="at least one file"):
        nccl_log.read()
    with pytest.raises(LabError, match="no example 'x'"):
        nccl_log.example("x")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe NCCL INFO Using network IB\n\x00")
    assert nccl_log.read(tmp_path / "bytes").networks == ("IB",)


def test_names_of_algorithms():
    assert nccl_lines.named("6", nccl_lines.ALGORITHMS) == "PAT"
    assert nccl_lines.named("NVLS_TREE", nccl_lines.ALGORITHMS) == "NVLSTree"  # as collectives.cc has it
    assert nccl_lines.named("17", nccl_lines.ALGORITHMS) == "17"


# Ranks where there is no GPU.


def test_without_gpus_it_says_why_nothing_runs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    text = ranks.report(lambda local_rank, visible: 0, [1e3])
    assert text.startswith("GPUs here: 0. Horovod built with NCCL: ")
    assert "NCCL does not run here. On a cluster with both" in text
    assert "make submit LAB=43" in text


# NCCL's trees, held against the drawings in its src/graph/trees.cc, and what they promise.


def edges(tree) -> set[tuple[int, int]]:
    """(parent, child) of each edge."""
    return {(parent, child) for parent, node in tree.items() for child in node.children}


def test_the_trees_are_those_that_nccl_draws():
    first, second = double_tree.trees(14)
    fourteen = {(0, 8), (8, 4), (8, 12), (4, 2), (4, 6), (12, 10), (12, 13)}
    leaves = {(2, 1), (2, 3), (6, 5), (6, 7), (10, 9), (10, 11)}
    assert edges(first) == fourteen | leaves
    assert edges(second) == {(13 - parent, 13 - child) for parent, child in edges(first)}
    first, second = double_tree.trees(13)  # an odd number: moved on by one
    assert first[12] == double_tree.Node(8, (10,))
    assert second[1] == double_tree.Node(None, (9,))
    assert second[0] == double_tree.Node(9, (11,))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31, 32, 33, 100])
def test_a_node_with_two_children_is_a_leaf_of_the_other_tree(nodes):
    both = double_tree.trees(nodes)
    for tree in both:
        assert sorted(tree) == list(range(nodes))
        assert double_tree.depth(tree) == (nodes - 1).bit_length()
        for node, place in tree.items():
            assert all(tree[child].parent == node for child in place.children)
    for one, other in (both, both[::-1]):
        for node, place in one.items():
            assert len(place.children) < 2 or not other[node].children


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 8, 13, 16, 33, 64])
@pytest.mark.parametrize("g", [1, 3])
def test_in_a_turn_a_card_carries_one_message_each_way(nodes, g):
    messages = double_tree.plan(nodes, g)
    for turn in range(double_tree.TURNS):
        of_turn = [message for message in messages if message.turn == turn]
        for ends in ([message.source for message in of_turn], [message.dest for message in of_turn]):
            assert len(set(ends)) == len(ends)
    assert all(message.turn is None or {message.source % g, message.dest % g} == {0} for message in messages)


def test_no_tree_of_no_nodes():
    with pytest.raises(LabError, match="A tree of 0 nodes"):
        double_tree.trees(0)


# Allreduces that know nodes: the sum is right for every way, and its counts are those of the lab's formulas.


@pytest.mark.parametrize("way", allreduces.WAYS)
@pytest.mark.parametrize(("nodes", "g"), [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (5, 2), (2, 8)])
def test_every_rank_holds_the_sum(way, nodes, g):
    for length in (1, nodes * g - 1, 5 * nodes * g + 3):
        vectors = [np.arange(length, dtype=float) + 10 * rank for rank in range(nodes * g)]
        for slices in (1, 3) if way == "tree" else (1,):
            buffers = [vector.copy() for vector in vectors]

            def program(comm, vector, slices=slices):
                allreduces.allreduce(comm, vector, way, g, slices)
                return vector

            cluster = virtual.Cluster(nodes, ranks_per_node=g)
            cluster.run(program, virtual.by_rank(buffers)).expect_results(sum(vectors))


def test_what_leaves_a_node():
    assert allreduces.leaving("ring", 4, 4) == (pytest.approx(1.875), 30, 30)
    assert allreduces.leaving("tree", 2, 4) == (1, 2, 8)
    assert allreduces.leaving("tree", 3, 4) == (1.5, 3, 10)
    assert allreduces.leaving("tree", 4, 4) == (2, 4, 10)
    assert allreduces.leaving("tree", 64, 1) == (2, 4, 12)
    assert allreduces.leaving("binomial", 4, 4) == (2, 2, 10)
    assert allreduces.leaving("binomial", 64, 1) == (6, 6, 12)
    assert allreduces.leaving("torus", 4, 4) == (pytest.approx(1.5), 24, 12)
    assert allreduces.leaving("hierarchical", 4, 4) == allreduces.leaving("torus", 4, 4)
    assert allreduces.leaving("ring", 1, 4)[:2] == (0, 0)


def test_slices_are_as_long_as_nccl_makes_them():
    assert [allreduces.slices_of(n, 16, 4) for n in (1e4, 1e5, 1e6, 1e8)] == [1, 2, 8, 96]
    assert allreduces.slices_of(1 << 30, 1, 1) == 1024


@pytest.mark.slow
def test_nccls_tree_is_as_fast_as_its_ring_for_long_vectors_and_faster_for_short_ones():
    gains = allreduces.gains(16, "roce25_p100", (1e4, 1e8), 12e9)
    assert gains["tree"][1e4] > 4
    assert gains["tree"][1e8] == pytest.approx(0.92 * 63 / 64, abs=0.05)  # NCCL's own estimate
    assert gains["binomial"][1e8] < 0.3


def test_copies_to_the_host_take_their_time():
    torus, slow = (allreduces.run(way, 2, 4, 8e6, copy=1e9) for way in ("torus", "hierarchical"))
    assert slow.time - torus.time == pytest.approx(2 * 8e6 / 4 / 1e9)
    assert allreduces.run("hierarchical", 2, 4, 8e6).time == pytest.approx(torus.time)


def test_an_unknown_way_is_refused():
    with pytest.raises(LabError, match="no way 'star'"):
        allreduces.run("star", 2, 2, 1e6)
