"""What is read from each program's output, and verdicts that no public thread shows."""

from __future__ import annotations

import json

import pytest
import verdict
from labkit.errors import LabError
from verdict.__main__ import main
from verdict.hardware import Hardware, Link, of_gpu
from verdict.judge import EXPECTED, FASTER, NONE, SLOWER, expect
from verdict.readings import Reading

HEAD = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
PINGPONG = """\
# MPI PingPong Test
# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples
         1              0.52 | 1.9175154e-06 ± 6.9555e-06    10000
         8              4.58 | 1.7481184e-06 ± 8.5918e-07    10000
       512            239.62 | 2.1366930e-06 ± 1.3139e-06    10000
      4096           1696.34 | 2.4146148e-06 ± 1.0278e-06    10000
"""  # of this machine


def table(bus: float, ranks: int = 8, more: str = "", gpu: str = "H100 80GB HBM3") -> str:
    """An allreduce at that bus bandwidth in GB/s, in the columns of nccl-tests."""
    place = "#  Rank {0:2} Group  0 Pid 1 on node{1} device {2} [0x01] NVIDIA " + gpu
    lines = [place.format(rank, rank // 8, rank % 8) for rank in range(ranks)]
    lines += [HEAD, more]
    for size in (1 << 20, 1 << 30, 1 << 32, 1 << 33):
        algbw = bus / (2 * (ranks - 1) / ranks)
        us = size / algbw / 1e3 + 30
        half = f"{us:.1f} {size / us / 1e3:.2f} {size / us / 1e3 * bus / algbw:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {half} {half}")
    return "\n".join(lines)


def one(text: str, **typed: str) -> verdict.report.Verdict:
    (found,) = verdict.verdicts(text, **typed)
    return found


@pytest.mark.parametrize(
    ("test", "ranks", "nodes", "cards", "ring", "best"),
    [
        # The best allreduce reduces inside a node first: a card takes n / cards bytes.
        ("allreduce", 16, 2, 8, 8, 8 * 2 * 15 / 16),
        # Into a node come (m - 1) / m of the array.
        ("allgather", 24, 3, 8, 8, 8 * 23 / 24 * 3 / 2),
        ("reduce_scatter", 16, 2, 4, 4, 4 * 15 / 16 * 2),
        # 8 of the 15 messages of a rank leave its node.
        ("alltoall", 16, 2, 8, 15 / 8, 15 / 8),
        ("alltoall", 16, 2, 4, 15 / 16, 15 / 16),
        ("broadcast", 16, 2, 4, 4, 4),
        ("sendrecv", 16, 2, 8, 1, 8),
        ("bidirectional", 2, 2, 1, 2, 2),
        ("allreduce", 2, 2, 4, 1, 4),  # a rank takes the card next to it, but could take all
    ],
)
def test_bus_bandwidth_through_the_cards_of_nodes(test, ranks, nodes, cards, ring, best):
    hardware = Hardware(nodes, card=Link(100.0, 90.0, "typed", {}), cards=cards)
    found = expect(Reading("nccl-tests", test), hardware, ranks)
    assert (found.bound, found.reached) == pytest.approx((100 * ring, 90 * ring))
    assert found.most == pytest.approx(100 * best)


@pytest.mark.parametrize(
    ("bus", "typed", "word"),
    [
        (476, {}, EXPECTED),  # NVLS, above the 450 GB/s of the links
        (160, {}, SLOWER),
        (1200, {}, FASTER),
        (900, {"link": "450GB/s"}, FASTER),
        (1e5, {"machine": "h100_ndr"}, FASTER),
    ],
)
def test_one_node_of_h100_is_known_by_its_name(bus, typed, word):
    assert one(table(bus), **typed).word == word


FEW_LINKS = "  1. The board has no switch"


@pytest.mark.parametrize(
    ("gpu", "ranks", "bus", "fits"),
    [
        ("A100-SXM4-40GB", 2, 80, True),  # 4 of 12 links
        ("A100-SXM4-40GB", 3, 155, True),  # 8
        ("A100-SXM4-40GB", 2, 120, False),  # more than 4 carry
        ("A100-SXM4-40GB", 2, 40, False),
        ("A100-SXM4-40GB", 8, 80, False),  # eight have all of their links
        ("H100 80GB HBM3", 2, 140, True),
        ("Tesla V100-SXM2-32GB", 2, 22, True),  # one link of a DGX-1
        ("Tesla V100-SXM2-32GB", 2, 46, True),  # two
        ("Tesla V100-SXM2-32GB", 2, 9, False),
        ("A100-PCIE-40GB", 2, 9, False),
    ],
)
def test_few_gpus_of_a_board_without_a_switch_have_a_part_of_their_links(gpu, ranks, bus, fits):
    text = table(bus, ranks, gpu=gpu)
    found = one(text)
    assert found.word == SLOWER
    assert (FEW_LINKS in verdict.of_text(text)) == fits
    assert ("without a switch" in " ".join(found.doubts)) == fits
    assert found.confidence != "high" or not fits
    if fits:
        assert one(text, link=f"{bus * 1.2:.0f}GB/s").word == EXPECTED


def test_a_pair_of_a_machine_without_a_switch():
    osu = "# OSU MPI-CUDA Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
    osu += "".join(f"{1 << power} 48000\n" for power in range(18, 31))
    assert FEW_LINKS in verdict.of_text(osu, machine="dgx1", nodes="1")


def test_what_an_algorithm_can_do_on_two_nodes_is_not_too_fast():
    two = table(175, ranks=16)
    assert one(two).word == NONE
    assert "NIC=200Gb/s" in verdict.of_text(two)
    assert one(two, nic="100Gb/s", nics="8").word == EXPECTED  # trees on two nodes
    assert "NCCL_ALGO=RING" in verdict.of_text(two, nic="100Gb/s", nics="8")
    assert one(two, nic="50Gb/s", nics="8").word == FASTER
    assert one(two, link="200Gb/s", nics="8").word == EXPECTED  # the only link that was typed


def test_the_text_decides_which_cause_comes_first():
    for bus, sign, cause, before in (
        (
            60,
            "node1:1 [0] NCCL INFO Channel 00 : 0[0] -> 8[0] [send] via NET/Socket/0",
            "over TCP",
            2,
        ),
        (60, "NCCL INFO Connected all rings, use ring PXN 0 GDR 0", "GPUDirect RDMA", 2),
        (138, "", "Only some of the cards", 3),
    ):
        report = verdict.of_text(table(bus, ranks=16, more=sign), nic="400Gb/s", nics="8")
        assert cause in report[report.index("  1. ") : report.index(f"  {before}. ")], cause
    assert "type half of it" in verdict.of_text(table(360), link="900GB/s")


def test_json_with_times_of_calls_shows_spikes_and_stragglers():
    place = {"time": 5000.0, "alg_bw": 214.75, "bus_bw": 375.81, "nwrong": 0.0}
    calls = {
        "times_us": [5000.0] * 19 + [20000.0],
        "per_process_max_times_us": [[5000.0] * 20] * 7 + [[6000.0] * 20],
    }
    row = {"size": 1 << 30, "redop": "sum", "out_of_place": place, "out_of_place_per_iter": calls}
    device = {"hostname": "a", "device_info": "NVIDIA H100 80GB HBM3"}
    said = {"args": ["all_reduce_perf", "-I", "1"], "env": ["NCCL_ALGO=RING"]}
    said["config"] = {"devices": [{"rank": rank, **device} for rank in range(8)]}
    said["results"] = [row, row | {"size": 1 << 31, "out_of_place": place | {"time": 1e4}}]
    text = json.dumps(said)
    found = one(text)
    assert (found.word, found.reading.test, found.ranks) == (EXPECTED, "allreduce", 8)
    assert found.expectation.reached == 370e9  # the ring's, not that of NVLS
    report = verdict.of_text(text)
    assert "1 took more than twice their median of 5000 µs, the first one was call 19" in report
    assert "Straggler: process 7 takes 6000 µs" in report


def test_columns_of_single_calls_show_spikes():
    row = "1073741824 268435456 float sum -1 5000 214.75 375.81 0 4900 20000 19000 40.0"
    text = HEAD + "\n".join([row + row[row.index(" 5000") :]])
    found = one(text, machine="h100_ndr")
    assert found.reading.rows[0].calls == (4900e-6, 20000e-6)
    assert "Spikes: at 1 of 1 sizes" in verdict.of_text(text, machine="h100_ndr")


def test_two_runs_in_a_file_get_two_verdicts():
    end = "\n# Avg bus bandwidth    : 100\n"
    text = "all_reduce_perf\n" + table(476) + end + "# nThread 1\n" + table(170) + end
    assert [found.word for found in verdict.verdicts(text)] == [EXPECTED, SLOWER]


def test_a_ping_pong_of_mpi4py():
    found = one(PINGPONG, latency="1us")
    assert (found.word, found.reading.tool) == (EXPECTED, "mpi4py.bench")
    assert len(found.reading.rows) == 4
    assert one(PINGPONG, latency="0.5us").word == SLOWER
    assert one(PINGPONG, latency="50us").word == FASTER
    assert one(PINGPONG, machine="laptop").hardware.nodes == 1
    assert "standard deviation is larger" in verdict.of_text(PINGPONG, latency="1us")


def test_the_kits_own_records():
    record = {"result": "allreduce", "ranks": 4, "nodes": 2, "backend": "mpi", "unit": "s"}
    sizes = [1 << power for power in range(10, 28)]
    record |= {"bytes": sizes, "median": [20e-6 + 1.5 * n / 1.1e9 for n in sizes]}
    text = json.dumps({"result": "link"}) + "\n" + json.dumps(record) + "\nnot a record\n"
    found = one(text, machine="ethernet10")
    assert (found.word, found.ranks, found.hardware.nodes) == (EXPECTED, 4, 2)
    assert found.best.startswith("ring")


def test_osus_other_tables():
    pairs = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.0\n# [ pairs: 4 ] [ window: 64 ]\n"
    pairs += "# Size                  MB/s        Messages/s\n1 58.09 58086503.51\n"
    pairs += "".join(f"{1 << power} 24000 1\n" for power in range(18, 23))
    found = one(pairs, nic="200Gb/s", nodes="2")
    assert (found.word, found.reading.pairs) == (EXPECTED, 4)
    sums = (
        "# OSU MPI-CUDA Allreduce Latency Test v5.6.2\n# Size       Avg Latency(us)\n2048 61.02\n"
    )
    assert "how many ranks" in verdict.of_text(sums, link="25GB/s")
    assert one(sums, link="25GB/s", gpus="6").reading.test == "allreduce"


@pytest.mark.parametrize(
    ("title", "test"),
    [
        ("OSU MPI Latency Test", "latency"),
        ("OSU MPI Multi Latency Test", "latency"),
        ("OSU MPI Multi-threaded Latency Test", "latency"),
        ("OSU MPI_Put Latency Test", "latency"),
        ("OSU MPI Gather Latency Test", None),
        ("OSU MPI Alltoallv Latency Test", None),
    ],
)
def test_what_is_no_ping_pong_is_not_judged_as_one(title, test):
    found = verdict.verdicts(f"# {title} v7.0\n# Size   Avg Latency(us)\n1 2.5\n8 2.6\n")
    assert [one.reading.test for one in found] == ([test] if test else [])


@pytest.mark.parametrize(
    ("bus", "ranks", "listed", "typed"),
    [
        (1.13, 32, 32, {}),
        (11.3, 48, 48, {}),
        (2.83, 32, 0, {"nodes": "4", "gpus": "8"}),
        (2.83, 32, 0, {"gpus": "8"}),
    ],
)
def test_ranks_are_those_that_are_listed_or_typed_where_these_fit(bus, ranks, listed, typed):
    lines = table(bus, ranks).splitlines()
    text = "\n".join(lines[:listed] + lines[ranks:])
    found = one(text, nic="200Gb/s", **typed)
    assert (found.ranks, found.hardware.nodes) == (ranks, ranks // 8)


def test_a_file_with_very_many_tables_says_how_many_are_not_shown():
    osu = "# OSU MPI Latency Test v7.0\n# Size   Avg Latency(us)\n1 2.5\n8 2.6\n\n"
    report = verdict.of_text(osu * 10)
    assert report.count("OSU's benchmark") == 8
    assert report.endswith("2 more tables are not shown: put them into a file of their own.")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("NVIDIA GeForce RTX 5090", 63e9),
        ("NVIDIA RTX 5000 Ada Generation", 31.5e9),
        ("NVIDIA GeForce RTX 4090", 31.5e9),
        ("NVIDIA RTX A6000", 31.5e9),
        ("Quadro RTX 5000", 15.75e9),
        ("NVIDIA GeForce RTX 2080 Ti", 15.75e9),
    ],
)
def test_the_links_of_cards_by_their_names(name, line):
    assert of_gpu(name).line == line


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"link": "fast"}, "'fast' is no number with a unit"),
        ({"nic": "25"}, "25GB/s or 200Gb/s"),
        ({"nic": "0Gb/s"}, "25GB/s or 200Gb/s"),
        ({"nodes": "many"}, "NODES is a whole number"),
        ({"gpus": "-8"}, "GPUS is a whole number"),
        ({"latency": "3"}, "LATENCY=1.5us"),
        ({"machine": "mine"}, "There is no machine 'mine'"),
        ({"colour": "red"}, "it takes machine, link"),
    ],
)
def test_what_is_typed_wrongly_is_named(typed, sentence):
    with pytest.raises(LabError, match=sentence):
        verdict.of_text(table(100), **typed)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "there is no table of nccl-tests"),
        (b"just a poem\n", "there is no table of nccl-tests"),
        (b"\x7fELF\0\0\0", "is a binary file"),
        (b"{" * 100_000, "there is no table of nccl-tests"),
        (b"x" * (21 << 20), "more than 20 MiB"),
    ],
)
def test_files_that_are_none_get_a_sentence_and_a_status(tmp_path, capsys, content, sentence):
    path = tmp_path / "out.txt"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    assert sentence in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    path = tmp_path / "out.txt"
    path.write_text(table(476), encoding="utf-16")
    assert main([str(path)]) == 0
    assert "Verdict: as expected" in capsys.readouterr().out
    path.write_text(table(175, ranks=16))
    assert main([str(path)]) == 1
    assert main(["-"]) == 2
    assert main([str(tmp_path)]) == 2
