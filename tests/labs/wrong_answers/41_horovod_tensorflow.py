"""Mistakes that learners make in lab 41, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 2, "network": "MobileNet", "sides": (32, 64), "pictures": (2, 4), "repeat": 5}

GPU = "gpus[hvd.local_rank() % len(gpus)]"
GROW = "        tf.config.experimental.set_memory_growth(gpu, True)\n"
SHARD = "dataset.shard(hvd.size(), hvd.rank())"
BUILD = "    optimizer.build(net.trainable_variables)\n"
NET = "hvd.broadcast_variables(net.variables, root_rank=0)"
STATE = "hvd.broadcast_variables(optimizer.variables, root_rank=0)"
BOTH = "[make.BroadcastGlobalVariablesCallback(0), make.MetricAverageCallback()]"
RATE = "keras.optimizers.SGD(rate_per_rank * hvd.size())"
WRAPPED = f"hvd_keras.DistributedOptimizer({RATE})"
EQUAL = "    begin_equal(net, optimizer)\n"

# fmt: off
RIGHT = [
    Right("41.1", "started once, the older names of TensorFlow's functions, keywords, the remainder dropped",
          ["    hvd.init()\n", 'tf.config.set_visible_devices(gpu, "GPU")', SHARD, "(images_per_rank)"],
          ["    if not hvd.is_initialized():\n        hvd.init()\n",
           'tf.config.experimental.set_visible_devices([gpu], "GPU")',
           "dataset.shard(num_shards=hvd.size(), index=hvd.rank())",
           "(batch_size=images_per_rank, drop_remainder=True)"]),
    Right("41.2", "the optimizer first, the root by place", [f"    {NET}\n", STATE],
          ["", STATE.replace("root_rank=", "") + f"\n    {NET}"]),
    Right("41.2", "lists of variables", [NET, STATE],
          ["for part in (net, optimizer):",
           "    hvd.broadcast_variables(list(part.variables), root_rank=0)"]),
    Right("41.3", "the tape in a function, with its operation; the rate set afterwards",
          ["hvd.DistributedGradientTape)", RATE],
          ["lambda tape: hvd.DistributedGradientTape(tape, op=hvd.Average))",
           "keras.optimizers.SGD(learning_rate=rate_per_rank)\n    optimizer.learning_rate = "
           "rate_per_rank * hvd.size()"]),
    Right("41.4", "the mean by its name, callbacks in another order, arguments in another form",
          [WRAPPED, BOTH, "return net.fit(**settings, callbacks=[*both, *more]).history"],
          [f"{WRAPPED[:-1]}, op=hvd_keras.Average)",
           "[make.MetricAverageCallback(), make.BroadcastGlobalVariablesCallback(root_rank=0)]",
           "history = net.fit(callbacks=both + list(more), **settings)\n    return dict(history.history)"]),
]
WRONG = [
    Wrong("41.1", "no init", "    hvd.init()\n", "", "hvd.init()"),
    Wrong("41.1", "the device by rank, not by local rank",
          GPU, "gpus[hvd.rank() % len(gpus)]", "GPUs are counted on each node"),
    Wrong("41.1", "more ranks than GPUs", GPU, "gpus[hvd.local_rank()]", "list index out of range"),
    Wrong("41.1", "batches are dealt out, not elements", SHARD + ".batch(images_per_rank)",
          "dataset.batch(images_per_rank).shard(hvd.size(), hvd.rank())",
          "Elements are dealt out first"),
    Wrong("41.1", "all GPUs stay visible",
          '        tf.config.set_visible_devices(gpu, "GPU")\n', "", "begin chose no GPU"),
    Wrong("41.1", "TensorFlow takes all memory", GROW, "", "does not grow"),
    Wrong("41.1", "parts by the number on the node",
          SHARD, "dataset.shard(hvd.local_size(), hvd.local_rank())", "the same samples"),
    Wrong("41.1", "one long piece for each rank",
          SHARD, "dataset.skip(hvd.rank() * (len(dataset) // hvd.size())).take(len(dataset) // hvd.size())",
          "Another global batch"),
    Wrong("41.1", "batches as large as the global one",
          ".batch(images_per_rank)", ".batch(images_per_rank * hvd.size())",
          "images in each batch, by rank, of 2 global batches"),
    Wrong("41.1", "single elements", ".batch(images_per_rank)", "", "put them into batches"),
    Wrong("41.1", "again and again", ".batch(images_per_rank)", ".batch(images_per_rank).repeat()",
          "images in each batch, by rank, of 2 global batches"),
    Wrong("41.1", "the part is not returned", "return dataset", "dataset", "my_part returned nothing"),
    Wrong("41.2", "no broadcast of the net", f"    {NET}\n", "", "Sum of the first weights by rank"),
    Wrong("41.2", "no broadcast of the optimizer's variables",
          f"\n    {STATE}", "", "Sum of the momentum by rank"),
    Wrong("41.2", "the optimizer is not built", BUILD, "", "rank 0: 10, then 10; rank 1: 10, then 2"),
    Wrong("41.2", "broadcast before the optimizer is built",
          [BUILD, STATE], ["", f"{STATE}\n{BUILD.rstrip()}"], "rank 0: 10, then 10; rank 1: 10, then 2"),
    Wrong("41.2", "only rank 0 broadcasts",
          f"    {NET}\n", f"    if hvd.rank() == 0:\n        {NET}\n", "Ranks would wait for ever"),
    Wrong("41.2", "another root",
          [NET, STATE], [NET.replace("=0", "=1"), STATE.replace("=0", "=1")],
          "Sum of the first weights by rank (what rank 0 had)"),
    Wrong("41.2", "only what is trained, of the optimizer", STATE,
          "hvd.broadcast_variables(optimizer.variables[2:], root_rank=0)", "Learning rate by rank"),
    Wrong("41.2", "only what is trained, of the net", NET,
          "hvd.broadcast_variables(net.trainable_variables, root_rank=0)", "Sum of the moving means by rank"),
    Wrong("41.3", "the number of ranks spelled out", "rate_per_rank * hvd.size()", "rate_per_rank * 2",
          "twice as many ranks"),
    Wrong("41.3", "learning rate of a node", "rate_per_rank * hvd.size()", "rate_per_rank * hvd.local_size()",
          "is this the learning rate of one rank?"),
    Wrong("41.3", "nets begin as they are", EQUAL, "", "begin with the variables of rank 0"),
    Wrong("41.3", "a plain tape", ", hvd.DistributedGradientTape)", ")", "nothing is averaged"),
    Wrong("41.3", "sum for mean",
          "hvd.DistributedGradientTape)", "lambda tape: hvd.DistributedGradientTape(tape, op=hvd.Sum))",
          "were gradients summed, not averaged?"),
    Wrong("41.3", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "is this the learning rate of one rank?"),
    Wrong("41.3", "with momentum",
          "rate_per_rank * hvd.size()", "rate_per_rank * hvd.size(), momentum=0.9", "has no momentum"),
    Wrong("41.3", "another optimizer", "keras.optimizers.SGD", "keras.optimizers.Adam", "Is it plain SGD?"),
    Wrong("41.3", "nothing is returned", "return make_step", "make_step", "step_of_all returned no function"),
    Wrong("41.4", "the number of ranks spelled out", "rate_per_rank * hvd.size()", "rate_per_rank * 2",
          "twice as many ranks"),
    Wrong("41.4", "a plain optimizer", WRAPPED, RATE, "nothing is averaged"),
    Wrong("41.4", "sum for mean",
          WRAPPED, f"{WRAPPED[:-1]}, op=hvd.Sum)", "were gradients summed, not averaged?"),
    Wrong("41.4", "learning rate of one rank",
          "rate_per_rank * hvd.size()", "rate_per_rank", "is this the learning rate of one rank?"),
    Wrong("41.4", "no callback that broadcasts",
          BOTH, "[make.MetricAverageCallback()]", "which callback sends rank 0's?"),
    Wrong("41.4", "equal before the first step, and no callback for it",
          [BOTH, "    net.compile("], ["[make.MetricAverageCallback()]", EQUAL + "    net.compile("],
          "equal before the first step"),
    Wrong("41.4", "another root",
          "make.BroadcastGlobalVariablesCallback(0)", "make.BroadcastGlobalVariablesCallback(1)",
          "the rank whose net all ranks go on with"),
    Wrong("41.4", "no callback that averages",
          BOTH, "[make.BroadcastGlobalVariablesCallback(0)]", "is it the mean over all ranks?"),
    Wrong("41.4", "further callbacks are forgotten",
          "[*both, *more]", "both", "`more` belongs into the list"),
    Wrong("41.4", "the History itself", ").history", ")", "fit returned a History"),
]
