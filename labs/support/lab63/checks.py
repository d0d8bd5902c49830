"""The checks of lab 63."""

from __future__ import annotations

from labkit import check, expect, launch
from labkit.counting import on_every_size

from support.lab63.plans import shortcoming, text
from support.lab63.ranks import one_process, try_plan


@check.exercise("63.1")
def check_gpipe(gpipe):
    """Plans that can be run, with all ways forward in front of all ways back."""
    for size, micro in ((1, 1), (2, 3), (4, 4), (3, 8)):
        plans = gpipe(size, micro)
        where = f"{size} ranks, {micro} micro-batches"
        wrong = shortcoming(plans, size, micro)
        expect(not wrong, f"{where}: {wrong}")
        want = [(kind, number) for kind in "FB" for number in range(micro)]
        for rank, plan in enumerate(plans):
            what = f"{where}, rank {rank}: first all F, then all B, each in order"
            expect.equal(text(plan), text(want), what)


@check.exercise("63.2")
def check_one_f_one_b(one_f_one_b):
    """Plans that can be run, in the order of the text."""
    for size, micro in ((1, 3), (2, 3), (4, 4), (4, 2), (3, 8), (4, 8)):
        plans = one_f_one_b(size, micro)
        where = f"{size} ranks, {micro} micro-batches"
        wrong = shortcoming(plans, size, micro)
        expect(not wrong, f"{where}: {wrong}")
        for rank, plan in enumerate(plans):
            warm = min(micro, size - 1 - rank)
            want = [("F", number) for number in range(warm)]
            for number in range(micro):
                want += [("F", warm + number)] if warm + number < micro else []
                want += [("B", number)]
            expect.equal(text(plan), text(want), f"{where}, rank {rank}: its plan")


@check.exercise("63.3")
def check_run_plan(run_plan, gpipe, one_f_one_b, patience, ranks, width):
    """The gradients and the loss of one process, for both plans, with short and with long messages."""
    trials = {  # plan, micro-batches, numbers between two stages, pictures
        "2 micro-batches, gpipe, short messages": (gpipe, 2, 8, 8),
        "4 micro-batches, one_f_one_b, short messages": (one_f_one_b, 4, 8, 8),
        "4 micro-batches, one_f_one_b, long messages": (one_f_one_b, 4, width, 2048),
    }

    def try_plans(comm):
        results = {}
        for trial, (plan_of, *sizes) in trials.items():
            with launch.case(trial):
                results[trial] = try_plan(comm, run_plan, plan_of(comm.size, sizes[0]), *sizes)
        return results

    most = min(ranks, 4)
    by_rank = launch.run(on_every_size, try_plans, ranks=most, threads=1, timeout=patience)
    for size in range(1, most + 1):
        for trial, (plan_of, micro, wide, batch) in trials.items():
            loss, gradients = one_process(wide, batch)
            where = f"{size} ranks, {trial}"
            plans = plan_of(size, micro)
            tried = [of_sizes[size][trial] for of_sizes in by_rank[:size]]
            expect.close(tried[-1]["loss"], loss, f"{where}: the loss on the last rank", rtol=1e-4)
            ours = [gradient for result in tried for gradient in result["gradients"]]
            for place, (got, want) in enumerate(zip(ours, gradients, strict=True)):
                expect(got is not None, f"{where}: parameter {place} has no gradient. Was every B done?")
                expect.close(got, want, f"{where}: gradient of parameter {place}", rtol=1e-3, atol=1e-6)
            for rank, result in enumerate(tried):
                did = f"{where}, rank {rank}: what it did, in order"
                expect.equal(text(result["done"]), text(plans[rank]), did)
                left = result["under_way"]
                expect(not left, f"{where}, rank {rank}: {left} requests were not waited for.")
                small = [call for call in result["calls"] if call in ("send", "isend", "recv", "irecv")]
                expect(not small, f"{where}: {small} pack any object. Send arrays as they are: Isend, Recv.")
