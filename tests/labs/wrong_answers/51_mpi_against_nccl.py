"""Mistakes that learners make in lab 51, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "asked": ("mpi", "torch-nccl"),  # Gloo runs in check 51.2
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
CLEAR = "all(q1 > row[first][2] and median > 1.1 * row[first][1] for q1, median, _ in others)"
INSIDE = "if times and min(times) <= nbytes <= max(times):"

WRONG = [
    Wrong(
        "51.1",
        "no barrier",
        old="        link.barrier()\n",
        new="",
        says="first the barrier, then the clock",
    ),
    Wrong(
        "51.1",
        "the barrier is timed too",
        old="        link.barrier()\n        start = clock()\n",
        new="        start = clock()\n        link.barrier()\n",
        says="first the barrier, then the clock",
    ),
    Wrong(
        "51.1",
        "one barrier before the loop, one clock around it",
        old="    for _ in range(warmup + calls):\n        # Across ranks: all begin together, or the first "
        "would time how late the last one is.\n" + LOOP,
        new="""    for _ in range(warmup):
        call()
    link.barrier()
    start = clock()
    for _ in range(calls):
        call()
    return [(clock() - start) / calls] * calls
""",
        says="first the barrier, then the clock",
    ),
    Wrong(
        "51.1",
        "no warm-up",
        old=["range(warmup + calls)", "return seconds[warmup:]"],
        new=["range(calls)", "return seconds"],
        says="a warm-up call, 5 ms longer, is among your values",
    ),
    Wrong(
        "51.1",
        "the warm-up counts",
        old="return seconds[warmup:]",
        new="return seconds",
        says="the number of values by rank: expected 12 at [0], got 15",
    ),
    Wrong(
        "51.1",
        "the last values left out, not the first",
        old="return seconds[warmup:]",
        new="return seconds[:calls]",
        says="a warm-up call, 5 ms longer, is among your values",
    ),
    Wrong(
        "51.1",
        "the clock runs on",
        old=["    for _ in range(warmup + calls):", "        start = clock()\n"],
        new=["    start = clock()\n    for _ in range(warmup + calls):", ""],
        says="a warm-up call, 5 ms longer, is among your values",
    ),
    Wrong(
        "51.1",
        "one call's time for all",
        old="return seconds[warmup:]",
        new="return [sum(seconds[warmup:]) / calls] * calls",
        says="seconds of each call, with no barrier after it: 24 of 24 values are off",
    ),
    Wrong(
        "51.1",
        "a second barrier is timed",
        old="        call()\n",
        new="        call()\n        link.barrier()\n",
        says="seconds of each call, with no barrier after it: 12 of 24 values are off",
    ),
    Wrong(
        "51.1",
        "another clock",
        old=["start = clock()", "clock() - start"],
        new=["start = perf_counter()", "perf_counter() - start"],
        says="read the clock that time_calls is given",
    ),
    Wrong(
        "51.1", "nothing is returned", old="return seconds[warmup:]", new="pass", says="returns a NoneType"
    ),
    Wrong(
        "51.1",
        "the mean of the ranks",
        old="seconds.max(axis=0)",
        new="seconds.mean(axis=0)",
        says="until its slowest rank has it",
    ),
    Wrong(
        "51.1",
        "rank 0's times",
        old="seconds.max(axis=0)",
        new="seconds[0]",
        says="until its slowest rank has it",
    ),
    Wrong(
        "51.1",
        "the slowest call of each rank",
        old="seconds.max(axis=0)",
        new="seconds.max(axis=1)",
        says="until its slowest rank has it: expected shape (9,), got (4,)",
    ),
    Wrong("51.1", "values for bytes", old="count * width /", new="count /", says="of values, not of bytes"),
    Wrong(
        "51.1",
        "the mean of the calls",
        old="np.median(slowest)",
        new="np.mean(slowest)",
        says="algbw in GB/s, from the median of the calls",
    ),
    Wrong("51.1", "GB of 2^30 bytes", old="/ 1e9", new="/ 2**30", says="algbw in GB/s"),
    Wrong(
        "51.1",
        "reduce-scatter's factor",
        old="algbw * 2 * (n - 1) / n",
        new="algbw * (n - 1) / n",
        says="busbw in GB/s: expected 3, got 1.5",
    ),
    Wrong(
        "51.1",
        "the factor upside down",
        old="algbw * 2 * (n - 1) / n",
        new="algbw * n / (2 * max(1, n - 1))",
        says="busbw in GB/s",
    ),
    Wrong(
        "51.1",
        "calls taken for ranks",
        old="len(seconds)",
        new="len(seconds[0])",
        says="busbw in GB/s",
    ),
    Wrong(
        "51.2",
        "each rank names itself",
        old="    host, port = comm.bcast((host, port), root=0)\n",
        new="",
        says="expected '40000' at ['MASTER_PORT'], got '40001'",
    ),
    Wrong(
        "51.2",
        "rank 0's host, but each rank's own port",
        old="host, port = comm.bcast((host, port), root=0)",
        new="host = comm.bcast(host, root=0)",
        says="expected '40000' at ['MASTER_PORT'], got '40001'",
    ),
    Wrong(
        "51.2",
        "this machine's own address",
        old='{"MASTER_ADDR": host,',
        new='{"MASTER_ADDR": "127.0.0.1",',
        says="expected 'node0' at ['MASTER_ADDR'], got '127.0.0.1'",
    ),
    Wrong(
        "51.2",
        "the last rank's address",
        old="root=0",
        new="root=comm.size - 1",
        says="at ['MASTER_PORT']",
    ),
    Wrong(
        "51.2",
        "numbers for text",
        old=["str(port)", "str(comm.rank)", "str(comm.size)"],
        new=["port", "comm.rank", "comm.size"],
        says="expected '40000' at ['MASTER_PORT'], got 40000",
    ),
    Wrong(
        "51.2",
        "the rank on the node for the rank in the job",
        old="str(comm.rank)",
        new="str(comm.rank % 2)",
        says="expected '2' at ['RANK'], got '0'",
    ),
    Wrong(
        "51.2", "the sum", old="    tensor /= dist.get_world_size()\n", new="", says="the sum, not the mean"
    ),
    Wrong(
        "51.2",
        "divides by 2, however many there are",
        old="tensor /= dist.get_world_size()",
        new="tensor /= 2",
        says="the mean of [1, 4, 9]: expected 4.66667, got 7",
    ),
    Wrong(
        "51.2",
        "divides after the sum",
        old=["    tensor /= dist.get_world_size()\n", "    dist.all_reduce(tensor)"],
        new=["", "    dist.all_reduce(tensor)\n    tensor /= dist.get_world_size()"],
        says="times 60000, in float16",
    ),
    Wrong(
        "51.2",
        "a tensor of its own",
        old="    tensor /= dist.get_world_size()\n",
        new="    tensor = tensor / dist.get_world_size()\n",
        says="`tensor` is as it was",
    ),
    Wrong(
        "51.2",
        "no allreduce",
        old="    dist.all_reduce(tensor)",
        new="",
        says="the mean of [1, 4, 9]",
    ),
    Wrong(
        "51.2",
        "only rank 0 calls: it waits for ever",
        old="    dist.all_reduce(tensor)",
        new="    if dist.get_rank() == 0:\n        dist.all_reduce(tensor)",
        says="rank",
    ),
    Wrong(
        "51.3",
        "forward order",
        old="in reversed(sizes)",
        new="in sizes",
        says="the order in which backward has them",
    ),
    Wrong(
        "51.3",
        "closes a bucket when it is over the limit",
        old=FULL,
        new="if not plan or filled > limit:",
        says="over the limit",
    ),
    Wrong(
        "51.3",
        "counts on from bucket to bucket",
        old="            plan.append([])\n            filled = 0\n",
        new="            plan.append([])\n",
        says="more have room there",
    ),
    Wrong(
        "51.3",
        "a bucket a layer",
        old=FULL,
        new="if True:",
        says="more have room there",
    ),
    Wrong(
        "51.3",
        "one bucket for all",
        old=FULL,
        new="if not plan:",
        says="over the limit",
    ),
    Wrong(
        "51.3",
        "leaves out what is too large",
        old="        plan[-1].append(layer)\n        filled",
        new="        if sizes[layer] <= limit:\n            plan[-1].append(layer)\n        filled",
        says="the layers in all buckets, each once",
    ),
    Wrong(
        "51.3",
        "an empty bucket before one that is too large",
        old=FULL,
        new="if not plan:\n            plan.append([])\n        if filled + sizes[layer] > limit:",
        says="there is an empty bucket",
    ),
    Wrong(
        "51.3",
        "a full bucket is full one byte too early",
        old=FULL,
        new=FULL.replace("> limit", ">= limit"),
        says="more have room there",
    ),
    Wrong("51.3", "the sums are not copied back", old=BACK, new="", says="Copy the sums back into them"),
    Wrong(
        "51.3",
        "a new tensor for the optimizer's",
        old="gradients[layer].copy_(part.view_as(gradients[layer]))",
        new="gradients[layer] = part.view_as(gradients[layer])",
        says="Copy the sums back into them",
    ),
    Wrong(
        "51.3",
        "back in another order",
        old="zip(layers, parts, strict=True)",
        new="zip(layers, reversed(parts), strict=True)",
        says="shape",
    ),
    Wrong(
        "51.3",
        "one by one after all",
        old="        link.sum(flat)\n",
        new="        for layer in layers:\n            link.sum(gradients[layer].view(-1))\n"
        "        flat = torch.cat([gradients[layer].flatten() for layer in layers])\n",
        says="a ring for each of",
    ),
    Wrong(
        "51.3",
        "averaged before",
        old="        link.sum(flat)\n",
        new="        flat /= link.size\n        link.sum(flat)\n",
        says="the sum, in the gradients' places, is wrong",
    ),
    Wrong(
        "51.4",
        "the least median, whatever the noise",
        old=CLEAR,
        new="True",
        says="expected 'either', got 'y'",
    ),
    Wrong(
        "51.4",
        "the spread alone",
        old=CLEAR,
        new="all(q1 > row[first][2] for q1, median, _ in others)",
        says="expected 'either', got 'y'",
    ),
    Wrong(
        "51.4",
        "the medians alone",
        old=CLEAR,
        new="all(median > 1.1 * row[first][1] for q1, median, _ in others)",
        says="expected 'either', got 'y'",
    ),
    Wrong(
        "51.4",
        "only the second is looked at",
        old="row.keys() - {first})",
        new="sorted(row, key=lambda name: row[name][1])[1:2])",
        says="expected 'either', got 'y'",
    ),
    Wrong(
        "51.4",
        "the largest",
        old="first = min(row",
        new="first = max(row",
        says="expected 'y'",
    ),
    Wrong(
        "51.4",
        "beyond what was measured",
        old=INSIDE,
        new="if times:",
        says="which(2, table)",
    ),
    Wrong(
        "51.4",
        "a backend that could not run",
        old=INSIDE,
        new="if min(times, default=0) <= nbytes <= max(times, default=1 << 40):",
        says="empty",
    ),
    Wrong(
        "51.4",
        "nearest by difference",
        old="abs(np.log2(n / nbytes))",
        new="abs(n - nbytes)",
        says="which(40000, table)",
    ),
    Wrong(
        "51.4",
        "the next larger size",
        old="min(times, key=lambda n: abs(np.log2(n / nbytes)))",
        new="min(n for n in times if n >= nbytes)",
        says="which(20000, table)",
    ),
    Wrong(
        "51.4",
        "a guess where nothing was measured",
        old='best(row) if row else "not measured"',
        new="best(row) if row else min(table)",
        says="expected 'not measured'",
    ),
]
