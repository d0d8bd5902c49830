"""Mistakes of learners in lab 60: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"width": 32, "pictures": 4, "repeat": 5, "workload": "tiny"}

_LAST = """    inputs, labels = batches[-1]
    (cross_entropy(model(inputs), labels) / len(batches)).backward()"""

_WHOLE = (
    """    with model.no_sync():
        for inputs, labels in batches[:-1]:
            (cross_entropy(model(inputs), labels) / len(batches)).backward()
"""
    + _LAST
)

# fmt: off
WRONG = [
    Wrong("60.1", "the sum", "    flat /= dist.get_world_size()\n", "", "the sums, not the averages"),
    Wrong("60.1", "waits at once", "dist.all_reduce(flat, async_op=True)",
          "dist.all_reduce(flat, async_op=True)\n    work.wait()", "waits for a rank that comes late"),
    Wrong("60.1", "no exchange", "    work = dist.all_reduce(flat, async_op=True)",
          "    work = torch.futures.Future()\n    work.set_result(None)", "one for each bucket"),
    Wrong("60.1", "not asynchronous", "dist.all_reduce(flat, async_op=True)", "dist.all_reduce(flat)",
          "has no attribute 'wait'"),
    Wrong("60.1", "half precision", "torch.cat([weights.grad.flatten()",
          "torch.cat([weights.grad.half().flatten()", "beside PyTorch's"),
    Wrong("60.1", "a sum for each tensor", [
        "    work = dist.all_reduce(flat, async_op=True)", "    flat, work = started\n    work.wait()\n"], [
        "    work = [dist.all_reduce(part, async_op=True) for part in"
        " flat.split([weights.grad.numel() for weights in bucket])]",
        "    flat, work = started\n    for part in work:\n        part.wait()\n"], "one for each bucket"),
    Wrong("60.1", "only rank 0 waits", "    work.wait()\n", "    if dist.get_rank() == 0:\n        work.wait()\n",
          "where another rank comes late"),
    Wrong("60.1", "nothing is written back", "        weights.grad.copy_(part.view_as(weights.grad))",
          "        part.view_as(weights.grad)", "the rank's own gradient"),
    Wrong("60.1", "begun only at the end",
          ["    work = dist.all_reduce(flat, async_op=True)\n    return flat, work",
           "    flat, work = started\n    work.wait()\n"],
          ["    return flat, None", "    flat, _ = started\n    dist.all_reduce(flat)\n"],
          "allreduces launched by"),
    Wrong("60.1", "the first tensor for all", "for weights, part in zip(bucket, parts, strict=True)",
          "for weights, part in zip(bucket[:1], parts[:1], strict=True)", "gradient of parameter"),
    Wrong("60.2", "the caller's list reversed in place", [_WHOLE, "batches[:-1]", "batches[-1]"], [
          "    batches.reverse()\n" + _WHOLE, "batches[1:]", "batches[0]"], "changes the list of batches"),
    Wrong("60.2", "an optimizer's step", _WHOLE, _WHOLE + """
    torch.optim.SGD(model.parameters(), lr=0.1).step()""", "changes a weight"),
    Wrong("60.2", "parts of 8 images each", _WHOLE, _WHOLE.replace("labels) /", 'labels, reduction="sum") / 8 /'),
          "gradient of parameter"),
    Wrong("60.2", "an exchange for each part", "    with model.no_sync():\n", "    if True:\n", "allreduces: expected 1"),
    Wrong("60.2", "no exchange at all", _LAST,
          "    with model.no_sync():\n        inputs, labels = batches[-1]\n"
          "        (cross_entropy(model(inputs), labels) / len(batches)).backward()", "belongs outside no_sync"),
    Wrong("60.2", "the sum of means",
          ["(cross_entropy(model(inputs), labels) / len(batches)).backward()\n    inputs",
                                      _LAST],
          ["cross_entropy(model(inputs), labels).backward()\n    inputs",
           "    inputs, labels = batches[-1]\n    cross_entropy(model(inputs), labels).backward()"],
          "sum of the parts' means"),
    Wrong("60.2", "all pictures at once", _WHOLE, """    inputs = torch.cat([inputs for inputs, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    cross_entropy(model(inputs), labels).backward()""", "images of each forward pass"),
    Wrong("60.2", "one way back for all", _WHOLE,
          """    losses = [cross_entropy(model(inputs), labels) for inputs, labels in batches]
    (sum(losses) / len(losses)).backward()""", "backward passes"),
    Wrong("60.2", "only the last part", "for inputs, labels in batches[:-1]:", "for inputs, labels in []:",
          "images of each forward pass"),
    Wrong("60.3", "everything is dealt out", "8 * n / (ranks if stage >= 1 else 1)", "8 * n / ranks",
          "bytes on a rank"),
    Wrong("60.3", "whole numbers", "return times * n * (ranks - 1) / ranks",
          "return times * n * (ranks - 1) // ranks",
          "numbers sent"),
    Wrong("60.3", "one stage late", ["stage >= 1", "stage >= 2", "stage >= 3"], ["stage > 1", "stage > 2",
          "stage > 3"],
          "bytes on a rank"),
    Wrong("60.3", "numbers for bytes", "return parameters + gradients + averages",
          "return (parameters + gradients + averages) / 4", "each has 4 bytes"),
    Wrong("60.3", "all ranks together", "return parameters + gradients + averages",
          "return (parameters + gradients + averages) * ranks", "all ranks hold together"),
    Wrong("60.3", "its own part is sent, too", "return times * n * (ranks - 1) / ranks", "return times * n",
          "keeps its own part"),
    Wrong("60.3", "three times from stage 2", "times = 3 if stage == 3 else 2",
          "times = 3 if stage >= 2 else 2",
          "numbers sent"),
    Wrong("60.3", "whole shares, rounded up", "averages = 8 * n / (ranks if stage >= 1 else 1)",
          "averages = 8 * -(-n // (ranks if stage >= 1 else 1))", "bytes on a rank"),
    Wrong("60.3", "whole parts are sent", "return times * n * (ranks - 1) / ranks",
          "return times * (ranks - 1) * -(-n // ranks)", "is rounded up"),
    Wrong("60.3", "bytes for numbers", "return times * n *", "return 4 * times * n *", "are bytes, not"),
]

RIGHT = [
    Right("60.1", "a future; divided before the sum", [
        "    flat /= dist.get_world_size()\n", "work = dist.all_reduce(flat, async_op=True)"], [
        "", "flat /= dist.get_world_size()\n    work = dist.all_reduce(flat, async_op=True).get_future()"]),
    Right("60.1", "a dict, new gradients", [
        "return flat, work", "flat, work = started",
        "weights.grad.copy_(part.view_as(weights.grad))"], [
        'return {"flat": flat, "work": work}', 'flat, work = started["flat"], started["work"]',
        "weights.grad = part.reshape(weights.shape).clone()"]),
    Right("60.2", "a loop with a null context", _WHOLE, """\
    from contextlib import nullcontext

    for place, (inputs, labels) in enumerate(batches):
        with nullcontext() if place == len(batches) - 1 else model.no_sync():
            loss = cross_entropy(model(inputs), labels) / len(batches)
            loss.backward()"""),
    Right("60.2", "only the forward pass inside", _WHOLE, """\
    for inputs, labels in batches[:-1]:
        with model.no_sync():
            loss = cross_entropy(model(inputs), labels) / len(batches)
        loss.backward()
""" + _LAST),
    Right("60.2", "require_backward_grad_sync", _WHOLE, """\
    for place, (inputs, labels) in enumerate(batches, 1):
        model.require_backward_grad_sync = place == len(batches)
        (cross_entropy(model(inputs), labels) / len(batches)).backward()"""),
    Right("60.3", "NumPy, a table", [
        "return parameters + gradients + averages", "times = 3 if stage == 3 else 2"], [
        "return np.sum([parameters, gradients, averages])", "times = [2, 2, 2, 3][stage]"]),
]
# fmt: on
