"""A callback of Keras' fit that writes down each step: its loss, and what the net was when it began."""

from __future__ import annotations

import numpy as np


def steps_seen():
    """A callback for fit on all ranks. After fit, on all ranks:

    `.losses()`: the loss of each step, mean over the ranks. `.unequal()`: for each step, whether the ranks
    began it with different nets. `.steps`: how many steps there were, on this rank.
    """
    import keras

    class StepsSeen(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self._losses: list[float] = []
            self._sums: list[float] = []  # of the first weights, when each step began
            self._total = 0.0

        @property
        def steps(self) -> int:
            return len(self._losses)

        def on_train_batch_begin(self, batch, logs=None):
            self._sums.append(float(np.sum(self.model.get_weights()[0], dtype=np.float64)))

        def on_train_batch_end(self, batch, logs=None):
            # fit tells the mean over the steps of this epoch so far.
            if batch == 0:
                self._total = 0.0
            total = logs["loss"] * (batch + 1)
            self._losses.append(total - self._total)
            self._total = total

        def losses(self) -> list[float]:
            return np.mean(_of_all_ranks(self._losses), axis=0).tolist()

        def unequal(self) -> list[bool]:
            return (np.ptp(_of_all_ranks(self._sums), axis=0) > 1e-6).tolist()

    return StepsSeen()


def _of_all_ranks(values: list[float]) -> np.ndarray:
    """The values of every rank, an array (ranks, len(values))."""
    import horovod.tensorflow as hvd

    return np.array(hvd.allgather_object(values))
