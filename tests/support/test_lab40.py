"""support.lab40: a rank as if it were on other nodes, with GPUs or without; pieces that count their calls."""

import pytest
from labkit import launch
from support import lab40


def on_nodes_of(ranks) -> tuple:
    """On a rank: what is seen inside such a block, and after it."""
    import horovod.torch as hvd
    import torch

    own = (hvd.init, hvd.local_rank, hvd.local_size, torch.cuda.set_device)
    with lab40.nodes_of(ranks) as asked:
        before = asked.started
        hvd.init()
        torch.cuda.set_device(hvd.local_rank())
        torch.cuda.set_device("cuda:7")
        torch.cuda.set_device(torch.device("cuda", 3))
        seen = (hvd.local_rank(), hvd.local_size(), hvd.rank(), hvd.size())
    restored = own == (hvd.init, hvd.local_rank, hvd.local_size, torch.cuda.set_device)
    return before, asked.started, asked.current, seen, restored


@pytest.mark.slow
def test_ranks_are_on_nodes_of_so_many_and_cuda_is_only_asked():
    results = launch.run(on_nodes_of, 2, ranks=3)
    assert [seen for *_, seen, _ in results] == [(0, 2, 0, 3), (1, 2, 1, 3), (0, 1, 2, 3)]
    for rank, (before, started, current, _, restored) in enumerate(results):
        assert not before
        assert started
        assert restored
        assert current == [f"cuda:{rank % 2}", "cuda:7", "cuda:3"]


def failing() -> bool:
    import horovod.torch as hvd

    own = hvd.local_rank
    try:
        with lab40.nodes_of(2):
            raise ZeroDivisionError
    except ZeroDivisionError:
        return own is hvd.local_rank


@pytest.mark.slow
def test_all_is_as_before_after_an_error():
    assert launch.run(failing, ranks=1) == [True]


def test_a_piece_that_counts_its_calls():
    piece = lab40.Counted(divmod)
    assert piece.calls == 0
    assert piece(7, 2) == (3, 1)
    assert piece(9, 4) == (2, 1)
    assert piece.calls == 2


def without_messages(folder) -> tuple:
    """On a rank: the size that is said, a counted call, the same calls after it; a checkpoint, read."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    with lab40.in_all(7):
        size = hvd.size()
    with lab40.calls_of("rank") as rank:
        hvd.rank()
        hvd.rank()
    after = (hvd.size(), hvd.rank())
    path = folder / "saved.pt"
    torch.save({"net": {"weight": torch.tensor([1.0, 2.0]), "steps": 3}, "optimizer": [1]}, path)
    return size, rank.calls, after, lab40.read_checkpoint(path), lab40.read_checkpoint(folder / "none.pt")


@pytest.mark.slow
def test_sizes_calls_and_checkpoints(tmp_path):
    (result,) = launch.run(without_messages, tmp_path, ranks=1)
    held = {"net": {"weight": 3.0, "steps": 3}, "optimizer": "a list"}
    assert result == (7, 2, (1, 0), held, {})


def test_what_is_no_dict_is_told_by_its_type():
    assert lab40.summary([1, 2]) == {"all": "a list"}


class Call:
    """A call that is made where this is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_reading_a_checkpoint_runs_no_code_of_it(tmp_path):
    import torch

    torch.save({"net": Call(tmp_path / "called")}, tmp_path / "saved.pt")
    held = lab40.read_checkpoint(tmp_path / "saved.pt")
    assert not (tmp_path / "called").exists()
    assert held == {"all": "a whole object, of which weights_only=True reads nothing"}
