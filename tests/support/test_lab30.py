"""support.lab30: equal parts of batches that the check's own numbers of ranks do not divide."""

from __future__ import annotations

import numpy as np
import pytest
from labkit import nets
from labkit.errors import CheckFailed
from support import lab30


def to_vector(parameters):
    return np.concatenate([weight.detach().numpy().ravel() for weight in parameters])


def new_net(seed):
    return nets.torch_digits(nets.start_weights(seed=seed))


@pytest.mark.parametrize("batch", [128, 126, 125, 100, 1024])
def test_any_batch_that_a_learner_may_choose(batch):
    lab30.equal_shares(lambda rows, rank, size: rows[rank::size], batch, to_vector, new_net)
    with pytest.raises(CheckFailed, match="on each of"):
        lab30.equal_shares(lambda rows, rank, size: rows[rank:size], batch, to_vector, new_net)
