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

# fmt: off
WRONG = [
    Wrong("41.1", "no init", "    hvd.init()\n", "", "hvd.init()"),
    Wrong("41.1", "the device by rank, not by local rank",
          GPU, "gpus[hvd.rank() % len(gpus)]", "the local rank is the one expected"),
    Wrong("41.1", "all on the first GPU", GPU, "gpus[0]", "the local rank is the one expected"),
    Wrong("41.1", "a GPU that is not there",
          "    if gpus:\n        tf.config", "    tf.config", "modulo by zero"),
    Wrong("41.1", "every rank trains on all images", SHARD, "dataset", "the same samples"),
    Wrong("41.1", "every rank takes the first part",
          SHARD, "dataset.shard(hvd.size(), 0)", "the same samples"),
    Wrong("41.1", "batches as large as the global one",
          ".batch(images_per_rank)", ".batch(images_per_rank * hvd.size())",
          "images in each batch, by rank, of 2 global batches"),
    Wrong("41.2", "no broadcast of the net", f"    {NET}\n", "", "Sum of the weights by rank"),
    Wrong("41.2", "no broadcast of the optimizer's variables",
          f"    {STATE}\n", "", "Sum of the momentum by rank"),
    Wrong("41.2", "broadcast before the optimizer is built",
          "    optimizer.build(net.trainable_variables)\n", "",
          "Ranks would wait for ever. Variables they send: [[6, 8], [6, 2]]"),
    Wrong("41.2", "only rank 0 broadcasts",
          f"    {NET}\n", f"    if hvd.rank() == 0:\n        {NET}\n", "Ranks would wait for ever"),
    Wrong("41.2", "another root",
          [NET, STATE], [NET.replace("=0", "=1"), STATE.replace("=0", "=1")], "Sum of the momentum by rank"),
    Wrong("41.2", "a plain tape", ", hvd.DistributedGradientTape)", ")", "nothing is averaged"),
    Wrong("41.2", "sum for mean",
          "hvd.DistributedGradientTape)", "lambda tape: hvd.DistributedGradientTape(tape, op=hvd.Sum))",
          "were gradients summed, not averaged?"),
    Wrong("41.2", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "is this the learning rate of one rank?"),
    Wrong("41.2", "each rank reports its own losses",
          'hvd.allreduce(tf.constant(losses), name="losses").numpy()', "losses",
          "Reported loss (is it the mean over all ranks?)"),
    Wrong("41.2", "the sum of the losses",
          'name="losses"', "op=hvd.Sum", "Reported loss (is it the mean over all ranks?)"),
    Wrong("41.3", "a plain optimizer", WRAPPED, RATE, "nothing is averaged"),
    Wrong("41.3", "sum for mean",
          WRAPPED, f"{WRAPPED[:-1]}, op=hvd.Sum)", "were gradients summed, not averaged?"),
    Wrong("41.3", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "is this the learning rate of one rank?"),
    Wrong("41.3", "no callback that broadcasts",
          BOTH, "[make.MetricAverageCallback()]", "which callback sends rank 0's?"),
    Wrong("41.3", "another root",
          "make.BroadcastGlobalVariablesCallback(0)", "make.BroadcastGlobalVariablesCallback(1)",
          "the rank whose net all ranks go on with"),
    Wrong("41.3", "no callback that averages", BOTH, "[make.BroadcastGlobalVariablesCallback(0)]",
          "Reported loss (is it the mean over all ranks?)"),
    Wrong("41.3", "every rank writes", "if hvd.rank() == 0:", "if True:", "Ranks that wrote the checkpoint"),
    Wrong("41.3", "Keras' own load_model",
          "hvd_keras.load_model(path)", "keras.models.load_model(path)", "its optimizer averages nothing"),
    Wrong("41.3", "loaded without its optimizer",
          "hvd_keras.load_model(path)", "keras.models.load_model(path, compile=False)",
          "without its optimizer"),
]
