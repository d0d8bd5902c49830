# TensorFlow on one device: python tf_alone.py WIDTH BATCH STEPS
import sys
import time

import keras
import tensorflow as tf
from labkit import data

width, batch, steps = map(int, sys.argv[1:])
keras.utils.set_random_seed(65)
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
digits = data.digits()
order = data.batches(len(digits.train_x), batch, epoch=0)


@tf.function
def train_step(pictures, labels):
    with tf.GradientTape() as tape:
        losses = keras.losses.sparse_categorical_crossentropy(
            labels, net(pictures), from_logits=True
        )
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
    return loss


for step in range(steps):
    rows = order[step % len(order)]
    loss = train_step(tf.constant(digits.train_x[rows]), tf.constant(digits.train_y[rows]))
    print(step, time.time(), loss.numpy(), flush=True)
