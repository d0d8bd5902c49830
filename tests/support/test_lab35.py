"""support.lab35: the cases of its checks against simple answers, times of messages, links that pay."""

import numpy as np
import pytest
from labkit import launch, placement, virtual
from labkit.timing import Measurement
from support import lab35

SIMPLE = (lab35.whole, lab35.from_whole)


def feedback(comm, gradient, error, compress, expand):
    wanted = gradient + error
    message = compress(wanted)
    error[:] = wanted - expand(message, len(gradient))
    messages = np.empty((comm.size, len(message)), np.uint8)
    comm.Allgather(message, messages)
    return np.mean([expand(row, len(gradient)) for row in messages], axis=0)


def walk(comm, steps):
    """The means and errors of a rank."""
    error = np.zeros_like(steps[0].mean)
    means = [feedback(comm, step.gradients[comm.rank], error, *SIMPLE) for step in steps]
    return means, error


@pytest.mark.parametrize("p", [1, 3])
def test_steps_with_feedback_are_as_worked_out(p):
    steps = lab35.feedback_steps(p, 9, *SIMPLE)
    results = virtual.Cluster(nodes=p).run(walk, steps).results
    for rank, (means, error) in enumerate(results):
        np.testing.assert_allclose(means, [step.mean for step in steps], atol=1e-4)
        np.testing.assert_allclose(error, steps[-1].errors[rank], atol=1e-4)
    assert np.array_equal(steps[0].mean, steps[0].forgetful_mean), "nothing was left before the first step"
    assert not np.allclose(steps[1].errors, steps[1].forgetful_errors)


def test_float16_as_it_should_be_is_within_the_cases_rounding():
    for case in lab35.half_cases(4, lengths=(9,)):
        with np.errstate(over="ignore"):
            there = (case.gradients * case.scale).astype(np.float16)
            back = there.mean(axis=0, dtype=np.float32).astype(np.float16)
        mean = back.astype(np.float32) / np.float32(case.scale)
        np.testing.assert_allclose(mean, case.mean, rtol=case.rtol, atol=0, err_msg=case.what)


def test_a_sum_in_float16_is_not():
    lost = 0
    for case in lab35.half_cases(4, lengths=(9,)):
        with np.errstate(over="ignore"):
            there = (case.gradients * case.scale).astype(np.float16)
            mean = there.sum(axis=0, dtype=np.float16).astype(np.float32) / 4 / case.scale
        lost += not np.allclose(mean, case.mean, rtol=case.rtol, atol=0)
    assert lost > 2


def test_vectors_are_of_all_kinds():
    kinds = {vector.what: vector for vector in lab35.vectors()}
    assert len(kinds) == 25
    below = kinds["9 values, all below 0"]
    assert (below.values < 0).all()
    assert below.means == (pytest.approx(below.values.mean()), 0)
    assert (below.by_means == below.means[0]).all()
    assert not kinds["1 values, all 0"].values.any()


def test_training_loses_with_the_error():
    kept, lost = (
        lab35.accuracy(feedback, SIMPLE, keep=keep, epochs=1, rate=0.2, seeds=(0,))[0]
        for keep in (True, False)
    )
    assert lost < 40 < kept, "gradients below 0.5 are 0 as whole numbers"


def test_bytes_and_seconds_on_virtual_ranks():
    counted = lab35.bytes_counted(2, 100, lambda comm, vector: comm.Barrier(), feedback, {"whole": SIMPLE})
    assert counted["float32"] == 400
    assert counted["whole"] == 100
    plain, packed = lab35.seconds_over(1e3, 2, 100, feedback, SIMPLE, work=0.3)
    assert plain == pytest.approx(0.4)
    assert packed == pytest.approx(0.4)


def test_bits_to_all_are_as_many_bytes_as_a_ring_on_64_ranks():
    assert lab35.ring_and_bits(4, 6400) == (2 * 3 * 6400, 3 * 800)
    ring, bits = lab35.ring_and_bits(64, 6400)
    assert ring == bits


def test_what_a_message_keeps():
    gradient = np.array([0.0] * 50 + [1.0] * 49 + [10.0], np.float32)
    assert lab35.kept(gradient, gradient) == pytest.approx((1, 100 / 149, 0))
    even = np.ones(100, np.float32)
    assert lab35.kept(even, gradient) == pytest.approx((59 / 149**0.5 / 10, 0.01, 0.5))
    assert lab35.first_gradient().shape == (17_226,)


def test_messages_alone_take_what_the_formulas_say():
    machine, p, n = virtual.ideal(alpha=0.0, bandwidth=1e6), 8, 1e6
    assert lab35.traffic(p, "ring", n, machine) == pytest.approx(2 * (p - 1) / p, rel=1e-3)
    assert lab35.traffic(p, "there and back", n, machine) == pytest.approx(2 * (p - 1) / p, rel=1e-3)
    assert lab35.traffic(p, "allgather", n, machine) == pytest.approx(p - 1, rel=1e-3)


def half(comm, gradient):
    total = np.empty_like(gradient)
    comm.Allreduce(gradient, total)
    return total / comm.size


STAGED = placement.Placement("cpu", True, "MPI", by_lab=True, reason="so that a test sees it")


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", [placement.on_host("MPI"), STAGED, pytest.param(None, marks=pytest.mark.gpu)]
)
def test_exchanges_on_real_ranks(where):
    """STAGED: as on a GPU, but that the copies are of the host's memory. None: on a GPU."""
    ways = {"whole": SIMPLE}
    times, places = launch.run(lab35.exchange_times, half, feedback, ways, 1000, where, ranks=2, timeout=600)[
        0
    ]
    assert list(times) == list(places) == ["float32", "float16", "whole"]
    assert [len(row) for row in times.values()] == [2, 2, 3]
    assert all(time.median > 0 for row in times.values() for time in row)
    on_host = where == placement.on_host("MPI")
    assert places["whole"].staged is not on_host
    assert places["whole"].by_lab is not on_host


def test_links_below_which_a_way_wins():
    quarter, more = Measurement(np.array([0.25])), Measurement(np.array([1.25]))
    times = {"float32": [quarter, quarter], "1 bit": [quarter, more, quarter]}
    assert lab35.packing(times, "1 bit", 4) == pytest.approx(1 + 3 * 0.25)
    below = lab35.links(
        times,
        lambda n, p, k: {"float32": 8.0, "1 bit": 1.0},
        lambda full, small, seconds: (full - small) / seconds,
        1,
        1,
    )
    assert below["1 bit"][4] == pytest.approx(8e-9 * 7 / (1 + 3 * 0.25))
