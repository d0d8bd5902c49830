"""Lab 70's support: saves that are watched and killed, files, losses by life, and a job that loses
a node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import lab70

from tests.helpers import end_fork_server
from tests.support.answers import solved


@pytest.fixture(scope="module")
def answers() -> Iterator[dict]:
    """The solved lab's own functions, by name."""
    yield solved("70_checkpoint_and_requeue")
    end_fork_server()


@pytest.mark.slow
def test_kills_at_random_moments_lose_no_good_checkpoint(answers, monkeypatch):
    # In memory an fsync costs nothing, and a kill does what it does on a disk: the kernel lives on.
    if os.path.isdir("/dev/shm"):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    counts = lab70.kill_at_random(answers["write"], kills=30, size=3_000_000)
    assert (counts["kills"], counts["newest"], counts["lost"], counts["torn"]) == (30, 30, 0, 0)
    counts = lab70.kill_at_random(Path.write_bytes, kills=30, size=3_000_000)
    assert counts["newest"] + counts["torn"] == 30
    assert counts["torn"] > 0


@pytest.mark.slow
def test_a_job_that_loses_a_node_goes_on_from_its_checkpoint(answers):
    own = answers["own_part"], answers["after_resize"]
    steps, control = lab70.with_fewer_ranks(*own, 48, 0.2, every=3, dies=8, limit=120)
    two = [step for step in steps if step["ranks"] == 2]
    one = [step for step in steps if step["ranks"] == 1]
    assert max(step["step"] for step in two) == 7
    assert [step["step"] for step in one] == list(range(7, len(control) + 1))
    whole = [step for step in two if step["rank"] == 0 and step["step"] < 7] + one
    np.testing.assert_allclose([step["loss"] for step in whole], control, rtol=1e-9)
    counted = [step for step in two if step["step"] < 7] + one
    used = [sample for step in counted for sample in step["used"]]
    assert sorted(used) == list(range(lab70.SAMPLES))


def test_a_wrong_bit_in_the_label_makes_no_file_pass_for_another():
    content = lab70.pack(b"some bytes", "net A")
    label, payload = lab70.split(content)
    for place in range(8 * content.index(payload)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        other, rest = lab70.split(bytes(changed))
        assert other is None or (other, rest) != (label, payload), f"bit {place}"
    for torn in (b"", content[:5], content[: content.index(b"\n")], b"[1]\n"):
        assert lab70.split(torn)[0] is None
    for zeros in (False, True):
        broken = lab70.damaged(content * 9, zeros)
        assert (len(broken), broken == content * 9) == (9 * len(content), False)


def test_a_table_counts_steps_done_again_and_losses_that_differ():
    whole = [float(step).hex() for step in range(1, 5)]
    losses = [lab70.Loss(0, step, whole[step - 1]) for step in (1, 2, 3)]
    losses += [lab70.Loss(1, step, whole[step - 1]) for step in (3, 4)]
    frame = lab70.table(losses, whole)
    assert frame["first step"].tolist() == [1, 3]
    assert frame["done again"].tolist() == [0, 1]
    assert frame["losses that differ"].tolist() == [0, 0]
    losses[-1] = lab70.Loss(1, 4, (4.0 + 1e-15).hex())
    assert lab70.table(losses, whole)["losses that differ"].tolist() == [0, 1]


def test_the_job_runs_the_shown_script_line_by_line_and_the_sites_settings_before_it():
    shown = lab70.script("here").splitlines()
    run = lab70.sourcing(lab70.script("here")).splitlines()
    added = [line for line in run if line not in shown]
    assert [line.split()[0] for line in added] == ["cd", "source", "export"]
    assert [line for line in run if line not in added] == shown
