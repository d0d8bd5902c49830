"""Labs in batch jobs: of so many ranks that not every number of them is tried, and of several
jobs at once."""

from __future__ import annotations

import re

import pytest
from labkit import counting, horovod, launch, paths
from labkit.errors import LabError

from tests.support.answers import solved

RUN = launch.run


def on_few_sizes(comm, function, *args):
    """On all ranks, on all but one, and on one: of four ranks, two are then left out."""
    counting.EVERY_SIZE = 1
    return function(comm, *args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "check"),
    [
        ("64_tensor_parallel", 'check("64.2", f, g)'),
        ("66_expert_parallel", 'check("66.2", exchange, Exchange)'),
        ("66_expert_parallel", 'check("66.3", dispatch, combine)'),
        ("68_inference_over_ranks", 'check("68.3", parallel_layer)'),
    ],
)
def test_a_right_answer_passes(monkeypatch, stem, check):
    lab = {**solved(stem, "def added("), "most": 4, "patience": 60}
    monkeypatch.setattr(launch, "run", lambda *args, **job: RUN(on_few_sizes, *args, **job))
    exec(check, lab)


@pytest.mark.slow
def test_each_stage_of_lab_62_has_a_block(monkeypatch):
    monkeypatch.setattr(launch, "ranks_here", lambda n: 6)
    lab = solved("62_model_parallel", "def study", "sizes = sorted")
    assert list(lab["studies"]) == [1, 2, 5]


def test_lab_40_says_how_many_ranks_can_share_its_images(monkeypatch):
    monkeypatch.setattr(horovod, "ranks_here", lambda n: 200)
    with pytest.raises(LabError, match='needs 6400 images, and .* 1536.* SET="images_per_rank=7"'):
        solved("40_horovod_pytorch", "samples = ", "whole_batch = ")


def test_no_rank_of_lab_70_is_without_one_of_the_64_images(monkeypatch):
    monkeypatch.setattr(launch, "ranks_here", lambda n: 100)
    assert solved("70_checkpoint_and_requeue")["ranks"] == 64


def test_no_lab_writes_files_that_another_job_of_the_learner_would_overwrite():
    """A lab keeps its files in own_folder(), or in a temporary folder in home()."""
    files = [*(paths.root() / "solutions").glob("*.py"), paths.root() / "labs/support/lab42.py"]
    shared = re.compile(r".*(?<!dir=)\bhome\(\).*")
    assert [line for file in files for line in shared.findall(file.read_text("utf-8"))] == []
