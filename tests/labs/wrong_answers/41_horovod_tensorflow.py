"""Mistakes that learners make in lab 41, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2}

GPU = "gpus[hvd.local_rank() % len(gpus)]"
SHARD = "dataset.shard(hvd.size(), hvd.rank())"
NET = "hvd.broadcast_variables(net.variables, root_rank=0)"
STATE = "hvd.broadcast_variables(optimizer.variables, root_rank=0)"
BOTH = "[make.BroadcastGlobalVariablesCallback(0), make.MetricAverageCallback()]"
RATE = "keras.optimizers.SGD(rate_per_rank * hvd.size())"
WRAPPED = f"hvd_keras.DistributedOptimizer({RATE})"

WRONG = [
    Wrong("41.1", "no init", old="    hvd.init()\n", new="", says="hvd.init()"),
    Wrong(
        "41.1",
        "the device by rank, not by local rank",
        old=GPU,
        new="gpus[hvd.rank() % len(gpus)]",
        says="the local rank is the one expected",
    ),
    Wrong("41.1", "all on the first GPU", old=GPU, new="gpus[0]", says="the local rank is the one expected"),
    Wrong(
        "41.1",
        "a GPU that is not there",
        old="    if gpus:\n        tf.config",
        new="    tf.config",
        says="modulo by zero",
    ),
    Wrong("41.1", "every rank trains on all images", old=SHARD, new="dataset", says="the same samples"),
    Wrong(
        "41.1",
        "every rank takes the first part",
        old=SHARD,
        new="dataset.shard(hvd.size(), 0)",
        says="the same samples",
    ),
    Wrong(
        "41.1",
        "batches as large as the global one",
        old=".batch(images_per_rank)",
        new=".batch(images_per_rank * hvd.size())",
        says="images in each batch, by rank, of 2 global batches",
    ),
    Wrong("41.2", "no broadcast of the net", old=f"    {NET}\n", new="", says="Sum of the weights by rank"),
    Wrong(
        "41.2",
        "no broadcast of the optimizer's variables",
        old=f"    {STATE}\n",
        new="",
        says="Sum of the momentum by rank",
    ),
    Wrong(
        "41.2",
        "broadcast before the optimizer is built",
        old="    optimizer.build(net.trainable_variables)\n",
        new="",
        says="Ranks would wait for ever. Variables they send: [[6, 8], [6, 2]]",
    ),
    Wrong(
        "41.2",
        "only rank 0 broadcasts",
        old=f"    {NET}\n",
        new=f"    if hvd.rank() == 0:\n        {NET}\n",
        says="Ranks would wait for ever",
    ),
    Wrong(
        "41.2",
        "another root",
        old=[NET, STATE],
        new=[NET.replace("=0", "=1"), STATE.replace("=0", "=1")],
        says="Sum of the momentum by rank",
    ),
    Wrong("41.2", "a plain tape", old=", hvd.DistributedGradientTape)", new=")", says="nothing is averaged"),
    Wrong(
        "41.2",
        "sum for mean",
        old="hvd.DistributedGradientTape)",
        new="lambda tape: hvd.DistributedGradientTape(tape, op=hvd.Sum))",
        says="were gradients summed, not averaged?",
    ),
    Wrong(
        "41.2",
        "learning rate of one rank",
        old="rate_per_rank * hvd.size()",
        new="rate_per_rank",
        says="is this the learning rate of one rank?",
    ),
    Wrong(
        "41.2",
        "each rank reports its own losses",
        old='hvd.allreduce(tf.constant(losses), name="losses").numpy()',
        new="losses",
        says="Reported loss (is it the mean over all ranks?)",
    ),
    Wrong(
        "41.2",
        "the sum of the losses",
        old='name="losses"',
        new="op=hvd.Sum",
        says="Reported loss (is it the mean over all ranks?)",
    ),
    Wrong("41.3", "a plain optimizer", old=WRAPPED, new=RATE, says="nothing is averaged"),
    Wrong(
        "41.3",
        "sum for mean",
        old=WRAPPED,
        new=f"{WRAPPED[:-1]}, op=hvd.Sum)",
        says="were gradients summed, not averaged?",
    ),
    Wrong(
        "41.3",
        "learning rate of one rank",
        old="rate_per_rank * hvd.size()",
        new="rate_per_rank",
        says="is this the learning rate of one rank?",
    ),
    Wrong(
        "41.3",
        "no callback that broadcasts",
        old=BOTH,
        new="[make.MetricAverageCallback()]",
        says="which callback sends rank 0's?",
    ),
    Wrong(
        "41.3",
        "another root",
        old="make.BroadcastGlobalVariablesCallback(0)",
        new="make.BroadcastGlobalVariablesCallback(1)",
        says="the rank whose net all ranks go on with",
    ),
    Wrong(
        "41.3",
        "no callback that averages",
        old=BOTH,
        new="[make.BroadcastGlobalVariablesCallback(0)]",
        says="Reported loss (is it the mean over all ranks?)",
    ),
    Wrong(
        "41.3",
        "every rank writes",
        old="if hvd.rank() == 0:",
        new="if True:",
        says="Ranks that wrote the checkpoint",
    ),
    Wrong(
        "41.3",
        "Keras' own load_model",
        old="hvd_keras.load_model(path)",
        new="keras.models.load_model(path)",
        says="its optimizer averages nothing",
    ),
    Wrong(
        "41.3",
        "loaded without its optimizer",
        old="hvd_keras.load_model(path)",
        new="keras.models.load_model(path, compile=False)",
        says="without its optimizer",
    ),
]
