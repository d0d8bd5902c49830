"""Mistakes of learners in lab 67: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "heads": 2,
    "size": 8,
    "nap": 0.001,
    "repeat": 3,
    "many": 8,
}

_LARGEST = "    largest = torch.maximum(one.largest, other.largest)"
_MINE = "    mine = (one.largest - largest).exp()"
_ITS = "    its = (other.largest - largest).exp()"
_TOTAL = "    total = mine * one.total + its * other.total"
_MERGED = "    return Partial(largest, total, mine * one.weighted + its * other.weighted)"
_LOOP = "    for step in range(comm.size):"
_IF = "        if step < comm.size - 1:"
_BOTH = "            requests = [comm.Irecv(room, source=left), comm.Isend(block, dest=right)]"
_VISIT = "        visit(block, (comm.rank - step) % comm.size)"
_WAITS = "        for request in requests:\n            request.Wait()"
_NAMES = "        block, room = room, block"
_WAIT_FIRST = "    for request in launched:\n        request.Wait()"
_ADD = "    share += arriving"
_LAUNCH = (
    "    return [comm.Irecv(arriving, source=left, tag=1), comm.Isend(share, dest=right, tag=1)]"
)
_ZIGZAG = "    return rank, 2 * ranks - 1 - rank"
_WORK = "    return sum((query > key) + 0.5 * (query == key) for query in queries for key in keys)"
_AROUND = "    around = (ranks - 1) * block"
_EXCHANGED = "    exchanged = own * (2 * hidden + 2 * kv) * size"
_BYTES = (
    '    return {"ring": around, "allgather": around, "Ulysses": exchanged * (ranks - 1) / ranks}'
)
_HIDES = "    return ranks * kv / hidden * size * flops / bandwidth"

# fmt: off
WRONG = [
    Wrong("67.1", "nothing is rescaled", [_MINE, _ITS], ["    mine = 1", "    its = 1"],
          "oth are added without rescaling"),
    Wrong("67.1", "the weighted values are not rescaled", "mine * one.weighted + its * other.weighted",
          "one.weighted + other.weighted", "he weighted values are added without rescaling"),
    Wrong("67.1", "the mean of two outputs", _MERGED,
          "    mean = (one.weighted / one.total + other.weighted / other.total) / 2\n"
          "    return Partial(largest, total, mean * total)", "the mean of the two outputs"),
    Wrong("67.1", "units of e to the power of 0", _LARGEST,
          "    largest = torch.zeros_like(one.largest)", "each query has its own"),
    Wrong("67.1", "always the first one's unit", _LARGEST, "    largest = one.largest", "not finite"),
    Wrong("67.1", "the smaller one's unit", "torch.maximum", "torch.minimum", "not finite"),
    Wrong("67.1", "the factors are inverted", [_MINE, _ITS],
          ["    mine = (largest - one.largest).exp()", "    its = (largest - other.largest).exp()"],
          "factors are inverted"),
    Wrong("67.1", "one largest for all queries", _LARGEST,
          "    largest = max(one.largest.max(), other.largest.max())", "each query has its own"),
    Wrong("67.1", "a tuple", _MERGED, _MERGED.replace("Partial(", "("), "not a bare tuple"),
    Wrong("67.1", "the larger one's keys alone", [_MINE, _ITS],
          ["    mine = (one.largest >= other.largest).to(one.total.dtype)", "    its = 1 - mine"],
          "weighted / total"),
    Wrong("67.1", "in place", "    total = mine * one.total",
          "    total = one.total.mul_(mine)", "was changed"),
    Wrong("67.1", "the output at once", _MERGED,
          "    return (mine * one.weighted + its * other.weighted) / total", "three parts by name"),
    Wrong("67.1", "nothing is returned", _MERGED, "    Partial(largest, total, mine * one.weighted)",
          "returns a Partial"),
    Wrong("67.1", "swapped for all queries at once", [_LARGEST, _MINE, _ITS],
          ["    if one.largest.mean() < other.largest.mean():\n        one, other = other, one\n"
           "    largest = one.largest", "    mine = 1", _ITS], "not finite"),
    Wrong("67.1", "the largest of all heads", _LARGEST,
          "    largest = torch.maximum(one.largest.amax(0, True), other.largest.amax(0, True))"
          ".expand_as(one.largest)", "each query has its own"),
    Wrong("67.1", "minus infinity replaced by 0", _LARGEST,
          "    scores = [torch.where(torch.isinf(part.largest), 0, part.largest) for part in (one, other)]\n"
          "    largest = torch.maximum(*scores)", "each query has its own"),
    Wrong("67.1", "32 bits", _TOTAL, "    mine, its = mine.float(), its.float()\n"
          + _TOTAL.replace(".total", ".total.float()"), "float32"),
    Wrong("67.1", "the other one if any query has seen nothing", _LARGEST,
          "    if torch.isinf(one.largest).any():\n        return other\n" + _LARGEST, "weighted / total"),
    Wrong("67.2", "pickled", [_BOTH, _WAITS, _NAMES],
          ["            requests = [comm.irecv(source=left), comm.isend(block, dest=right)]",
           "        if requests:\n            block = requests[0].wait()\n            requests[1].wait()",
           "        pass"], "packs a copy of the block"),
    Wrong("67.2", "a copy by NumPy's method", _NAMES, "        block = room.copy()", "no attribute 'copy'"),
    Wrong("67.2", "launched after the visit", [_BOTH, _VISIT + "\n" + _WAITS],
          ["            pass",
           _VISIT + "\n        if step < comm.size - 1:\n            requests = [comm.Irecv(room, source=left),"
           " comm.Isend(block, dest=right)]\n" + _WAITS], "take turns"),
    Wrong("67.2", "waited for before the visit", _VISIT + "\n" + _WAITS, _WAITS + "\n" + _VISIT,
          "take turns"),
    Wrong("67.2", "Sendrecv before the visit", _BOTH,
          "            comm.Sendrecv(block, dest=right, recvbuf=room, source=left)", "take turns"),
    Wrong("67.2", "Irecv after the visit", [_BOTH, _VISIT],
          ["            requests = [comm.Isend(block, dest=right)]",
           _VISIT + "\n        if step < comm.size - 1:\n            comm.Recv(room, source=left)"],
          "take turns"),
    Wrong("67.2", "to the left", [_BOTH, "(comm.rank - step)"],
          ["            requests = [comm.Irecv(room, source=right), comm.Isend(block, dest=left)]",
           "(comm.rank + step)"], "come from the left neighbor"),
    Wrong("67.2", "owners in the other direction", "(comm.rank - step)", "(comm.rank + step)",
          "come from the left neighbor"),
    Wrong("67.2", "one message too many", _IF, "        if comm.size > 1:", "nobody needs a block"),
    Wrong("67.2", "the block is sent home", _IF, "        if True:", "nobody needs a block"),
    Wrong("67.2", "names not exchanged", _NAMES, "        pass", "really holds"),
    Wrong("67.2", "nobody waits", _WAITS, "        pass", "67.2"),
    Wrong("67.2", "received into the block in use", _BOTH,
          "            requests = [comm.Isend(block.copy(), dest=right), comm.Irecv(block, source=left)]",
          "67.2"),
    Wrong("67.2", "own block is not visited", _LOOP, "    for step in range(1, comm.size):", "the owners"),
    Wrong("67.2", "one visit too few", _LOOP, "    for step in range(comm.size - 1):", "the owners"),
    Wrong("67.3", "neighbors", _ZIGZAG, "    return 2 * rank, 2 * rank + 1", "Each should have as much"),
    Wrong("67.3", "rank and rank + p", _ZIGZAG, "    return rank, rank + ranks", "Each should have as much"),
    Wrong("67.3", "one chunk too far", _ZIGZAG, "    return rank, 2 * ranks - rank", "belongs to one rank"),
    Wrong("67.3", "counted among p chunks", _ZIGZAG, "    return rank, ranks - 1 - rank", "belongs to one rank"),
    Wrong("67.3", "one chunk", _ZIGZAG, "    return (2 * ranks - 1 - rank,)", "owns two chunks"),
    Wrong("67.3", "the diagonal counts whole", _WORK, _WORK.replace("0.5 *", ""), "counts a half"),
    Wrong("67.3", "no diagonal", _WORK, _WORK.replace("0.5 *", "0 *"), "work((2,), (2,))"),
    Wrong("67.3", "later keys", _WORK, _WORK.replace("query > key", "query < key"), "not later ones"),
    Wrong("67.3", "no mask", _WORK, "    return len(queries) * len(keys)", "which are masked"),
    Wrong("67.3", "work is printed, not returned", _WORK, _WORK.replace("return ", "pairs = "),
          "Does the function return its result?"),
    Wrong("67.3", "a half for any overlap", _WORK,
          "    pairs = len(queries) * len(keys)\n    if max(queries) < min(keys):\n        return 0\n"
          "    return pairs if min(queries) > max(keys) else pairs / 2", "work((1, 2), (0, 1))"),
    Wrong("67.3", "numbers with a fraction", _ZIGZAG, "    return rank, (4 * ranks - 2 - 2 * rank) / 2",
          "are integers"),
    Wrong("67.3", "a generator", _ZIGZAG, "    return (chunk for chunk in (rank, 2 * ranks - 1 - rank))",
          "returns two integers"),
    Wrong("67.3", "chunks are not returned", _ZIGZAG, "    chunks = rank, 2 * ranks - 1 - rank", "67.3"),
    Wrong("67.4", "bytes are not returned", _BYTES, _BYTES.replace("return ", "sent = "), "67.4"),
    Wrong("67.4", "keys alone", "    block = own * 2 * kv * size", "    block = own * kv * size",
          "bytes of keys alone"),
    Wrong("67.4", "p steps", _AROUND, "    around = ranks * block", "keeps its own part"),
    Wrong("67.4", "Ulysses sends its own part, too", _BYTES, _BYTES.replace(" * (ranks - 1) / ranks", ""),
          "keeps its own part"),
    Wrong("67.4", "Ulysses without the output", _EXCHANGED, _EXCHANGED.replace("2 * hidden", "hidden"),
          "Ulysses, 4096 positions"),
    Wrong("67.4", "Ulysses with kv = hidden", _EXCHANGED, _EXCHANGED.replace("2 * kv", "2 * hidden"),
          "eys and values have `kv` numbers"),
    Wrong("67.4", "two bytes by heart", _BYTES, "    around = around / size * 2\n" + _BYTES, "size 4"),
    Wrong("67.4", "no Ulysses", _BYTES, _BYTES.replace(', "Ulysses": exchanged * (ranks - 1) / ranks', ""),
          "has no 'Ulysses'"),
    Wrong("67.4", "rounded in the middle", _HIDES,
          "    return ranks * kv * size // hidden * flops / bandwidth", "positions are too few"),
    Wrong("67.4", "numbers of two bytes", _HIDES, _HIDES.replace("size", "2"), "A number has `size` bytes"),
    Wrong("67.4", "positions of one rank", _HIDES, _HIDES.replace("ranks * ", ""), "positions of one rank"),
    Wrong("67.4", "without a mask", _HIDES, _HIDES + " / 2", "two of the four pairs"),
    Wrong("67.4", "kv over hidden, inverted", _HIDES, _HIDES.replace("kv / hidden", "hidden / kv"),
          "positions are too many"),
    Wrong("67.4", "bandwidth over flops", _HIDES, _HIDES.replace("flops / bandwidth", "bandwidth / flops"),
          "positions"),
    Wrong("67.4", "all steps' bytes behind one step", _HIDES, _HIDES + " * (ranks - 1)",
          "positions are too many"),
    Wrong("67.5", "a blocking send", _LAUNCH,
          "    request = comm.Irecv(arriving, source=left, tag=1)\n"
          "    comm.Send(share, dest=right, tag=1)\n    return [request]", "and use Isend"),
    Wrong("67.5", "nothing is added", _ADD, "    pass", "add what has arrived"),
    Wrong("67.5", "own share is lost", _ADD, "    share[...] = arriving", "a digit for each rank"),
    Wrong("67.5", "waits at once", [_WAIT_FIRST, _LAUNCH],
          ["    pass", _LAUNCH.replace("    return ", "    requests = ")
           + "\n    for request in requests:\n        request.Wait()\n    return requests"],
          "of the *previous* call"),
    Wrong("67.5", "added before the wait", _WAIT_FIRST + "\n" + _ADD, _ADD + "\n" + _WAIT_FIRST,
          "before its receive had completed"),
    Wrong("67.5", "received before the addition", [_ADD, _LAUNCH],
          ["    requests = [comm.Irecv(arriving, source=left, tag=1)]\n" + _ADD,
           "    return [*requests, comm.Isend(share, dest=right, tag=1)]"],
          "before its receive had completed"),
    Wrong("67.5", "to the left", [_LAUNCH],
          [_LAUNCH.replace("left", "other").replace("right", "left").replace("other", "right")],
          "a digit for each rank"),
    Wrong("67.5", "nobody waits", _WAIT_FIRST, "    pass", "67.5"),
    Wrong("67.5", "received into the share", "comm.Irecv(arriving,", "comm.Irecv(share.copy(),",
          "a digit for each rank"),
    Wrong("67.5", "sent without the others' shares", _ADD,
          "    share, added = share.copy(), share + arriving", "add what has arrived"),
    Wrong("67.5", "returns nothing", _LAUNCH, _LAUNCH.replace("return ", "launched = "),
          "returns the list of the requests"),
]

RIGHT = [
    Right("67.1", "normalized, with the log-sum-exp", [_LARGEST, _MINE, _ITS, _TOTAL, _MERGED], [
        "    sums = [part.largest + part.total.log() for part in (one, other)]",
        "    largest = torch.logaddexp(*sums)",
        "    shares = [(log_sum - largest).exp() for log_sum in sums]",
        "    outputs = [one.weighted / one.total.clamp(1e-30), other.weighted / other.total.clamp(1e-30)]",
        "    mixed = shares[0] * outputs[0] + shares[1] * outputs[1]\n"
        "    return Partial(largest, torch.ones_like(largest), mixed)"]),
    Right("67.1", "stacked", [_LARGEST, _MINE, _ITS, _TOTAL, _MERGED], [
        "    largest = torch.stack([one.largest, other.largest])",
        "    top = largest.max(0).values",
        "    scale = (largest - top).exp()",
        "    total = (scale * torch.stack([one.total, other.total])).sum(0)",
        "    weighted = (scale * torch.stack([one.weighted, other.weighted])).sum(0)\n"
        "    return Partial(total=total, weighted=weighted, largest=top)"]),
    Right("67.2", "Isend first, keywords", _BOTH,
          "            sent = comm.Isend(buf=block, dest=right, tag=3)\n"
          "            requests = [sent, comm.Irecv(buf=room, source=left, tag=3)]"),
    Right("67.2", "the last visit outside, Waitall", [_LOOP, _IF, _BOTH, _VISIT, _WAITS, _NAMES], [
        "    from mpi4py import MPI\n\n    owner = comm.rank\n    for _ in range(comm.size - 1):",
        "        if True:",
        _BOTH,
        "        visit(block, owner)",
        "        MPI.Request.Waitall(requests)",
        "        owner = (owner - 1) % comm.size\n        block, room = room, block\n    visit(block, owner)"]),
    Right("67.3", "the late chunk first, a loop", [_ZIGZAG, _WORK], [
        "    return [2 * ranks - rank - 1, rank]",
        "    pairs = 0\n    for query in queries:\n        for key in keys:\n"
        "            if query == key:\n                pairs += 0.5\n"
        "            elif query > key:\n                pairs += 1\n    return pairs"]),
    Right("67.3", "from the middle, NumPy", [_ZIGZAG, _WORK], [
        "    import numpy as np\n\n    return np.array([ranks - 1 - rank, ranks + rank])",
        "    import numpy as np\n\n    difference = np.subtract.outer(queries, keys)\n    return np.heaviside(difference, 0.5).sum()"]),
    Right("67.4", "other orders", [_BYTES, _HIDES], [
        '    parts = 1 - 1 / ranks\n    return dict(zip(("Ulysses", "ring", "allgather"),'
        " (exchanged * parts, ranks * parts * block, block * ranks * parts)))",
        "    step = 2 * kv * size / bandwidth\n    return ranks * step / (2 * hidden / flops)"]),
    Right("67.5", "Waitall, added with [:]", [_WAIT_FIRST, _ADD], [
        "    from mpi4py import MPI\n\n    MPI.Request.Waitall(launched)", "    share[:] = arriving + share"]),
    Right("67.5", "requests popped, no tag", [_WAIT_FIRST, _LAUNCH], [
        "    while launched:\n        launched.pop().Wait()", _LAUNCH.replace(", tag=1", "")]),
    Right("67.5", "a new array is sent", [_ADD, _LAUNCH], [
        "    added = share + arriving",
        "    sent = comm.Isend(added, right, 1)\n    return [sent, comm.Irecv(arriving, left, 1)]"]),
]
# fmt: on
