"""nccl_run where there is no GPU."""

import torch
from labkit import nccl_run


def test_without_gpus_it_says_why_nothing_runs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    text = nccl_run.report(lambda local_rank, visible: 0, [1e3])
    assert text.startswith("GPUs here: 0. Horovod built with NCCL: ")
    assert "It does not run. On a cluster with both" in text
    assert "make submit LAB=43" in text
