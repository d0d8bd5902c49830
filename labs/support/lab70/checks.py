"""The checks of lab 70."""

from __future__ import annotations

from labkit import check, expect, launch

from support.lab70.files import damaged, pack
from support.lab70.kills import kill_everywhere
from support.lab70.trials import PARTS, loop_cases, place_of, try_loop, try_resume


@check.exercise("70.1")
def check_capture(capture, restore, patience, ranks):
    """Captured in the middle of an epoch and at its end, restored into a fresh training: all is as it
    was, on every rank, and the losses that follow are the same to the last bit.
    """
    tried = launch.run(try_resume, capture, restore, ranks=ranks, timeout=patience)
    for stop, got in tried[0].items():
        where = f"Captured after {stop} steps, {place_of(stop)}"
        why = "rank 0 alone returns the state, and the others None"
        expect.equal(got["holders"], [0], f"{where}: ranks with a state", because=why)
        expect(not got["stored"], f"{where}: this state cannot be stored and read again. {got['stored']}")
        expect(got["after"] == got["whole"], f"{where}: `capture` itself has changed the training.")
        for rank, results in enumerate(tried):
            for part, same in results[stop]["parts"].items():
                expect(same, f"{where}, on rank {rank}: {PARTS[part]} not as before.")
        expect.equal(got["losses"], got["whole"], f"{where}: the losses after the resume")


@check.exercise("70.2")
def check_write(write):
    """Killed at any moment of a save, the file is the old or the new one; and each fsync is in its
    place. A small process does the saving. It is really killed before each open, write, fsync and
    rename, and with half of the bytes written.
    """
    trial = kill_everywhere(write)
    expect.equal(trial.end, "new", "The file after a save that nobody killed")
    for death in trial.deaths:
        what = f"Killed {death.where}, the file is {death.left}"
        expect(death.left in ("old", "new"), f"{what}. It must be the old one or the new one, whole.")
    expect(trial.renamed, "The new name comes by os.replace(temporary, path).")
    expect(not trial.other_folders, "The temporary file belongs in the folder of `path`.")
    why = "os.fsync(file.fileno()) comes after file.flush() and before os.replace."
    expect(trial.synced_before, f"When the name changes, some bytes may not be on the disk yet: {why}")
    why = "os.fsync of path.parent comes after os.replace."
    expect(trial.synced_after, f"At the end, the new name may not be on the disk yet: {why}")
    why = "let the temporary file have the same name each time, and the next save overwrites it"
    expect(trial.leftovers <= 1, f"Killed saves have left {trial.leftovers} files behind: {why}.")
    expect(not trial.left_open, "Each save leaves a file or folder open: os.close(folder) at the end.")


@check.exercise("70.3")
def check_judge(judge):
    """The right word for whole, cut, lengthened, changed and foreign files."""
    for size in (0, 1000):
        good = pack(bytes(range(250)) * (size // 250), "net A")
        cases = {"whole": (good, "good"), "empty": (b"", "incomplete"), "twice": (good + good, "incomplete")}
        for share in (0.1, 0.5, 0.99):
            cases[f"cut to {share:.0%} of its length"] = (good[: int(share * len(good))], "incomplete")
        if size:
            cases["whole but for one bit"] = (damaged(good), "damaged")
            cases["as long as it should be, but half of it zeros"] = (damaged(good, True), "damaged")
        for what, (content, verdict) in cases.items():
            expect.equal(judge(content, "net A"), verdict, f"`judge` of a file that is {what}")
            if verdict != "good":
                what = f"{what}, and of another net besides"
                expect.equal(judge(content, "net B"), verdict, f"`judge` of a file that is {what}")
        why = "names or shapes of its tensors differ, and you learn it before loading"
        expect.equal(judge(good, "net B"), "another model", "`judge` of another net's file", because=why)


@check.exercise("70.4")
def check_interval(interval, lost):
    """Young's formula, and both shares."""
    for save, mtbf in ((60, 11_160), (2, 86_400), (600, 36_000)):
        where = f"a save of {save} s, an mtbf of {mtbf:,} s"
        right = (2 * save * mtbf) ** 0.5
        slips = {"the 2 is missing": (save * mtbf) ** 0.5, "this is its square": 2 * save * mtbf}
        expect.close(interval(save, mtbf), right, f"{where}: the interval", slips=slips)
        for seconds in (right / 3, right, 3 * right):
            share = save / seconds + seconds / mtbf / 2
            slips = {
                "a failure costs half an interval in the mean": save / seconds + seconds / mtbf,
                "this is the saving alone": save / seconds,
                "this is the repeating alone": seconds / mtbf / 2,
                "you divided by `every + save`; `save / every` is asked": save / (seconds + save)
                + seconds / mtbf / 2,
            }
            what = f"{where}: the share that is lost, with a save each {seconds:.0f} s"
            expect.close(lost(seconds, save, mtbf), share, what, slips=slips)


@check.exercise("70.5")
def check_train(train, patience, ranks):
    """All ranks do equally many steps, save after the right ones, and stop when one was asked."""
    cases = loop_cases(ranks)
    tried = launch.run(try_loop, train, cases, ranks=ranks, timeout=patience)
    for number, case in enumerate(cases):
        steps = [by_rank[number]["done"] for by_rank in tried]
        why = "a rank that is left alone waits for ever: all have to leave after the same step"
        expect.equal(steps, [steps[0]] * ranks, f"{case}: steps done, by rank", because=why)
        expect.equal(steps[0], case.end, f"{case}: steps done")
        asked = max(by_rank[number]["asked"] for by_rank in tried)
        why = "a signal that comes between two questions has two answers"
        expect(asked == 0, f"{case}: `stopped()` is called more than once in a step: {why}.")
        for rank, by_rank in enumerate(tried):
            why = "all ranks call `save` after the same steps: it calls `capture`, which asks all of them"
            what = f"{case}: saved after steps, on rank {rank}"
            expect.equal(by_rank[number]["saves"], case.saves, what, because=why)
