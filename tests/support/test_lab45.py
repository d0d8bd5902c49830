"""support.lab45: cases of Adasum and of a search, the variables of autotune, training on virtual ranks."""

from pathlib import Path

import numpy as np
import pytest
from labkit import launch, virtual, world
from labkit.errors import CheckFailed
from support import lab45
from support.lab45.cases import adasum_of_two


def pair(a, b):
    return adasum_of_two(a, b).astype(a.dtype)


def test_adasum_is_sum_and_mean():
    a, b = np.array([2.0, 0.0], np.float32), np.array([0.0, 3.0], np.float32)
    np.testing.assert_allclose(adasum_of_two(a, b), a + b)
    np.testing.assert_allclose(adasum_of_two(a, 3 * a), 2 * a)
    np.testing.assert_allclose(adasum_of_two(a, 0 * b), a)


def test_pairs_are_within_rounding():
    for what, a, b, want, atol in lab45.pairs():
        np.testing.assert_allclose(pair(a, b), want, rtol=1e-4, atol=atol, err_msg=what)


def doubling(comm, gradient, layers):
    if comm.size & (comm.size - 1):
        raise ValueError(f"{comm.size} ranks")
    mine, theirs, distance = gradient.copy(), np.empty_like(gradient), 1
    while distance < comm.size:
        comm.Sendrecv(mine, comm.rank ^ distance, recvbuf=theirs, source=comm.rank ^ distance)
        mine = np.concatenate([pair(mine[layer], theirs[layer]) for layer in layers])
        distance *= 2
    return mine


@pytest.mark.parametrize("layers", [lab45.ONE_LAYER, lab45.THREE_LAYERS])
@pytest.mark.parametrize("p", [1, 8])
def test_adasum_of_all_is_what_ranks_make(p, layers):
    of_ranks = lab45.gradients(p, 1003)

    def own(comm):
        return doubling(comm, of_ranks[comm.rank], layers)

    run = virtual.Cluster(nodes=p, machine=lab45.STRICT).run(own)
    run.expect_results(lab45.adasum_of_all(of_ranks, layers), "Adasum", rtol=1e-3)


def test_refusals_are_told_by_rank():
    run = lab45.refusals(doubling, 3)
    assert run.results == ["3 ranks"] * 3
    assert not sum(run.sent)
    assert lab45.refusals(lambda comm, gradient, layers: gradient, 3).results == [""] * 3

    def stuck(comm, gradient, layers):
        comm.Recv(gradient, source=0)

    with pytest.raises(CheckFailed, match="With 3 ranks, not a power of two: no ValueError, but"):
        lab45.refusals(stuck, 3)


def test_layers_are_those_of_the_net():
    assert lab45.LAYERS[0] == slice(0, 64 * 128)
    assert lab45.LAYERS[-1].stop == 17_226


def test_machines_on_which_one_run_says_little():
    uneven, tiring = lab45.machines()
    runs = [[uneven(*setting) for setting in uneven.SETTINGS] for _ in range(uneven.rounds)]
    assert np.argmax(np.median(runs, axis=0)) == uneven.SETTINGS.index(uneven.best)
    assert np.argmax(np.max(runs, axis=0)) != uneven.SETTINGS.index(uneven.best)
    assert uneven.calls == uneven.rounds * uneven.SETTINGS
    first = [tiring(*setting) for setting in tiring.SETTINGS for _ in range(tiring.rounds)]
    assert np.argmax(first) < tiring.rounds, "all of one, then the next: the first looks best"
    with pytest.raises(CheckFailed, match="a setting is unpacked"):
        uneven((0, 1.0))


HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score\n"
)
# Logs as Horovod writes them, blank after a comma and all. The first is finished: it says the best again.
LOGS = {
    HEADER + "0,0,0, 1,5,4,98.1\n0,0,0, 1,50,32,12.5\n0,0,0, 1,25,16,24.2\n0,0,0, 1,10,8,61.7\n"
    "0,0,0, 1,1.5,60.25,131.9\n0,0,0, 1,3.2,0.5,87.4\n0,0,0, 1,1.5,60.25,131.9\n": (63176704, 1.5),
    HEADER + "0,0,0, 1,5,4,9.75\n0,0,0, 1,50,32,1.2\n0,0,0, 1,25,16,2.41\n": (4194304, 5.0),
    HEADER + "0,0,0, 1,5,4,95.2\n0,0,0, 1,50,32,20.9\n0,0,0, 1,10,8,104.6\n0,0,0, 1,25,16,31.3\n": (
        8388608,
        10.0,
    ),
    HEADER + "0,0,0, 1,5,4,98.1\n0,0,0, 1,50,32,12.5\n0,0,0, 1,25,16,98.6\n": (16777216, 25.0),
}


@pytest.mark.parametrize(("log", "setting"), LOGS.items())
def test_the_best_of_a_log(log, setting):
    assert lab45.best(log) == setting


def test_first_steps_are_between_mean_and_sum():
    lengths = lab45.first_steps(doubling, 16, (0, 1))
    assert lengths["sum"] == [16.0, 16.0]
    assert all(1 < length < 16 for length in lengths["Adasum"])


def test_variables_are_text():
    variables = lab45.autotune(3, 2, Path("log.csv"))
    assert variables["HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"] == "3"
    assert variables["HOROVOD_AUTOTUNE_LOG"] == "log.csv"


def test_training_by_four_ways():
    right = lab45.accuracies(doubling, (1, 2, 8), 0.05, (0,), epochs=1)
    assert right["sum"][1] == right["mean"][1] == right["Adasum"][1] == right[lab45.OF_NODES][1]
    assert all(60 < ways[2][0] <= 100 for ways in right.values())
    assert right[lab45.OF_NODES][2] == right["mean"][2], "one node: no Adasum takes place"
    assert right[lab45.OF_NODES][8] != right["mean"][8]


@pytest.mark.slow
def test_horovods_optimizer_adds_changes_of_weights():
    apart = launch.run(lab45.deltas, ranks=2)[0]
    assert apart["plain SGD"] < 1e-5
    assert apart["SGD with momentum 0.9"] > 1e-3
    assert launch.run(lab45.deltas, ranks=3) == [None] * 3


@pytest.mark.slow
def test_an_exchange_says_where_its_values_were():
    measured = launch.run(lab45.exchange, 100, 1, ranks=2)[0]
    assert measured["where"].device == world.device()
    assert measured["nodes"] == 1
    assert {"float32", "float16", "Adasum", "Adasum, float16"} < set(measured["exchange"])
    sent = [vectors for _, vectors in measured["exchange"].values()]
    assert max(sent) < 1000, "on one node nothing but chatter leaves"
