"""Mistakes that learners make in lab 51, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "asked": ("mpi", "horovod-mpi", "torch-nccl"),  # Gloo runs in check 51.2
    "longest": 1 << 16,
    "rounds": ((8192, 5, 2), (1 << 28, 3, 1)),
    "nets": ("resnet50",),
    "steps": 1,
}

LOOP = """        link.barrier()
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds[warmup:]
"""
BACK = """        for layer, part in zip(layers, parts, strict=True):
            gradients[layer].copy_(part.view_as(gradients[layer]))"""
FULL = "if not plan or filled + sizes[layer] > limit:"
CLEAR = "if q1 <= row[first][2] or median <= 1.1 * row[first][1]:"

# fmt: off
WRONG = [
    Wrong("51.1", "no barrier", "        link.barrier()\n", "", "first the barrier, then the clock"),
    Wrong("51.1", "the barrier is timed too", "        link.barrier()\n        start = clock()\n",
          "        start = clock()\n        link.barrier()\n", "first the barrier, then the clock"),
    Wrong("51.1", "one barrier before the loop, one clock around it", """\
    for _ in range(warmup + calls):
        # Across ranks: all begin together, or the first would time how late the last one is.
""" + LOOP, """\
    for _ in range(warmup):
        call()
    link.barrier()
    start = clock()
    for _ in range(calls):
        call()
    return [(clock() - start) / calls] * calls
""", "first the barrier, then the clock"),
    Wrong("51.1", "no warm-up",
          ["range(warmup + calls)", "return seconds[warmup:]"], ["range(calls)", "return seconds"],
          "a warm-up call, 5 ms longer, is among your values"),
    Wrong("51.1", "the warm-up counts", "return seconds[warmup:]", "return seconds",
          "the number of values by rank: expected 12 at [0], got 15"),
    Wrong("51.1", "the last values left out, not the first",
          "return seconds[warmup:]", "return seconds[:calls]",
          "a warm-up call, 5 ms longer, is among your values"),
    Wrong("51.1", "the clock runs on", ["    for _ in range(warmup + calls):", "        start = clock()\n"],
          ["    start = clock()\n    for _ in range(warmup + calls):", ""],
          "a warm-up call, 5 ms longer, is among your values"),
    Wrong("51.1", "one call's time for all",
          "return seconds[warmup:]", "return [sum(seconds[warmup:]) / calls] * calls",
          "seconds of each call, with no barrier after it: 24 of 24 values are off"),
    Wrong("51.1", "a second barrier is timed", "        call()\n", "        call()\n        link.barrier()\n",
          "seconds of each call, with no barrier after it: 12 of 24 values are off"),
    Wrong("51.1", "another clock",
          ["start = clock()", "clock() - start"], ["start = perf_counter()", "perf_counter() - start"],
          "read the clock that time_calls is given"),
    Wrong("51.1", "nothing is returned", "return seconds[warmup:]", "pass", "returns a NoneType"),
    Wrong("51.1", "the mean of the ranks",
          "seconds.max(axis=0)", "seconds.mean(axis=0)", "until its slowest rank has it"),
    Wrong("51.1", "rank 0's times", "seconds.max(axis=0)", "seconds[0]", "until its slowest rank has it"),
    Wrong("51.1", "the slowest call of each rank", "seconds.max(axis=0)", "seconds.max(axis=1)",
          "until its slowest rank has it: expected shape (9,), got (4,)"),
    Wrong("51.1", "values for bytes", "count * width /", "count /", "of values, not of bytes"),
    Wrong("51.1", "the mean of the calls",
          "np.median(slowest)", "np.mean(slowest)", "algbw in GB/s, from the median of the calls"),
    Wrong("51.1", "GB of 2^30 bytes", "/ 1e9", "/ 2**30", "algbw in GB/s"),
    Wrong("51.1", "reduce-scatter's factor",
          "algbw * 2 * (n - 1) / n", "algbw * (n - 1) / n", "busbw in GB/s: expected 3, got 1.5"),
    Wrong("51.1", "the factor upside down",
          "algbw * 2 * (n - 1) / n", "algbw * n / (2 * max(1, n - 1))", "busbw in GB/s"),
    Wrong("51.1", "calls taken for ranks", "len(seconds)", "len(seconds[0])", "busbw in GB/s"),
    Wrong("51.2", "each rank names itself", "    host, port = comm.bcast((host, port), root=0)\n", "",
          "expected '40000' at ['MASTER_PORT'], got '40001'"),
    Wrong("51.2", "rank 0's host, but each rank's own port",
          "host, port = comm.bcast((host, port), root=0)", "host = comm.bcast(host, root=0)",
          "expected '40000' at ['MASTER_PORT'], got '40001'"),
    Wrong("51.2", "this machine's own address", '{"MASTER_ADDR": host,', '{"MASTER_ADDR": "127.0.0.1",',
          "expected 'node0' at ['MASTER_ADDR'], got '127.0.0.1'"),
    Wrong("51.2", "the last rank's address", "root=0", "root=comm.size - 1", "at ['MASTER_PORT']"),
    Wrong("51.2", "numbers for text",
          ["str(port)", "str(comm.rank)", "str(comm.size)"], ["port", "comm.rank", "comm.size"],
          "expected '40000' at ['MASTER_PORT'], got 40000"),
    Wrong("51.2", "the rank on the node for the rank in the job",
          "str(comm.rank)", "str(comm.rank % 2)", "expected '2' at ['RANK'], got '0'"),
    Wrong("51.2", "the sum", "    tensor /= dist.get_world_size()\n", "", "the sum, not the mean"),
    Wrong("51.2", "divides by 2, however many there are",
          "tensor /= dist.get_world_size()", "tensor /= 2", "the mean of [1, 4, 9]: expected 4.66667, got 7"),
    Wrong("51.2", "divides after the sum",
          ["    tensor /= dist.get_world_size()\n", "    dist.all_reduce(tensor)"],
          ["", "    dist.all_reduce(tensor)\n    tensor /= dist.get_world_size()"],
          "times 60000, in float16"),
    Wrong("51.2", "a tensor of its own",
          "    tensor /= dist.get_world_size()\n", "    tensor = tensor / dist.get_world_size()\n",
          "`tensor` is as it was"),
    Wrong("51.2", "no allreduce", "    dist.all_reduce(tensor)", "", "the mean of [1, 4, 9]"),
    Wrong("51.2", "only rank 0 calls: it waits for ever",
          "    dist.all_reduce(tensor)", "    if dist.get_rank() == 0:\n        dist.all_reduce(tensor)",
          "rank"),
    Wrong("51.3", "forward order", "in reversed(sizes)", "in sizes", "the order in which backward has them"),
    Wrong("51.3", "closes a bucket when it is over the limit",
          FULL, "if not plan or filled > limit:", "over the limit"),
    Wrong("51.3", "counts on from bucket to bucket",
          "            plan.append([])\n            filled = 0\n", "            plan.append([])\n",
          "more have room there"),
    Wrong("51.3", "a bucket a layer", FULL, "if True:", "more have room there"),
    Wrong("51.3", "one bucket for all", FULL, "if not plan:", "over the limit"),
    Wrong("51.3", "leaves out what is too large", "        plan[-1].append(layer)\n        filled", """\
        if sizes[layer] <= limit:
            plan[-1].append(layer)
        filled""", "the layers in all buckets, each once"),
    Wrong("51.3", "an empty bucket before one that is too large", FULL, """\
if not plan:
            plan.append([])
        if filled + sizes[layer] > limit:""", "there is an empty bucket"),
    Wrong("51.3", "a full bucket is full one byte too early",
          FULL, FULL.replace("> limit", ">= limit"), "more have room there"),
    Wrong("51.3", "the sums are not copied back", BACK, "", "Copy the sums back into them"),
    Wrong("51.3", "a new tensor for the optimizer's",
          "gradients[layer].copy_(part.view_as(gradients[layer]))",
          "gradients[layer] = part.view_as(gradients[layer])", "Copy the sums back into them"),
    Wrong("51.3", "back in another order",
          "zip(layers, parts, strict=True)", "zip(layers, reversed(parts), strict=True)", "shape"),
    Wrong("51.3", "one by one after all", "        link.sum(flat)\n", """\
        for layer in layers:
            link.sum(gradients[layer].view(-1))
        flat = torch.cat([gradients[layer].flatten() for layer in layers])
""", "a ring for each of"),
    Wrong("51.3", "averaged before",
          "        link.sum(flat)\n", "        flat /= link.size\n        link.sum(flat)\n",
          "That is the mean"),
    Wrong("51.4", "the least median, whatever the noise", CLEAR, "if False:", "expected 'either', got 'y'"),
    Wrong("51.4", "the spread alone", CLEAR, "if q1 <= row[first][2]:", "expected 'either', got 'y'"),
    Wrong("51.4", "the medians alone",
          CLEAR, "if median <= 1.1 * row[first][1]:", "expected 'either', got 'y'"),
    Wrong("51.4", "one of the two is enough",
          CLEAR, CLEAR.replace(" or ", " and "), "expected 'either', got 'y'"),
    Wrong("51.4", "only the second is looked at",
          "row.keys() - {first}", "sorted(row, key=lambda name: row[name][1])[1:2]",
          "expected 'either', got 'y'"),
    Wrong("51.4", "only the first of the others is looked at",
          "    return first", "        return first", "got None"),
    Wrong("51.4", "the largest", "first = min(row", "first = max(row", "expected 'y'"),
]
