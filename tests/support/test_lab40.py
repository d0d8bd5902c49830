"""support.lab40: a checkpoint is read without running what it names."""

import torch
from support import lab40


class Call:
    """A call that is made where this is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_reading_a_checkpoint_runs_no_code_of_it(tmp_path):
    torch.save({"net": Call(tmp_path / "called")}, tmp_path / "saved.pt")
    held = lab40.read_checkpoint(tmp_path / "saved.pt")
    assert not (tmp_path / "called").exists()
    assert held == {"a whole object, of which weights_only=True reads nothing": None}
