"""Mistakes of learners in lab 61: exercise, mistake, what is replaced, by what, a phrase of the rejection."""

from tests.labs.wrong_answers import Wrong

SMALL = {"batch": 8, "repeat": 5, "proof": 3}

_DIVIDED = "net(pictures, training=True)) / strategy.num_replicas_in_sync"
_RUN = "strategy.run(on_replica, args=(pictures, labels))"
_REDUCE = 'return strategy.reduce("SUM", losses, axis=None)'

# fmt: off
WRONG = [
    Wrong("61.1", "a dict", 'return json.dumps({"cluster": {"worker": workers}, "task": task})',
          'return {"cluster": {"worker": workers}, "task": task}', "use json.dumps"),
    Wrong("61.1", "Python's quotes", 'json.dumps({"cluster": {"worker": workers}, "task": task})',
          'str({"cluster": {"worker": workers}, "task": task})', "not JSON"),
    Wrong("61.1", "one port for all", "port + task % each", "port", "share no port"),
    Wrong("61.1", "the example's port", "port + task % each", "5000 + task % each", "ports from 6100 on"),
    Wrong("61.1", "ports go on over nodes", "port + task % each", "port + task", "the workers' addresses"),
    Wrong("61.1", "dealt over the nodes", "hosts[task // each]", "hosts[task % len(hosts)]",
          "the workers' addresses"),
    Wrong("61.1", "a text as index", 'int(slurm["SLURM_PROCID"])', 'slurm["SLURM_PROCID"]', "A whole number"),
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
    Wrong("61.2", "the replica's share alone", _REDUCE,
          "return strategy.experimental_local_results(losses)[0]", "first replica's share alone"),
    Wrong("61.2", "no strategy.run", [_RUN, _REDUCE], ["on_replica(pictures, labels)", "return losses"],
          "2 replica(s)"),
    Wrong("61.2", "uphill", "        optimizer.apply_gradients(",
          "        gradients = [-each for each in gradients]\n        optimizer.apply_gradients(",
          "the step of the weights"),
    Wrong("61.3", "numbers", ["[4 * workers", "* 4 * sum"], ["[workers", "* sum"], "each has 4 bytes"),
    Wrong("61.3", "for one worker", "[4 * workers * sum", "[4 * sum", "for one worker"),
    Wrong("61.3", "cut into equal parts", "sum(sizes[server::servers])", "sum(sizes) / servers",
          "whole variables"),
    Wrong("61.3", "neighbours together", "sizes[server::servers]",
          "sizes[server * len(sizes) // servers : (server + 1) * len(sizes) // servers]",
          "bytes sent by each server"),
    Wrong("61.3", "half of the ring", "2 * (workers - 1) / workers * 4", "(workers - 1) / workers * 4",
          "half of the ring"),
    Wrong("61.3", "sends its own part, too", "2 * (workers - 1) / workers * 4", "2 * 4", "a ring's worker"),
    Wrong("61.3", "rounded too early", "2 * (workers - 1) / workers * 4 *",
          "2 * (workers - 1) // workers * 4 *", "a ring's worker"),
]
# fmt: on
