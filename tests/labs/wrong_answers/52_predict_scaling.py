"""Mistakes that learners make in lab 52, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {}

RING = '2 * (p - 1) * (learned["round"] + nbytes / p * beta)'
HALVING = "2 * nbytes * (crossing * row.line + (p - 1) / p * learned[row.network])"
ARRIVES = "end = max(end, share * computing) + exchange(nbytes, row, learned)"
LATE = 'row.alone * (1 + learned["straggler"] * math.sqrt(2 * math.log(row.gpus)))'

# fmt: off
WRONG = [
    Wrong("52.1", "the example's round", 'rounds = 2 * math.log2(p) * learned["round"]',
          "rounds = 2 * math.log2(p) * 20e-6", "ms of 32 MB"),
    Wrong("52.1", "all bytes in each round", RING, RING.replace("nbytes / p", "nbytes"),
          "a part of n/p bytes is sent"),
    Wrong("52.1", "only there", RING, RING.replace("2 * (p - 1)", "(p - 1)"), "p - 1 rounds, too"),
    Wrong("52.1", "no rounds in a ring", RING, "2 * (p - 1) * nbytes / p * beta", "ms of 64 MB: expected"),
    Wrong("52.1", "software between nodes", "row.line + learned[row.network])\n    if",
          "row.line)\n    if", "hat the software adds to a byte is missing"),
    Wrong("52.1", "software inside", 'row.inside + learned["inside"]', "row.inside",
          "adds inside a node is missing"),
    Wrong("52.1", "the links one after the other", "max(beta, row.line + learned[row.network])",
          "beta + row.line + learned[row.network]", "Ring, 16 GPUs in 4 nodes: ms of 64 MB"),
    Wrong("52.1", "only the network", "max(beta, row.line + learned[row.network])",
          "row.line + learned[row.network]", "which is inside a node here"),
    Wrong("52.1", "a network in one node", "if row.nodes > 1:", "if True:",
          "no 'none', only"),
    Wrong("52.1", "a tree in one node", 'row.nodes == 1 or row.algorithm == "ring"',
          'row.algorithm == "ring"', "single node always uses the ring"),
    Wrong("52.1", "one way in the tree", "rounds + 2 * nbytes * beta", "rounds + nbytes * beta",
          "bytes go up and down"),
    Wrong("52.1", "bytes in each round of the tree", "rounds + 2 * nbytes * beta",
          "rounds + 2 * math.log2(p) * nbytes * beta", "hunks follow one another"),
    Wrong("52.1", "a card for each GPU", "row.per_node * (1 - 1 / row.nodes)", "1 - 1 / row.nodes",
          "share its NIC"),
    Wrong("52.1", "nothing stays in the node", "row.per_node * (1 - 1 / row.nodes)", "row.per_node",
          "part of the bytes stays in the node"),
    Wrong("52.1", "shared software", HALVING, "2 * nbytes * crossing * (row.line + learned[row.network])",
          "its own process"),
    Wrong("52.1", "nothing is returned", "return rounds + 2 * nbytes * (", "result = rounds + 2 * nbytes * (",
          "exchange returns None"),
    Wrong("52.1", "the network of the ring", "row.line + learned[row.network])\n    if",
          'row.line + learned["TCP"])\n    if', "software is that of row.network"),
    Wrong("52.1", "the network of halving", HALVING, HALVING.replace("row.network", '"host"'),
          "software is that of row.network"),
    Wrong("52.1", "always 16 GPUs", HALVING, HALVING.replace("(p - 1) / p", "15 / 16"),
          "Halving, 32 GPUs"),
    Wrong("52.1", "a link inside the node", HALVING,
          HALVING.replace("(crossing", "max(beta, crossing"), "no link inside a node"),
    Wrong("52.1", "servers in one node", 'row.nodes == 1 or row.algorithm == "ring"',
          'row.nodes == 1 and row.algorithm != "server" or row.algorithm == "ring"', "Server, 4 GPUs"),
    Wrong("52.1", "a number is taken out", 'rounds = 2 * math.log2(p) * learned["round"]',
          'rounds = 2 * math.log2(p) * learned.pop("round")', "belongs to the caller"),
    Wrong("52.1", "rounded up", "2 * math.log2(p)", "2 * math.ceil(math.log2(p))", "log₂ p is not rounded"),
    Wrong("52.2", "buckets that no straggler delays", ARRIVES, ARRIVES.replace("computing", "row.alone"),
          "do not delay the buckets"),
    Wrong("52.2", "the check's stragglers", 'learned["straggler"]', "0.02", "a step in s"),
    Wrong("52.2", "nothing hidden", ARRIVES, "end = max(end, computing) + exchange(nbytes, row, learned)",
          "during the backward pass"),
    Wrong("52.2", "buckets pass each other", ARRIVES,
          "end = max(end, share * computing + exchange(nbytes, row, learned))",
          "waits until the one before"),
    Wrong("52.2", "all at the beginning", ARRIVES, "end += exchange(nbytes, row, learned)", "a step in s"),
    Wrong("52.2", "no stragglers", LATE, "row.alone", "tragglers are missing"),
    Wrong("52.2", "weights come for nothing", 'if row.algorithm == "server" and row.nodes > 1:', "if False:",
          "weights are not sent back"),
    Wrong("52.2", "servers in one node", 'row.algorithm == "server" and row.nodes > 1',
          'row.algorithm == "server"', "n one node there are no servers"),
    Wrong("52.2", "no input", "max(computing, end, row.input)", "max(computing, end)",
          "not shorter than its input"),
    Wrong("52.2", "the weights in buckets", "exchange(sum(nbytes for _, nbytes in READY[row.net]), row, learned)",
          "sum(exchange(nbytes, row, learned) for _, nbytes in READY[row.net])", "back as one bucket"),
    Wrong("52.2", "the weights come after the input",
          ['    if row.algorithm == "server"', "return max(computing, end, row.input)"],
          ['    end = max(computing, end, row.input)\n    if row.algorithm == "server"', "return end"],
          "weights are sent back, too"),
    Wrong("52.2", "nothing is returned", "return max(computing", "result = max(computing",
          "step returns None"),
    Wrong("52.2", "the buckets are taken out", "for share, nbytes in READY[row.net]:",
          "for share, nbytes in [READY[row.net].pop(0) for _ in range(len(READY[row.net]))]:",
          "step changes READY"),
    Wrong("52.3", "the wrong way round",
          "return known, [row for row in rows if row.system not in seen]",
          "return [row for row in rows if row.system not in seen], known", "systems that are seen"),
    Wrong("52.3", "by rows", ["[row for row in rows if row.system in seen]",
                              "[row for row in rows if row.system not in seen]"], ["rows[::2]", "rows[1::2]"],
          "are on both sides"),
    Wrong("52.3", "the seen ones again", "[row for row in rows if row.system not in seen]", "rows",
          "are on both sides"),
    Wrong("52.3", "half of the unseen", "[row for row in rows if row.system not in seen]",
          "[row for row in rows if row.system not in seen][::2]", "rows on both sides"),
    Wrong("52.3", "seconds", "row.step / step(row, learned) - 1", "step(row, learned) / row.step - 1",
          "shorter step is more images"),
    Wrong("52.3", "no sign", "row.step / step(row, learned) - 1", "abs(row.step / step(row, learned) - 1)",
          "lost its sign"),
    Wrong("52.3", "a ratio", "row.step / step(row, learned) - 1", "row.step / step(row, learned)",
          "take 1 from it"),
    Wrong("52.3", "percent", "row.step / step(row, learned) - 1", "100 * (row.step / step(row, learned) - 1)",
          "their errors"),
    Wrong("52.3", "parts of names", ["row.system in seen]", "row.system not in seen]"],
          ["any(row.system in name for name in seen)]", "all(row.system not in name for name in seen)]"],
          "systems that are seen"),
    Wrong("52.3", "generators", "return known, [row for row in rows if row.system not in seen]",
          "return iter(known), (row for row in rows if row.system not in seen)", "two lists of rows"),
    Wrong("52.3", "the table, whatever is given", ["[row for row in rows if row.system in seen]",
                                              "[row for row in rows if row.system not in seen]"],
          ["[row for row in lab52.published() if row.system in seen]",
           "[row for row in lab52.published() if row.system not in seen]"], "once and unchanged"),
    Wrong("52.3", "one unseen row again and again", "[row for row in rows if row.system not in seen]",
          "[[row for row in rows if row.system not in seen][0]] * (len(rows) - len(known))",
          "once and unchanged"),
    Wrong("52.3", "taken out of the list",
          "return known, [row for row in rows if row.system not in seen]",
          "for row in known:\n        rows.remove(row)\n    return known, rows", "changes the list"),
    Wrong("52.3", "the error of the sum", "[row.step / step(row, learned) - 1 for row in rows]",
          "[sum(row.step for row in rows) / sum(step(row, learned) for row in rows) - 1] * len(rows)",
          "their errors"),
    Wrong("52.3", "from the last row", "learned) - 1 for row in rows]", "learned) - 1 for row in rows[::-1]]",
          "in the order of the rows"),
    Wrong("52.3", "two rows", "learned) - 1 for row in rows]", "learned) - 1 for row in rows[:2]]",
          "their errors"),
    Wrong("52.3", "rounded", "row.step / step(row, learned) - 1",
          "round(row.step / step(row, learned) - 1, 2)", "their errors"),
    Wrong("52.3", "the check's numbers", "row.step / step(row, learned) - 1",
          "row.step / step(row, lab52.LEARNED) - 1", "four times"),
]

RIGHT = [
    Right("52.1", "one return, by a dict of NumPy numbers", [
          "    rounds = 2 * math.log2(p)",
          "    if row.algorithm == \"tree\":\n        return rounds + 2 * nbytes * beta\n",
          "    return rounds + " + HALVING], [
          "    rounds = 2 * np.log2(p)", "    ways = {\"tree\": rounds + 2 * nbytes * beta}\n",
          "    ways[\"halving\"] = rounds + " + HALVING + "\n    return ways[row.algorithm]"]),
    Right("52.1", "nodes counted by hand, the larger by if", [
          "    if row.nodes > 1:\n        beta = max(beta, row.line + learned[row.network])"], [
          "    if p > row.per_node and row.line + learned[row.network] > beta:\n"
          "        beta = row.line + learned[row.network]"]),
    Right("52.2", "buckets by index, a NumPy maximum", [
          "    for share, nbytes in READY[row.net]:\n        " + ARRIVES, "max(computing, end, row.input)"], [
          "    for bucket in READY[row.net]:\n        begin = np.maximum(end, bucket[0] * computing)\n"
          "        end = begin + exchange(nbytes=bucket[1], row=row, learned=learned)",
          "np.max([computing, end, row.input])"]),
    Right("52.2", "what is left of each bucket behind the computing", [ARRIVES, "    end = 0\n"], [
          "end = share * computing + max(0, end - share * computing) + exchange(nbytes, row, learned)",
          "    end = 0.0\n"]),
    Right("52.3", "filter, and a tuple; errors as an array", [
          "    return known, [row for row in rows if row.system not in seen]",
          "return [row.step / step(row, learned) - 1 for row in rows]"], [
          "    return known, tuple(filter(lambda row: row.system not in set(seen), rows))",
          "return np.array([row.step for row in rows]) / [step(row, learned) for row in rows] - 1"]),
    Right("52.3", "two loops", ["    return known, [row for row in rows if row.system not in seen]"], [
          "    others = []\n    for row in reversed(rows):\n        if row.system not in seen:\n"
          "            others.append(row)\n    return [known, others]"]),
    Right("52.3", "one loop, images per second", [
          "return [row.step / step(row, learned) - 1 for row in rows]"], [
          "foretold = [row.images(step(row, learned)) for row in rows]\n"
          "    return [one / row.images(row.step) - 1 for one, row in zip(foretold, rows)]"]),
]
