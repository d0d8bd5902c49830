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
    return seconds[warmup:]"""
BACK = """        for layer, part in zip(layers, parts, strict=True):
            gradients[layer].copy_(part.view_as(gradients[layer]))"""
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
    Wrong("51.4", "a tenth of a second, not of the first's median",
          CLEAR, "if q1 <= row[first][2] or median - row[first][1] <= 0.1:", "expected 'y', got 'either'"),
    Wrong("51.4", "a lead of a twentieth is enough",
          CLEAR, CLEAR.replace("1.1", "1.06"), "expected 'either', got 'y'"),
    Wrong("51.4", "asks for more than a tenth", CLEAR, CLEAR.replace("1.1", "1.12"), "expected 'y'"),
    Wrong("51.4", "the other's q1 for its median", CLEAR, CLEAR.replace("median", "q1"),
          "expected 'y', got 'either'"),
    Wrong("51.4", "the other's q3 for its median", "q1, median, _ = row[other]", "q1, _, median = row[other]",
          "expected 'either', got 'y'"),
    Wrong("51.4", "the first's q1 for its median",
          CLEAR, CLEAR.replace("row[first][1]", "row[first][0]"), "expected 'either', got 'y'"),
    Wrong("51.4", "one of the two is enough",
          CLEAR, CLEAR.replace(" or ", " and "), "expected 'either', got 'y'"),
    Wrong("51.4", "only the second is looked at",
          "row.keys() - {first}", "sorted(row, key=lambda name: row[name][1])[1:2]",
          "expected 'either', got 'y'"),
    Wrong("51.4", "only the first of the others is looked at",
          "    return first", "        return first", "got None"),
    Wrong("51.4", "the largest", "first = min(row", "first = max(row", "expected 'y'"),
]
