"""Horovod's Keras API on Keras 3. The builder puts this file into the wheel as
`horovod/_keras/keras3.py`.

Horovod 0.28.1 was written for Keras 2, where an optimizer had a hook between computing and applying
gradients. Keras 3 has none: `fit` hands local gradients to `apply_gradients`, which calls `apply`.
So the distributed optimizer averages in `apply`. Nothing here is imported before Horovod's Keras
API is used.
"""

import os

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.mpi_ops import size_op
from horovod.tensorflow.util import plain_variable
from keras.src import backend
from keras.src.trainers.trainer import Trainer

Optimizer = keras.optimizers.Optimizer


class _CallableList(list):
    """Keras 2 had `optimizer.variables()`, Keras 3 has `optimizer.variables`: both work."""

    def __call__(self):
        return self


def _one_entry_per_row(grad):
    """Sum the rows that several ranks sent for one index: Adam and its kin square what they are
    given."""
    rows, position = tf.unique(grad.indices)
    values = tf.math.unsorted_segment_sum(grad.values, position, tf.size(rows))
    return tf.IndexedSlices(values, rows, grad.dense_shape)


class _Reduction:
    """All that makes one optimizer distributed; kept apart so that Keras does not track it as
    state."""

    def __init__(self, allreduce, aggregator, process_set, scale_local_gradients):
        self.allreduce = allreduce
        self.aggregator = aggregator
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self.local = set()
        self.reduced = ()

    def register(self, variable):
        variable = plain_variable(variable)
        if self.aggregator:
            self.aggregator.register_local_var(variable)
        self.local.add(variable.ref())

    def __call__(self, grads, variables):
        """Return the averaged gradients in the order given; a gradient that is None stays None."""
        present = [i for i, grad in enumerate(grads) if grad is not None]
        kept = [grads[i] for i in present]
        plain = [plain_variable(variables[i]) for i in present]
        if self.aggregator:
            averaged = self.aggregator.compute_gradients(tuple(kept), tuple(plain))
        else:
            averaged = self._average(kept, plain)
        if not isinstance(averaged, (list, tuple)):  # tf.cond unpacks a list of one
            averaged = [averaged]
        result = [None] * len(grads)
        for i, grad in zip(present, averaged, strict=True):
            result[i] = _one_entry_per_row(grad) if isinstance(grad, tf.IndexedSlices) else grad
        self.reduced = tuple(result)
        return result

    def _average(self, grads, variables):
        shared = [i for i, variable in enumerate(variables) if variable.ref() not in self.local]
        result = [self._scaled(grad) for grad in grads]
        averaged = self.allreduce([grads[i] for i in shared], [variables[i] for i in shared])
        for i, grad in zip(shared, averaged, strict=True):
            result[i] = grad
        return result

    def _scaled(self, grad):
        """A local gradient is divided by the size, as Horovod does (its pull request 3695 says
        why)."""
        if not self.scale_local_gradients:
            return grad
        elastic = int(os.environ.get("HOROVOD_ELASTIC", 0))
        size = (
            size_op(process_set_id=self.process_set.process_set_id)
            if elastic
            else self.process_set.size()
        )
        if isinstance(grad, tf.IndexedSlices):
            values = grad.values / tf.cast(size, grad.values.dtype)
            return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
        return grad / tf.cast(size, grad.dtype)

    def done_before(self, grads):
        """True for the very gradients that `compute_gradients` of this optimizer has returned."""
        same = [a is b for a, b in zip(grads, self.reduced, strict=False)]
        done = len(grads) == len(self.reduced) and all(same)
        self.reduced = ()
        return done


def _gradients(loss, variables, grad_loss, tape):
    plain = [plain_variable(v) for v in variables]
    if callable(loss):
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = loss()
    elif tape is None:
        raise ValueError("`tape` is required when the loss is a tensor and not a function.")
    return tape.gradient(loss, plain, grad_loss)


def create_distributed_optimizer(
    optimizer,
    name,
    device_dense,
    device_sparse,
    compression,
    sparse_as_dense,
    gradient_predivide_factor,
    op,
    backward_passes_per_step,
    average_aggregated_gradients,
    groups,
    process_set,
    scale_local_gradients,
):
    """An optimizer whose class derives from the given one's, bears its name, and averages in
    apply."""
    if hasattr(optimizer, "_horovod"):
        raise ValueError(
            "This optimizer is distributed already: wrap it in DistributedOptimizer only once."
        )
    _keep_auto_jit_off()
    base = type(optimizer)

    def reduction():
        allreduce = hvd._make_allreduce_grads_fn(
            name or f"Distributed{base.__name__}",
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            op,
            gradient_predivide_factor,
            groups,
            process_set=process_set,
        )
        aggregator = None
        if backward_passes_per_step > 1:
            aggregator = LocalGradientAggregationHelperEager(
                backward_passes_per_step=backward_passes_per_step,
                allreduce_func=allreduce,
                sparse_as_dense=sparse_as_dense,
                average_aggregated_gradients=average_aggregated_gradients,
                process_set=process_set,
                scale_local_gradients=scale_local_gradients,
            )
        return _Reduction(allreduce, aggregator, process_set, scale_local_gradients)

    class Distributed(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._horovod = reduction()

        @property
        def variables(self):
            return _CallableList(super().variables)

        @property
        def _agg_helper(self):
            return self._horovod.aggregator

        def register_local_var(self, var):
            """The gradient of this variable stays on its rank (divided by the size)."""
            self._horovod.register(var)

        def compute_gradients(self, loss, var_list, tape=None):
            return self._compute_gradients(loss, var_list, None, tape)

        def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
            var_list = list(var_list)
            grads = _gradients(loss, var_list, grad_loss, tape)
            return list(zip(self._horovod(grads, var_list), var_list, strict=True))

        def apply_gradients(
            self,
            grads_and_vars,
            name=None,
            skip_gradients_aggregation=False,
            experimental_aggregate_gradients=True,
        ):
            """As in Keras 3; the two keywords of Keras 2 that say "averaged already" are still
            understood."""
            grads_and_vars = list(grads_and_vars)
            if skip_gradients_aggregation or not experimental_aggregate_gradients:
                self._horovod.reduced = tuple(grad for grad, _ in grads_and_vars)
            return super().apply_gradients(grads_and_vars)

        def apply(self, grads, trainable_variables=None):
            update, grads = super().apply, list(grads)
            if not grads or (trainable_variables is None and not self.built):
                return update(grads, trainable_variables)  # nothing to do, or Keras's own message
            variables = list(
                self._trainable_variables if trainable_variables is None else trainable_variables
            )
            if not self._horovod.done_before(grads):
                grads = self._horovod(grads, variables)
                self._horovod.reduced = ()
            if self._agg_helper is None:
                return update(grads, variables)
            return self._apply_if_complete(lambda: update(grads, variables), variables)

        def _apply_if_complete(self, update, variables):
            """Update in the last of `backward_passes_per_step` passes; in the others only count."""
            if not self.built:  # variables may not be created inside tf.cond
                with backend.name_scope(self.name, caller=self):
                    self.build(variables)
            counter = getattr(self, "inner_optimizer", self)._iterations

            def last_pass():
                update()
                return tf.constant(True)

            def other_pass():
                counter.assign_add(1)
                return tf.constant(False)

            tf.cond(tf.equal(self._agg_helper.counter, 0), last_pass, other_pass)

    # The name and module of the wrapped class: a saved model loads on a machine without Horovod.
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Distributed, attribute, getattr(base, attribute))
    return Distributed.from_config(optimizer.get_config())


def _keep_auto_jit_off():
    """`compile(jit_compile="auto")` picks XLA on a GPU; no XLA program can hold Horovod's
    operations."""
    resolve = Trainer._resolve_auto_jit_compile
    if getattr(resolve, "_knows_horovod", False):
        return

    def resolve_auto_jit_compile(self):
        return False if hasattr(getattr(self, "optimizer", None), "_horovod") else resolve(self)

    resolve_auto_jit_compile._knows_horovod = True
    Trainer._resolve_auto_jit_compile = resolve_auto_jit_compile


def load_model(filepath, wrap_optimizer, custom_optimizers, custom_objects):
    """Load a model; its optimizer comes back distributed, with its state."""
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    loaded = getattr(model, "optimizer", None)
    if loaded is None:
        return model
    wrapped = wrap_optimizer(lambda **_: loaded)()
    if loaded.built:
        wrapped.build(model.trainable_variables)
        for new, old in zip(wrapped.variables, loaded.variables, strict=True):
            new.assign(old)
    model.optimizer = wrapped
    model._compile_config.config["optimizer"] = wrapped
    model.jit_compile = False
    return model


def learning_rate(optimizer):
    """The learning rate as a Python number."""
    return float(tf.convert_to_tensor(optimizer.learning_rate))


def set_learning_rate(optimizer, value, momentum_correction=False):
    """Set the learning rate, and on request correct the momentum (Goyal et al. 2017, section 2.1).

    Keras's velocity holds the learning rate of its time: v = m v - lr g. Horovod multiplied m by
    new/old for one step. In Keras 3 m is a constant of the compiled step, so the velocity itself is
    multiplied: the same product.
    """
    old = learning_rate(optimizer)
    optimizer.learning_rate = value
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if momentum_correction and old and getattr(inner, "momentum", 0):
        for velocity in getattr(inner, "momentums", None) or getattr(inner, "_momentums", ()):
            velocity.assign(velocity * (value / old))
