"""Mistakes that learners make in lab 51, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "asked": ("mpi", "horovod-mpi", "torch-nccl"),  # Gloo runs in check 51.1
    "longest": 1 << 16,
    "rounds": ((8192, 5, 2), (1 << 28, 3, 1)),
    "nets": ("resnet50",),
    "steps": 1,
}

CLEAR = "if q1 <= row[first][2] or median <= 1.1 * row[first][1]:"

# fmt: off
WRONG = [
    Wrong("51.1", "each rank names itself", "    host, port = comm.bcast((host, port), root=0)\n", "",
          "expected '40022' at ['MASTER_PORT'], got '40020'"),
    Wrong("51.1", "rank 0's port, but each rank's own host",
          "host, port = comm.bcast((host, port), root=0)", "port = comm.bcast(port, root=0)",
          "expected 'node1' at ['MASTER_ADDR'], got 'node2'"),
    Wrong("51.1", "this machine's own address", '{"MASTER_ADDR": host,', '{"MASTER_ADDR": "127.0.0.1",',
          "expected 'node1' at ['MASTER_ADDR'], got '127.0.0.1'"),
    Wrong("51.1", "the last rank's address", "root=0", "root=comm.size - 1", "at ['MASTER_PORT']"),
    Wrong("51.1", "the smallest address", "comm.bcast((host, port), root=0)", "min(comm.allgather((host, port)))",
          "expected '40022' at ['MASTER_PORT'], got '40020'"),
    Wrong("51.1", "sets the variables itself", "    return {", "    import os\n    os.environ.update(numbers)\n    return {",
          "`meeting` changed os.environ"),
    Wrong("51.1", "numbers for text",
          ["str(port)", "str(comm.rank)", "str(comm.size)"], ["port", "comm.rank", "comm.size"],
          "expected '40012' at ['MASTER_PORT'], got 40012"),
    Wrong("51.1", "the rank on the node for the rank in the job",
          "str(comm.rank)", "str(comm.rank % 2)", "expected '2' at ['RANK'], got '0'"),
    Wrong("51.2", "the first is taken out of the caller's dict",
          ["    for other in row.keys() - {first}:\n", "row[first][2]", "row[first][1]:"],
          ["    low, middle, high = row.pop(first)\n    for other in row:\n", "high", "middle:"],
          "The dict `row` was changed"),
    Wrong("51.2", "the least median, whatever the noise", CLEAR, "if False:", "expected 'either', got 'y'"),
    Wrong("51.2", "the spread alone", CLEAR, "if q1 <= row[first][2]:", "expected 'either', got 'y'"),
    Wrong("51.2", "the medians alone",
          CLEAR, "if median <= 1.1 * row[first][1]:", "expected 'either', got 'y'"),
    Wrong("51.2", "a tenth of a second, not of the first's median",
          CLEAR, "if q1 <= row[first][2] or median - row[first][1] <= 0.1:", "expected 'y', got 'either'"),
    Wrong("51.2", "a lead of a twentieth is enough",
          CLEAR, CLEAR.replace("1.1", "1.06"), "expected 'either', got 'y'"),
    Wrong("51.2", "asks for more than a tenth", CLEAR, CLEAR.replace("1.1", "1.12"), "expected 'y'"),
    Wrong("51.2", "the other's q1 for its median", CLEAR, CLEAR.replace("median", "q1"),
          "expected 'y', got 'either'"),
    Wrong("51.2", "the other's q3 for its median", "q1, median, _ = row[other]", "q1, _, median = row[other]",
          "expected 'either', got 'y'"),
    Wrong("51.2", "the first's q1 for its median",
          CLEAR, CLEAR.replace("row[first][1]", "row[first][0]"), "expected 'either', got 'y'"),
    Wrong("51.2", "one of the two is enough",
          CLEAR, CLEAR.replace(" or ", " and "), "expected 'either', got 'y'"),
    Wrong("51.2", "only the second is looked at",
          "row.keys() - {first}", "sorted(row, key=lambda name: row[name][1])[1:2]",
          "expected 'either', got 'y'"),
    Wrong("51.2", "only the first of the others is looked at",
          "    return first", "        return first", "got None"),
    Wrong("51.2", "touching ranges are apart", CLEAR, CLEAR.replace("q1 <=", "q1 <"),
          "expected 'either', got 'y'"),
    Wrong("51.2", "exactly 1.1 times is enough", CLEAR, CLEAR.replace("median <=", "median <"),
          "expected 'either', got 'y'"),
    Wrong("51.2", "the fastest is expected last", "row.keys() - {first}", "list(row)[:-1]",
          "'z': (2.05, 2.1, 3.0)}): expected 'y', got 'either'"),
    Wrong("51.2", "the last name of the alphabet", "min(row, key=lambda name: row[name][1])", "max(row)",
          "expected 'y', got 'either'"),
    Wrong("51.2", "each has to lead the next",
          ["    for other in row.keys() - {first}:", "row[first][2]", "row[first][1]:"],
          ["    names = sorted(row, key=lambda name: row[name][1])\n    for near, other in zip(names, names[1:]):",
           "row[near][2]", "row[near][1]:"], "expected 'y', got 'either'"),
    Wrong("51.2", "the mean of the others", "q1, median, _ = row[other]",
          "q1, median, _ = np.mean([row[name] for name in row if name != first], axis=0)",
          "expected 'either', got 'y'"),
    Wrong("51.2", "the largest", "first = min(row", "first = max(row", "expected 'y'"),
]

RIGHT = [
    Right("51.1", "two broadcasts, f-strings, dict()", [
          "host, port = comm.bcast((host, port), root=0)",
          "return {\"MASTER_ADDR\": host, \"MASTER_PORT\": str(port)} | numbers"], [
          "host = comm.bcast(host)\n    port = comm.bcast(port, 0)",
          "return dict(numbers, MASTER_ADDR=host, MASTER_PORT=f\"{port}\")"]),
    Right("51.1", "by allgather, rank and size by their getters", [
          "host, port = comm.bcast((host, port), root=0)", "str(comm.rank)", "str(comm.size)"], [
          "(host, port), *_ = comm.allgather((host, port))", "str(comm.Get_rank())", "str(comm.Get_size())"]),
    Right("51.2", "sorted, and all", """\
    first = min(row, key=lambda name: row[name][1])
    for other in row.keys() - {first}:
        q1, median, _ = row[other]
        if q1 <= row[first][2] or median <= 1.1 * row[first][1]:
            return "either"
    return first""", """\
    (first, (_, least, most)), *others = sorted(row.items(), key=lambda item: item[1][1])
    clear = all(q1 > most and (median - least) / least > 0.1 for _, (q1, median, _) in others)
    return first if clear else "either\""""),
    Right("51.2", "NumPy's arrays", """\
    for other in row.keys() - {first}:
        q1, median, _ = row[other]
        if q1 <= row[first][2] or median <= 1.1 * row[first][1]:
            return "either"
    return first""", """\
    others = np.array([times for name, times in row.items() if name != first]).reshape(-1, 3)
    clear = (others[:, 0] > row[first][2]) & (others[:, 1] > 1.1 * row[first][1])
    return first if clear.all() else "either\""""),
]
