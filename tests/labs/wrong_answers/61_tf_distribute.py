"""Mistakes of learners in lab 61: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"batch": 8, "repeat": 5, "proof": 3}

_DIVIDED = "net(pictures, training=True)) / strategy.num_replicas_in_sync"
_RUN = "strategy.run(on_replica, args=(pictures, labels))"
_REDUCE = 'return strategy.reduce("SUM", losses, axis=None)'

# fmt: off
WRONG = [
    Wrong("61.1", "a dict", 'return json.dumps({"cluster": {"worker": workers}, "task": task})',
          'return {"cluster": {"worker": workers}, "task": task}', "use json.dumps"),
    Wrong("61.1", "Python's quotes", 'json.dumps({"cluster": {"worker": workers}, "task": task})',
          'str({"cluster": {"worker": workers}, "task": task})', "not a dictionary in JSON"),
    Wrong("61.1", "one port for all", "port + task % each", "port", "share no port"),
    Wrong("61.1", "JSON of JSON", 'json.dumps({"cluster": {"worker": workers}, "task": task})',
          'json.dumps(json.dumps({"cluster": {"worker": workers}, "task": task}))', "not a dictionary in JSON"),
    Wrong("61.1", "sorted nodes", "hosts[task // each]", "sorted(hosts)[task // each]", "the workers' addresses"),
    Wrong("61.1", "the example's port", "port + task % each", "5000 + task % each", "ports from 6100 on"),
    Wrong("61.1", "ports go on over nodes", "port + task % each", "port + task", "the workers' addresses"),
    Wrong("61.1", "dealt over the nodes", "hosts[task // each]", "hosts[task % len(hosts)]",
          "the workers' addresses"),
    Wrong("61.1", "a text as index", 'int(slurm["SLURM_PROCID"])', 'slurm["SLURM_PROCID"]', "index is a whole number"),
    Wrong("61.1", "the number on the node", 'slurm["SLURM_PROCID"]', 'slurm["SLURM_LOCALID"]',
          "all tasks of the job"),
    Wrong("61.1", "nodes for tasks", "for task in range(tasks)", "for task in range(len(hosts))",
          "the workers' addresses"),
    Wrong("61.1", "no task", '"task": task}', '"tasks": task}', "the task"),
    Wrong("61.2", "the gradients' sum", _DIVIDED, "net(pictures, training=True))", "divide each loss"),
    Wrong("61.2", "divided twice", "losses = strategy.run", "optimizer.learning_rate.assign("
          "optimizer.learning_rate / strategy.num_replicas_in_sync)\n    losses = strategy.run",
          "divided twice"),
    Wrong("61.2", "nothing is applied",
          "        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))\n", "",
          "The weights have not moved"),
    Wrong("61.2", "the mean of shares", '"SUM"', '"MEAN"', "divided twice"),
    Wrong("61.2", "returns nothing", _REDUCE, 'strategy.reduce("SUM", losses, axis=None)', "returns None"),
    Wrong("61.2", "the sum in this process alone", _REDUCE,
          "return tf.add_n(strategy.experimental_local_results(losses))", "first replica's share alone"),
    Wrong("61.2", "one loss for each replica", _REDUCE, "return losses", "a loss for each replica"),
    Wrong("61.2", "not in training", "pictures, training=True", "pictures", "training=True"),
    Wrong("61.2", "no strategy.run", [_RUN, _REDUCE], ["on_replica(pictures, labels)", "return losses"],
          "3 replicas"),
    Wrong("61.2", "the first variable alone",
          "optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))",
          "optimizer.apply_gradients([(gradients[0], net.trainable_variables[0])])",
          "the step of the variables"),
    Wrong("61.3", "numbers", ["[4 * workers", "* 4 * sum"], ["[workers", "* sum"], "each has 4 bytes"),
    Wrong("61.3", "for one worker", "[4 * workers * sum", "[4 * sum", "for one worker"),
    Wrong("61.3", "cut into equal parts", "sum(sizes[server::servers])", "sum(sizes) / servers",
          "whole variables"),
    Wrong("61.3", "neighbours together", "sizes[server::servers]",
          "sizes[server * len(sizes) // servers : (server + 1) * len(sizes) // servers]",
          "in turn"),
    Wrong("61.3", "32 bits", "return [4 * workers * sum(sizes[server::servers]) for", "import numpy as np\n"
          '    return [(4 * workers * np.array(sizes[server::servers], "int32")).sum(dtype="int32") for',
          "each server sends: 1 of 4"),
    Wrong("61.3", "takes the sizes out of the list",
          "    return [4 * workers * sum(sizes[server::servers]) for server in range(servers)]",
          "    sent = [0] * servers\n    for place in range(len(sizes)):\n"
          "        sent[place % servers] += 4 * workers * sizes.pop(0)\n    return sent",
          "`sizes` was changed"),
    Wrong("61.3", "half of the ring", "2 * (workers - 1) / workers * 4", "(workers - 1) / workers * 4",
          "half of the ring"),
    Wrong("61.3", "sends its own part, too", "2 * (workers - 1) / workers * 4", "2 * 4", "a ring's worker"),
    Wrong("61.3", "rounded too early", "2 * (workers - 1) / workers * 4 *",
          "2 * (workers - 1) // workers * 4 *", "a ring's worker"),
]

RIGHT = [
    Right("61.1", "one loop over hosts, keys in another order, indented", [
        'workers = [f"{hosts[task // each]}:{port + task % each}" for task in range(tasks)]',
        'json.dumps({"cluster": {"worker": workers}, "task": task})'], [
        'workers = [f"{host}:{port + place}" for host in hosts for place in range(each)]',
        'json.dumps({"task": task, "cluster": dict(worker=workers)}, indent=2)']),
    Right("61.1", "np.array_split and a tuple",
          'workers = [f"{hosts[task // each]}:{port + task % each}" for task in range(tasks)]',
          "workers = ()\n    for task in range(tasks):\n"
          "        node, place = divmod(task, each)\n"
          '        workers += (hosts[node] + ":" + str(port + place),)'),
    Right("61.2", "the gradients are divided, the mean is taken",
          ["net(pictures, training=True)) / strategy.num_replicas_in_sync",
           "        optimizer.apply_gradients(", '"SUM"'],
          ["net(pictures, training=True))",
           "        gradients = [each / strategy.num_replicas_in_sync for each in gradients]\n"
           "        optimizer.apply_gradients(", '"MEAN"']),
    Right("61.2", "an enum, keywords, the optimizer's apply", [
        "optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))",
        _REDUCE], [
        "optimizer.apply(gradients, net.trainable_variables)",
        "return strategy.reduce(tf.distribute.ReduceOp.SUM, value=losses, axis=None)"]),
    Right("61.2", "an allreduce on the replicas", ["        return loss\n", _REDUCE],
          ['        return tf.distribute.get_replica_context().all_reduce("SUM", loss)\n',
           "return strategy.experimental_local_results(losses)[0]"]),
    Right("61.3", "NumPy, a loop", [
        "return [4 * workers * sum(sizes[server::servers]) for server in range(servers)]",
        "2 * (workers - 1) / workers * 4 * sum(sizes)"], [
        "sent = [0] * servers\n    for place, size in enumerate(sizes):\n"
        "        sent[place % servers] += workers * 4 * size\n    return tuple(sent)",
        "8 * sum(sizes) * (1 - 1 / workers)"]),
    Right("61.3", "whole bytes", "2 * (workers - 1) / workers * 4 * sum(sizes)",
          "8 * (workers - 1) * sum(sizes) // workers"),
    Right("61.3", "an array of NumPy's",
          "return [4 * workers * sum(sizes[server::servers]) for server in range(servers)]",
          "import numpy as np\n"
          "    return 4.0 * workers * np.array([np.sum(sizes[k::servers]) for k in range(servers)])"),
]
# fmt: on
