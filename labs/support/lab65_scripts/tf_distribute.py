# tf.distribute: in each process, with its own TF_CONFIG, python tf_distribute.py WIDTH BATCH STEPS
import sys
import time

import keras
import tensorflow as tf
from labkit import data

width, batch, steps = map(int, sys.argv[1:])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
workers = strategy.num_replicas_in_sync
worker = strategy.cluster_resolver.task_id
keras.utils.set_random_seed(65)
with strategy.scope():
    net = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(net.trainable_variables)
digits = data.digits()
order = data.batches(len(digits.train_x), batch, epoch=0)


def train_step(pictures, labels):
    with tf.GradientTape() as tape:
        losses = keras.losses.sparse_categorical_crossentropy(
            labels, net(pictures), from_logits=True
        )
        loss = tf.reduce_mean(losses) / workers
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss


@tf.function
def train_together(pictures, labels):
    losses = strategy.run(train_step, args=(pictures, labels))
    return strategy.reduce("SUM", losses, axis=None)


for step in range(steps):
    rows = order[step % len(order)]
    rows = data.shard(rows, worker, workers)
    loss = train_together(tf.constant(digits.train_x[rows]), tf.constant(digits.train_y[rows]))
    print(step, time.time(), loss.numpy(), flush=True)
