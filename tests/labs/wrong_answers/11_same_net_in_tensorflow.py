"""Mistakes of learners in lab 11."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 3, "wide": 64}

FORWARD = "loss = cross_entropy(labels, net(images, training=True))"
TAPE = "    with tf.GradientTape() as tape:\n        "
SIGNATURE = "(input_signature=[images_kind, labels_kind, tf.TensorSpec([], tf.float32)])"
UPDATE = (
    "        for variable, gradient in zip(net.trainable_variables, gradients, strict=True):\n"
    "            variable.assign_sub(rate * gradient)"
)
FIT = "net.fit(images, labels, batch_size=batch, shuffle=False, verbose=0)"
COMPILE = "net.compile(optimizer=keras.optimizers.SGD(learning_rate), loss=cross_entropy)"
ORDERED = "digits.train_x[order], digits.train_y[order]"

# fmt: off
WRONG = [
    Wrong("11.1", "logits taken for probabilities", "(from_logits=True)", "()", "logits for probabilities"),
    Wrong("11.1", "the sum over the images", "(from_logits=True)", '(from_logits=True, reduction="sum")',
          "This is the sum over the images, not the mean"),
    Wrong("11.1", "one loss per image",
          "(from_logits=True)", '(from_logits=True, reduction="none")', "without axes"),
    Wrong("11.1", "a number instead of a tensor", "return loss", "return float(loss)", "one tensor"),
    Wrong("11.1", "no update",
          "optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))", "pass",
          "The weights do not move"),
    Wrong("11.1", "forward pass above the tape",
          TAPE + FORWARD, f"    {FORWARD}\n{TAPE}pass", "No gradients"),
    Wrong("11.1", "pairs turned round", "zip(gradients, net.trainable_variables, strict=True)",
          "zip(net.trainable_variables, gradients, strict=True)", "apply_gradients"),
    Wrong("11.1", "the last layer is left as it was",
          ["tape.gradient(loss, net.trainable_variables)", "zip(gradients, net.trainable_variables,"],
          ["tape.gradient(loss, net.trainable_variables[:4])", "zip(gradients, net.trainable_variables[:4],"],
          "the losses of 12 steps"),
    Wrong("11.1", "the loss of after the update",
          "return loss", "return cross_entropy(labels, net(images))", "the loss of step 1"),
    Wrong("11.1", "an optimizer of its own", "optimizer.apply_gradients",
          "keras.optimizers.SGD(learning_rate).apply_gradients", "0 updates by the optimizer"),
    Wrong("11.1", "the step of Keras", "    with tf.GradientTape",
          "    net.compile(optimizer=optimizer, loss=cross_entropy)\n"
          "    return tf.constant(net.train_on_batch(images, labels))\n    with tf.GradientTape",
          "without net.compile"),
    Wrong("11.1", "never more than a batch", FORWARD,
          FORWARD.replace("labels", "labels[:batch]").replace("images", "images[:batch]"),
          "is a number of images in your code?"),
    Wrong("11.1", "by way of NumPy", "return loss", "return tf.constant(loss.numpy())", "As a graph"),
    Wrong("11.1", "the sum, divided by the number of images in the parameters cell",
          ["(from_logits=True)", FORWARD], ['(from_logits=True, reduction="sum")', FORWARD + " / batch"],
          "is a number of images in your code?"),
    Wrong("11.2", "the step is not returned", "    return step", "    step", "returned None"),
    Wrong("11.2", "the loss of after the update", "return loss", "return keras.losses."
          "SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))", "before the update"),
    Wrong("11.2", "only forward in the graph",
          [f"@tf.function{SIGNATURE}\n", "labels, net(images))"],
          ["forward = tf.function(lambda rows: net(rows), input_signature=[images_kind])\n\n",
           "labels, forward(tf.constant(images)))"], "all of the step is in a graph"),
    Wrong("11.2", "eager: no graph at all",
          f"@tf.function{SIGNATURE}\n", "\n", "Python ran in each of 6 calls"),
    Wrong("11.2", "a new tf.function in every call", ["    return step", f"@tf.function{SIGNATURE}\n"],
          ["    return lambda *inputs: tf.function(step)(*inputs)", "\n"], "Python ran in each of 6 calls"),
    Wrong("11.2", "a kind for each rate and size", SIGNATURE, "", "Traced in calls [1, 2, 3, 4, 5]"),
    Wrong("11.2", "reduce_retracing, and Python rates",
          SIGNATURE, "(reduce_retracing=True)", "Traced in calls"),
    Wrong("11.2", "a fixed number of images",
          ["[None, 64]", "[None]"], ["[128, 64]", "[128]"], "input_signature does not allow"),
    Wrong("11.2", "labels of 32 bits", "tf.int64", "tf.int32", "int64 labels (128,)"),
    Wrong("11.2", "an optimizer, at the step's rate",
          ["    @tf.function(input", UPDATE], ["    optimizer = keras.optimizers.SGD()\n\n    @tf.function(input",
           "        optimizer.learning_rate = rate\n"
           "        optimizer.apply_gradients(zip(gradients, net.trainable_variables))"],
          "without an optimizer"),
    Wrong("11.2", "another rate, fixed in the graph",
          "rate * gradient", "learning_rate * gradient", "loss of call 3"),
    Wrong("11.2", "the step in place of the weights", "assign_sub", "assign", "rate * gradient?"),
    Wrong("11.2", "a net of its own",
          "def make_step(net):", "def make_step(_, net=nets.keras_digits()):", "was not called"),
    Wrong("11.3", "a loop of its own, never fit",
          [f"history = {FIT}", 'losses += history.history["loss"]'],
          ["parts = [train_step(net, net.optimizer, images[row : row + batch], labels[row : row + batch])"
           " for row in range(0, len(images), batch)]", "losses.append(float(np.mean(parts)))"],
          "was never called"),
    Wrong("11.3", "compiled anew for each epoch",
          [f"    {COMPILE}\n", "    for order in orders:\n"],
          ["", f"    for order in orders:\n        {COMPILE}\n"], "so do it once"),
    Wrong("11.3", "batches of 32", ", batch_size=batch", "", "check batch_size, epochs"),
    Wrong("11.3", "shuffled", ", shuffle=False", "", "does fit shuffle"),
    Wrong("11.3", "the images as they come", ORDERED, "digits.train_x, digits.train_y", "does fit shuffle"),
    Wrong("11.3", "every epoch in the same order",
          ORDERED, ORDERED.replace("[order]", "[orders[0]]"), "in its own order"),
    Wrong("11.3", "logits taken for probabilities", "(from_logits=True)", "()", "Another loss"),
    Wrong("11.3", "the default learning rate",
          "keras.optimizers.SGD(learning_rate)", '"sgd"', "Another loss"),
    Wrong("11.3", "the notebook's orders, whatever it is given",
          "def fit_losses(net, orders)", "def fit_losses(net, _)", "One number for each of the 2"),
    Wrong("11.3", "one call for all epochs",
          "for order in orders:", "for order in orders[:1]:", "One number for each of the 2"),
    Wrong("11.3", "the loss of after the epoch",
          'losses += history.history["loss"]', "losses.append(net.evaluate(images, labels, verbose=0))",
          "Another loss"),
]

RIGHT = [
    Right("11.1", "TensorFlow's own loss and its mean, optimizer.apply", [
          "    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n",
          "cross_entropy(labels, net(images, training=True))",
          "optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))"], [
          "",
          "tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net(images)))",
          "optimizer.apply(gradients, net.trainable_variables)"]),
    Right("11.1", "a function for the loss, the weights taken once", [
          "    with tf.GradientTape() as tape:\n", "loss = cross_entropy(labels, net(images, training=True))",
          "tape.gradient(loss, net.trainable_variables)"], [
          "    weights = net.trainable_weights\n    with tf.GradientTape() as tape:\n",
          "loss = cross_entropy(y_true=labels, y_pred=net(images, training=True))",
          "tape.gradient(target=loss, sources=weights)"]),
    Right("11.2", "tf.function called, not a decorator; the rate cast inside", [
          f"    @tf.function{SIGNATURE}\n", "    return step"], [
          "", f"    return tf.function(step, {SIGNATURE[1:-1]})"]),
    Right("11.2", "traced at once, before it is returned", "    return step",
          "    step.get_concrete_function()\n    return step"),
    Right("11.2", "assign in place of assign_sub, the loss made once", [
          "    images_kind =",
          "keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, net(images))",
          "variable.assign_sub(rate * gradient)"], [
          "    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n    images_kind =",
          "loss_of(labels, net(images, training=True))", "variable.assign(variable - rate * gradient)"]),
    Right("11.3", "keywords, NumPy numbers, an array", [
          FIT, 'losses += history.history["loss"]', "return losses"], [
          "net.fit(x=images, y=labels, batch_size=batch, epochs=1, shuffle=False, verbose=0)",
          'losses.append(np.float32(history.history["loss"][-1]))', "return np.array(losses)"]),
    Right("11.3", "numbered epochs, a list of one's own", [
          "for order in orders:", f"history = {FIT}", 'losses += history.history["loss"]'], [
          "for epoch in range(len(orders)):\n        order = orders[epoch]",
          f"of_epoch = {FIT}.history", 'losses = [*losses, *of_epoch["loss"]]']),
]
