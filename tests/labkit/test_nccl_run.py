"""nccl_run where there is no GPU, and Horovod's own list of what it was built for."""

import pytest
from labkit import nccl_run


def test_without_gpus_it_says_why_nothing_runs():
    torch = pytest.importorskip("torch")
    pytest.importorskip("horovod")
    if torch.cuda.device_count():
        pytest.skip("there is a GPU here")
    text = nccl_run.report(lambda local_rank, visible: 0, [1e3])
    assert text == "GPUs here: 0. Horovod built with NCCL: False. So it does not run."


def test_check_build_lists_frameworks_controllers_and_operations():
    pytest.importorskip("horovod")
    text = nccl_run.check_build()
    assert text.startswith("Horovod v")
    for words in ("Available Frameworks:", "Available Controllers:", "Available Tensor Operations:", "NCCL"):
        assert words in text
