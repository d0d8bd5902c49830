"""Mistakes of learners in lab 69: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"width": 32, "layers": 4, "samples": 8, "steps": 2, "repeat": 2}

_PADDED = "    padded = pad(flat, (0, -len(flat) % ranks))"
_SHARD = "    return padded.chunk(ranks)[rank].clone()"
_IF = "    if not unit.gathered:"
_ROOM = "        unit.full.untyped_storage().resize_(unit.full.nbytes)"
_GATHER = (
    "        unit.work = dist.all_gather_into_tensor(unit.full, unit.shard.detach(), async_op=True)"
)
_WAIT = "        unit.work.wait()\n        unit.work = None"
_RELEASE = "    unit.full.untyped_storage().resize_(0)"
_BEFORE = "    launch_gather(units[i])\n    wait(units[i])"
_AFTER = "    release(units[i])"
_FREED = "    for weights in parameters:\n        weights.grad = None\n"
_REDUCE = "    return part, dist.reduce_scatter_tensor(part, flat, async_op=True)"
_AVERAGE = "    unit.shard.grad = part / dist.get_world_size()"
_FINISH = "    part, work = started\n    work.wait()"
_TOTAL = "    total = sum(unit.shard.grad.square().sum() for unit in units)"
_NORM = "    dist.all_reduce(total)\n    return total.sqrt()"
_NEXT = "    if 0 <= following < len(units):\n        launch_gather(units[following])"
_PREFETCH = "    launch_gather(units[i])\n    wait(units[i])\n    following = i + direction"

# fmt: off
WRONG = [
    Wrong("69.1", "no padding", _PADDED, "    padded = flat", "The shards' lengths"),
    Wrong("69.1", "always one more", _PADDED, "    padded = pad(flat, (0, ranks - len(flat) % ranks))",
          "nothing has to be padded"),
    Wrong("69.1", "padded in front", "(0, -len(flat) % ranks)", "(-len(flat) % ranks, 0)", "All shards"),
    Wrong("69.1", "dealt out like cards", _SHARD, "    return padded[rank::ranks].clone()",
          "not every so many-th"),
    Wrong("69.1", "a view", _SHARD, "    return padded.chunk(ranks)[rank]", "because it is a view of all"),
    Wrong("69.1", "always float32", _SHARD, "    return padded.chunk(ranks)[rank].float().clone()", "Keep the type"),
    Wrong("69.1", "always rank 0's", _SHARD, "    return padded.chunk(ranks)[0].clone()", "All shards"),
    Wrong("69.1", "waits at once", _GATHER, _GATHER + "\n        unit.work.wait()", "waits for a rank that comes late"),
    Wrong("69.1", "not asynchronous", "unit.shard.detach(), async_op=True)", "unit.shard.detach())",
          "sets no `unit.work`"),
    Wrong("69.1", "launched again", _IF, "    if True:", "called three times"),
    Wrong("69.1", "never awaited", _WAIT, "        unit.work = None", "has not been awaited"),
    Wrong("69.1", "the handle is kept", _WAIT, "        unit.work.wait()", "has to be None again"),
    Wrong("69.1", "no memory", _ROOM, "        pass", "needs more memory than its storage has"),
    Wrong("69.1", "numbers, not bytes", "resize_(unit.full.nbytes)", "resize_(len(unit.full))", "`resize_` takes bytes"),
    Wrong("69.1", "twice the memory", "resize_(unit.full.nbytes)", "resize_(2 * unit.full.nbytes)", "but needs"),
    Wrong("69.1", "into another tensor", [_GATHER, _WAIT], [
          "        unit.room = torch.empty(len(unit.full))\n        unit.work = dist.all_gather_into_tensor("
          "unit.room, unit.shard.detach(), async_op=True)",
          "        unit.work.wait()\n        unit.full.copy_(unit.room)\n        unit.work = None"],
          "Gather into `unit.full` itself"),
    Wrong("69.1", "two gathers", _GATHER,
          "        dist.all_gather_into_tensor(unit.full, unit.shard.detach(), async_op=True)\n" + _GATHER,
          "launches 2 gathers"),
    Wrong("69.1", "no detach", "unit.shard.detach(), async_op=True", "unit.shard, async_op=True",
          "Give it `unit.shard.detach()`"),
    Wrong("69.1", "one rank shares", _PADDED, "    if ranks == 1:\n        return flat\n" + _PADDED,
          "lies in the flat tensor's memory"),
    Wrong("69.1", "released at once", _WAIT, _WAIT + "\n        unit.full.untyped_storage().resize_(0)",
          "has no memory"),
    Wrong("69.2", "nothing is released", _RELEASE, "    pass", "in the storage of `unit.full`"),
    Wrong("69.2", "the shard, too", _RELEASE, _RELEASE + "\n    unit.shard.untyped_storage().resize_(0)",
          "The shard must stay"),
    Wrong("69.2", "on one rank", _RELEASE, "    if dist.get_rank() == 0:\n    " + _RELEASE, "rank 1: `release` leaves"),
    Wrong("69.2", "gathered twice", _BEFORE,
          _BEFORE + "\n    dist.all_gather_into_tensor(units[i].full, units[i].shard.detach())", "where 16 are enough"),
    Wrong("69.2", "zeros", _RELEASE, "    unit.full.zero_()", "Zeros need as much memory"),
    Wrong("69.2", "detached", _RELEASE, "    unit.full.detach()", "other tensors keep the storage"),
    Wrong("69.2", "another tensor's data", _RELEASE, "    unit.full.data = unit.full.new_empty(0)", "resize it to 0"),
    Wrong("69.2", "the tensor is dropped", _RELEASE, "    unit.full = None", "must remain the same tensor"),
    Wrong("69.2", "the tensor is deleted", _RELEASE, "    del unit.full", "must remain the same tensor"),
    Wrong("69.2", "a smaller tensor", _RELEASE, "    unit.full.data = torch.empty(0)", "resize it to 0"),
    Wrong("69.2", "only forward", _AFTER, "    if direction == 1:\n        release(units[i])",
          "layers whose full parameters take memory"),
    Wrong("69.2", "only backward", _AFTER, "    if direction == -1:\n        release(units[i])",
          "layers whose full parameters take memory"),
    Wrong("69.2", "all are released", _AFTER, "    for unit in units:\n        release(unit)",
          "Only the layer that was used"),
    Wrong("69.2", "no wait", _BEFORE, "    launch_gather(units[i])", "is not awaited"),
    Wrong("69.2", "all at once", _BEFORE,
          "    for unit in units:\n        launch_gather(unit)\n    for unit in units:\n        wait(unit)",
          "layers whose full parameters take memory"),
    Wrong("69.2", "no gather in the backward pass", _BEFORE,
          "    if direction == 1:\n        launch_gather(units[i])\n        wait(units[i])", "not gathered"),
    Wrong("69.3", "padded in front", "pad(flat, (0, len(unit.full) - len(flat)))",
          "pad(flat, (len(unit.full) - len(flat), 0))", "the gradient of layer 2's shard"),
    Wrong("69.3", "the sums", _AVERAGE, "    unit.shard.grad = part", "the sums, not the averages"),
    Wrong("69.3", "no communication", _REDUCE,
          "    part = flat.chunk(dist.get_world_size())[dist.get_rank()] * dist.get_world_size()\n"
          "    return part, dist.barrier(async_op=True)", "the rank's own gradient"),
    Wrong("69.3", "an allreduce", _REDUCE,
          "    work = dist.all_reduce(flat, async_op=True)\n"
          "    return flat.chunk(dist.get_world_size())[dist.get_rank()], work",
          "A reduce-scatter alone is enough"),
    Wrong("69.3", "waits at once", _REDUCE,
          "    work = dist.reduce_scatter_tensor(part, flat, async_op=True)\n    work.wait()\n"
          "    return part, work", "waits for a rank that comes late"),
    Wrong("69.3", "full gradients stay", _FREED, "", "leaves the full gradients"),
    Wrong("69.3", "full gradients are zeros", "        weights.grad = None", "        weights.grad.zero_()",
          "zeros need as much memory"),
    Wrong("69.3", "full gradients are detached", "        weights.grad = None", "        weights.grad.detach_()",
          "Set weights.grad = None"),
    Wrong("69.3", "nothing is kept", _AVERAGE, "    part / dist.get_world_size()", "as it was"),
    Wrong("69.3", "all in finish", [_REDUCE, _FINISH], [
          "    return flat", "    part = torch.empty_like(unit.shard.detach())\n"
          "    dist.reduce_scatter_tensor(part, started)"], "reduce-scatters that `start` launches"),
    Wrong("69.3", "an allreduce in finish", [_REDUCE, _FINISH], [
          "    return flat", "    dist.all_reduce(started)\n"
          "    part = started.chunk(dist.get_world_size())[dist.get_rank()]"], "reduce-scatters that `start` launches"),
    Wrong("69.3", "two reduce-scatters", _REDUCE,
          "    dist.reduce_scatter_tensor(torch.empty_like(part), flat, async_op=True)\n" + _REDUCE, "expected 1, got 2"),
    Wrong("69.3", "a barrier", _AVERAGE, "    dist.barrier()\n" + _AVERAGE, "It only waits"),
    Wrong("69.3", "added up", _AVERAGE, "    part /= dist.get_world_size()\n"
          "    unit.shard.grad = part if unit.shard.grad is None else unit.shard.grad + part", "adds nothing to it"),
    Wrong("69.3", "a view of all", _AVERAGE, "    part = part.repeat(2) / dist.get_world_size()\n"
          "    unit.shard.grad = part[: len(unit.shard)]", "a view of the full gradients"),
    Wrong("69.3", "kept on the unit", _REDUCE, "    unit.flat = flat\n" + _REDUCE, "They must be freed"),
    Wrong("69.3", "kept until finish", [_FREED, _REDUCE, _FINISH], [
          "    kept = [weights.grad for weights in parameters]\n" + _FREED,
          "    return part, dist.reduce_scatter_tensor(part, flat, async_op=True), kept",
          _FINISH.replace("part, work", "part, work, _")], "still referenced"),
    Wrong("69.3", "a global", [_REDUCE, _FINISH], [
          "    global under_way\n"
          "    under_way = part, dist.reduce_scatter_tensor(part, flat, async_op=True)",
          _FINISH.replace("started", "under_way")], "`start` returns nothing"),
    Wrong("69.3", "no padding", "pad(flat, (0, len(unit.full) - len(flat)))", "flat", "pad to `len(unit.full)`"),
    Wrong("69.3", "the parameters", "weights.grad.flatten()", "weights.detach().flatten()", "These are the parameters"),
    Wrong("69.3", "divided twice", _REDUCE, "    flat /= dist.get_world_size()\n" + _REDUCE, "twice"),
    Wrong("69.3", "divided by 2", _AVERAGE, "    unit.shard.grad = part / 2", "not always 2"),
    Wrong("69.4", "the next one first", _PREFETCH + "\n" + _NEXT,
          "    following = i + direction\n" + _NEXT + "\n    launch_gather(units[i])\n    wait(units[i])",
          "own gather is launched before"),
    Wrong("69.4", "no prefetch", _NEXT, "    pass", "do not wait for it"),
    Wrong("69.4", "awaited at once", _NEXT, _NEXT + "\n        wait(units[following])",
          "do not wait for it"),
    Wrong("69.4", "always forward", "following = i + direction", "following = i + 1",
          "do not wait for it"),
    Wrong("69.4", "the last unit, by accident", "    if 0 <= following < len(units):",
          "    if following < len(units):", "gathers in flight"),
    Wrong("69.4", "two layers ahead", "following = i + direction", "following = i + 2 * direction",
          "gathers in flight"),
    Wrong("69.4", "all of them", _NEXT, "    for unit in units:\n        launch_gather(unit)", "gathers in flight"),
    Wrong("69.4", "the layer itself is not awaited", _PREFETCH,
          "    launch_gather(units[i])\n    following = i + direction", "not awaited"),
    Wrong("69.5", "the mean of the squares", "    dist.all_reduce(total)\n",
          "    dist.all_reduce(total)\n    total /= dist.get_world_size()\n", "not averaged"),
    Wrong("69.5", "norms of the layers", [_TOTAL, _NORM], [
          "    squares = torch.stack([unit.shard.grad.square().sum() for unit in units])",
          "    dist.all_reduce(squares)\n    return squares.sqrt().sum()"], "Norms of layers do not add up"),
    Wrong("69.5", "norms of the shards", [_TOTAL, _NORM], [
          "    total = sum(unit.shard.grad.norm() for unit in units)",
          "    dist.all_reduce(total)\n    return total"], "Norms of shards do not add up"),
    Wrong("69.5", "no squares", _TOTAL, "    total = sum(unit.shard.grad.sum() for unit in units)", "without squares"),
    Wrong("69.5", "absolute values", [_TOTAL, _NORM], [
          "    total = sum(unit.shard.grad.abs().sum() for unit in units)",
          "    dist.all_reduce(total)\n    return total"], "Absolute values are added up"),
    Wrong("69.5", "the norm of shards", "    dist.all_reduce(total)\n", "", "the norm of this rank's shards"),
    Wrong("69.5", "norms added up", _NORM,
          "    total = total.sqrt()\n    dist.all_reduce(total)\n    return total", "their squares do"),
    Wrong("69.5", "squared in place", ".square()", ".square_()", "changes `unit.shard.grad`"),
    Wrong("69.5", "freed", _NORM, _NORM.replace(
          "    return", "    for unit in units:\n        unit.shard.grad = None\n    return"), "still needs"),
    Wrong("69.5", "16 bits", "grad.square().sum() for unit in units)", "grad.half().square().sum() for unit in units).float()",
          "16 bits cannot hold"),
    Wrong("69.5", "not awaited", "dist.all_reduce(total)", "dist.all_reduce(total, async_op=True)", "wait for it"),
    Wrong("69.5", "no root", _NORM, "    dist.all_reduce(total)\n    return total", "the square of the norm"),
]

RIGHT = [
    Right("69.3", "into the gradient that is there", _AVERAGE,
          "    if unit.shard.grad is None:\n        unit.shard.grad = torch.empty_like(part)\n"
          "    unit.shard.grad.copy_(part).div_(dist.get_world_size())"),
    Right("69.1", "zeros and slices", [_PADDED, _SHARD], [
        "    each = (len(flat) + ranks - 1) // ranks",
        "    part = flat.new_zeros(each)\n    own = flat[rank * each : (rank + 1) * each]\n"
        "    part[: len(own)] = own\n    return part"]),
    Right("69.1", "by a list of views", _GATHER,
          "        views = list(unit.full.chunk(dist.get_world_size()))\n"
          "        unit.work = dist.all_gather(views, unit.shard.detach(), async_op=True)"),
    Right("69.2", "gathers by itself", _BEFORE,
          "    unit = units[i]\n    if not unit.gathered:\n        unit.full.untyped_storage().resize_(unit.full.nbytes)\n"
          "        dist.all_gather_into_tensor(unit.full, unit.shard.detach(), async_op=True).wait()"),
    Right("69.2", "one storage", _RELEASE,
          "    storage = unit.full.untyped_storage()\n    if storage.nbytes():\n        storage.resize_(0)"),
    Right("69.3", "the average in place", _AVERAGE,
          "    part /= dist.get_world_size()\n    unit.shard.grad = part"),
    Right("69.5", "a tensor of squares", _TOTAL,
          "    total = torch.cat([unit.shard.grad for unit in units]).pow(2).sum()"),
    Right("69.5", "all gradients gathered", _TOTAL + "\n" + _NORM,
          "    total = 0\n    for unit in units:\n        flat = torch.empty(len(unit.full))\n"
          "        dist.all_gather_into_tensor(flat, unit.shard.grad)\n        total += flat.square().sum()\n"
          "    return total.sqrt()"),
    Right("69.4", "both launched, then awaited", [_PREFETCH, _NEXT], [
        "    launch_gather(units[i])\n    ahead = i + direction",
        "    if ahead in range(len(units)):\n        launch_gather(units[ahead])\n    wait(units[i])"]),
]
# fmt: on
