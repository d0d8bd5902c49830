"""Edits that make Horovod's documented TensorFlow and Keras API work on Keras 3.

A Keras 3 variable is not a `tf.Variable` (it has one inside), an optimizer is a plain Keras object without
Keras 2's hooks, and the backend module has lost its helpers. The larger part lives in keras3.py.
"""

from __future__ import annotations

from env.horovod.edit import Edit

TF = "horovod/tensorflow/__init__.py"
TF_UTIL = "horovod/tensorflow/util.py"
FUNCTIONS = "horovod/tensorflow/functions.py"
KERAS_INIT = "horovod/_keras/__init__.py"
CALLBACKS = "horovod/_keras/callbacks.py"
SYNC_BN = "horovod/tensorflow/sync_batch_norm.py"
VARIABLES = "A Keras 3 variable is no tf.Variable; Horovod's operations need the one inside."
BACKEND = "Keras 3's backend module has no get_value, set_value or constant."

PLAIN_VARIABLE = '''def plain_variable(var):
    """The tf.Variable inside a Keras 3 variable; anything else as it is."""
    inside = getattr(var, 'value', None)
    return inside if isinstance(inside, tf.Variable) else var


def vars_to_refs(vars):'''

ANY_DTYPE = """# Horovod broadcasts no unsigned 32-bit integers, where Keras 3 keeps its seeds, nor the others
# here: their bits travel as a type of the same width.
_TRAVELS_AS = {tf.uint32: tf.int32, tf.uint64: tf.int64, tf.bfloat16: tf.int16}


def _broadcast_any(var, root_rank, process_set):
    dtype = tf.as_dtype(var.dtype)
    if dtype not in _TRAVELS_AS:
        return broadcast(var, root_rank, process_set=process_set)
    bits = tf.bitcast(var, _TRAVELS_AS[dtype])
    return tf.bitcast(broadcast(bits, root_rank, process_set=process_set), dtype)


@_cache
def _make_broadcast_group_fn():"""

DELEGATE = """    if isinstance(optimizer, keras3.Optimizer):
        return keras3.create_distributed_optimizer(
            optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
            gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
            groups, process_set, scale_local_gradients)

    class _DistributedOptimizer(*optimizer.__class__.__bases__):
"""

ADJUST_OLD = """        old_lr = self.backend.get_value(self.model.optimizer.lr)
        new_lr = self.initial_lr * self.multiplier(epoch)
        self.backend.set_value(self.model.optimizer.lr, new_lr)

        if hasattr(self.model.optimizer, 'momentum') and self.momentum_correction:
            # See the paper cited above for more information about momentum correction.
            self.restore_momentum = self.backend.get_value(self.model.optimizer.momentum)
            self.backend.set_value(self.model.optimizer.momentum,
                                   self.restore_momentum * new_lr / old_lr)
"""
ADJUST_NEW = """        new_lr = self.initial_lr * self.multiplier(epoch)
        keras3.set_learning_rate(self.model.optimizer, new_lr, self.momentum_correction)
"""

KERAS = (
    Edit("plain-variable", TF_UTIL, VARIABLES, "def vars_to_refs(vars):", PLAIN_VARIABLE),
    Edit("groups", TF_UTIL, VARIABLES, "    return vars.ref()", "    return plain_variable(vars).ref()"),
    Edit(
        "broadcast-variables",
        FUNCTIONS,
        VARIABLES,
        "    if inplace:\n        vars_by_device = {}",
        "    variables = [plain_variable(var) for var in variables]\n"
        "    if inplace:\n        vars_by_device = {}",
    ),
    Edit(
        "broadcast-variables-import",
        FUNCTIONS,
        VARIABLES,
        "import _cache, _executing_eagerly, _make_subgraph",
        "import _cache, _executing_eagerly, _make_subgraph, plain_variable",
    ),
    Edit(
        "broadcast-seeds",
        FUNCTIONS,
        "model.variables of a net with dropout holds a seed, a type that Horovod cannot broadcast.",
        "@_cache\ndef _make_broadcast_group_fn():",
        ANY_DTYPE,
    ),
    Edit(
        "broadcast-seeds-use",
        FUNCTIONS,
        "Where `broadcast-seeds` is used.",
        "var.assign(broadcast(var, root_rank, process_set=process_set))",
        "var.assign(_broadcast_any(var, root_rank, process_set))",
        times=2,
    ),
    Edit(
        "tape-import",
        TF,
        VARIABLES,
        "_cache, vars_to_refs, refs_to_vars",
        "_cache, vars_to_refs, refs_to_vars, plain_variable",
    ),
    Edit(
        "tape",
        TF,
        VARIABLES,
        "            gradients = super(self.__class__, self).gradient(target, sources, output_gradients)",
        "            sources = [plain_variable(s) for s in sources]\n"
        "            gradients = super(self.__class__, self).gradient(target, sources, output_gradients)",
    ),
    Edit("tape-local-source", TF, VARIABLES, "(source.ref())", "(plain_variable(source).ref())"),
    Edit(
        "tape-local-and-global",
        TF,
        VARIABLES,
        "is_local_source = s.ref() in",
        "is_local_source = plain_variable(s).ref() in",
    ),
    Edit(
        "optimizer-import",
        KERAS_INIT,
        "Where `optimizer` comes from.",
        "from horovod.tensorflow.mpi_ops import rank, size_op\n",
        "from horovod.tensorflow.mpi_ops import rank, size_op\nfrom horovod._keras import keras3\n",
    ),
    Edit(
        "optimizer",
        KERAS_INIT,
        "Keras 3 calls none of the hooks in which Horovod averaged gradients; see keras3.py.",
        "    class _DistributedOptimizer(*optimizer.__class__.__bases__):\n",
        DELEGATE,
    ),
    Edit(
        "load-model",
        KERAS_INIT,
        "Keras 3 ignores custom_objects for its own optimizers: the loaded one is wrapped, state and all.",
        "    if legacy_opts:\n",
        "    if keras.optimizers.Optimizer is keras3.Optimizer and not legacy_opts:\n"
        "        return keras3.load_model(filepath, wrap_optimizer, custom_optimizers, custom_objects)\n\n"
        "    if legacy_opts:\n",
    ),
    Edit(
        "callbacks-import",
        CALLBACKS,
        BACKEND,
        "import horovod.tensorflow as hvd\nimport tensorflow as tf\n",
        "import horovod.tensorflow as hvd\nimport tensorflow as tf\n"
        "from horovod._keras import keras3\nfrom horovod.tensorflow.util import plain_variable\n",
    ),
    Edit(
        "callback-local-var",
        CALLBACKS,
        VARIABLES,
        "self._local_vars.add(var.ref())",
        "self._local_vars.add(plain_variable(var).ref())",
    ),
    Edit(
        "callback-broadcast",
        CALLBACKS,
        VARIABLES,
        "if var.ref() not in self._local_vars]",
        "if plain_variable(var).ref() not in self._local_vars]",
    ),
    Edit(
        "callback-broadcast-optimizer",
        CALLBACKS,
        "optimizer.variables is a list in Keras 3, not a method.",
        "self.model.optimizer.variables()",
        "self.model.optimizer.variables",
    ),
    Edit(
        "callback-metrics",
        CALLBACKS,
        BACKEND,
        "hvd.allreduce(self.backend.constant(value, name=metric)).numpy()",
        "float(hvd.allreduce(tf.constant(value, tf.float64)))",
    ),
    Edit("callback-set-rate", CALLBACKS, BACKEND, ADJUST_OLD, ADJUST_NEW),
    Edit(
        "callback-get-rate",
        CALLBACKS,
        BACKEND,
        "self.backend.get_value(self.model.optimizer.lr)",
        "keras3.learning_rate(self.model.optimizer)",
        times=3,
    ),
    *(
        Edit(
            f"callback-local-variables-{package}",
            path,
            VARIABLES,
            "local_variables, tf.Variable):\n            local_variables = [local_variables]\n"
            "        elif not all(isinstance(var, tf.Variable) for",
            "local_variables, (tf.Variable, keras.Variable)):\n"
            "            local_variables = [local_variables]\n"
            "        elif not all(isinstance(var, (tf.Variable, keras.Variable)) for",
        )
        for package, path in (
            ("tensorflow", "horovod/tensorflow/keras/callbacks.py"),
            ("keras", "horovod/keras/callbacks.py"),
        )
    ),
    Edit(
        "elastic-state",
        "horovod/tensorflow/elastic.py",
        "optimizer.variables is a list in Keras 3, not a method.",
        "optimizer.variables()",
        "optimizer.variables",
        times=4,
    ),
    Edit(
        "sync-batch-norm",
        SYNC_BN,
        "Keras 3's batch normalisation takes no `fused`.",
        ".__init__(fused=fused, **kwargs)",
        ".__init__(**kwargs)",
    ),
    Edit(
        "sync-batch-norm-moments",
        SYNC_BN,
        "Keras 3 passes a mask to `_moments` where Keras 2 passed axes.",
        "  def _moments(self, inputs, reduction_axes, keep_dims, **kwargs):",
        "  def _moments(self, *args, **kwargs):",
    ),
    Edit(
        "sync-batch-norm-moments-call",
        SYNC_BN,
        "The call that goes with `sync-batch-norm-moments`.",
        "_moments(\n      inputs, reduction_axes, keep_dims=keep_dims, **kwargs)",
        "_moments(*args, **kwargs)",
    ),
    Edit(
        "sync-batch-norm-call",
        SYNC_BN,
        "Keras 3 reads the names of call's arguments to know what a layer takes.",
        "  def call(self, *args, **kwargs):\n"
        "    outputs = super(SyncBatchNormalization, self).call(*args, **kwargs)",
        "  def call(self, inputs, training=None, mask=None):\n"
        "    outputs = super(SyncBatchNormalization, self).call(inputs, training=training, mask=mask)",
    ),
)
