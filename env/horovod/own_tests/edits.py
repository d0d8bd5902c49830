"""Horovod's own tests in today's words: each edit turns an API that was removed into the one there is now.

With them the same tests run on to their assertions, so that what then fails is Horovod's and not the test's.
"""

from __future__ import annotations

from env.horovod.edit import Edit

KERAS = "test/parallel/test_tensorflow2_keras.py"
TF = "test/parallel/test_tensorflow.py"
TORCH = "test/parallel/test_torch.py"
IMPORT = "from horovod.tensorflow.util import plain_variable\n"


def _keras(name: str, why: str, old: str, new: str, times: int = 1) -> Edit:
    return Edit(name, KERAS, why, old, new, times)


MODERN = (
    _keras("rate", "Keras 3 has no argument `lr`.", "(lr=0.0001)", "(learning_rate=0.0001)", 3),
    _keras("rate-read", "Keras 3 has no `optimizer.lr`.", "optimizer.lr.", "optimizer.learning_rate."),
    _keras(
        "compile",
        "Keras 3's compile has no such argument.",
        ",\n                      experimental_run_tf_function=False",
        "",
        4,
    ),
    _keras(
        "loss",
        "Keras 3 has no keras.losses.mean_squared_error.",
        "keras.losses.mean_squared_error",
        "keras.losses.MeanSquaredError()",
        4,
    ),
    _keras("relu", "Keras 3 has no ThresholdedReLU.", "ThresholdedReLU(0.5)", "ReLU(threshold=0.5)", 2),
    _keras("embedding", "Keras 3's Embedding has no input_length.", ", input_length=10", "", 2),
    _keras("legacy", "Keras 3 has no legacy optimizers.", "hasattr(keras.optimizers, 'legacy')", "False"),
    _keras(
        "base-rate",
        "Keras 3's Optimizer must be given a rate.",
        "super().__init__(name=name, **kwargs)",
        "super().__init__(**{'learning_rate': 0.1, **kwargs, 'name': name})",
        2,
    ),
    _keras(
        "update-step",
        "Keras 3 passes the rate to update_step.",
        "def update_step(self, gradient, variable):",
        "def update_step(self, gradient, variable, learning_rate):",
        2,
    ),
    _keras("ref", "A Keras 3 variable has no ref().", "var.ref()", "plain_variable(var).ref()", 10),
    _keras(
        "ref-import",
        "For `ref`.",
        "import horovod.keras as hvd_keras\n",
        IMPORT + "import horovod.keras as hvd_keras\n",
    ),
    Edit("ref-tf", TF, "A Keras 3 variable has no ref().", "var.ref()", "plain_variable(var).ref()", 7),
    Edit(
        "ref-tf-import",
        TF,
        "For `ref-tf`.",
        "import horovod.tensorflow as hvd\n",
        IMPORT + "import horovod.tensorflow as hvd\n",
    ),
    Edit(
        "batch-norm",
        TF,
        "Keras 3's BatchNormalization has no `fused`.",
        "(axis=1, fused=False)",
        "(axis=1)",
        2,
    ),
    Edit(
        "muon",
        TORCH,
        "The tests try every optimizer of torch.optim on biases, too; Muon, new, takes matrices only.",
        "subclass != torch.optim.SparseAdam\n",
        "subclass not in (torch.optim.SparseAdam, torch.optim.Muon)\n",
        3,
    ),
)
