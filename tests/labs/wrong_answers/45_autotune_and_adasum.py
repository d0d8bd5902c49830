"""Mistakes that learners make in lab 45, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"ranks_wanted": 2, "epochs": 1, "seeds": (0,), "values": 4096, "layers": 3, "width": 32}
SMALL |= {"steps": 3, "samples": 3, "rounds": 1}

OF_X = "1 - dot / (2 * (x @ x)) if x.any() else 1"
SWAP = "        comm.Sendrecv(mine, other, recvbuf=theirs, source=other)\n"
REFUSE = "    if comm.size & (comm.size - 1):\n"
LAYERS = "        for layer in layers:\n            mine[layer] = pair(mine[layer], theirs[layer])\n"
ROUNDS = "    for _ in range(rounds):\n        for setting in settings:\n            scores"

WRONG = [
    Wrong(
        "45.1",
        "the factor ½ is forgotten",
        old=["(2 * (x @ x))", "(2 * (y @ y))"],
        new=["(x @ x)", "(y @ y)"],
        says="Twice the same gradient",
    ),
    Wrong(
        "45.1",
        "always the mean",
        old="(of_x * x + of_y * y)",
        new="((x + y) / 2)",
        says="Orthogonal gradients (Adasum is their sum)",
    ),
    Wrong(
        "45.1",
        "each by the other's length",
        old="(2 * (x @ x))",
        new="(2 * (y @ y))",
        says="and three times it",
    ),
    Wrong(
        "45.1",
        "in float32",
        old="x, y = a.astype(np.float64), b.astype(np.float64)",
        new="x, y = a, b",
        says="Values of 1e25",
    ),
    Wrong("45.1", "zeros divide", old=OF_X, new="1 - dot / (2 * (x @ x))", says="0 and a gradient"),
    Wrong("45.1", "comes back as float64", old=".astype(a.dtype)", new="", says="float32 should come out"),
    Wrong(
        "45.1", "always float32", old=".astype(a.dtype)", new=".astype(np.float32)", says="float64 came in"
    ),
    Wrong("45.1", "comes back as a list", old=".astype(a.dtype)", new=".tolist()", says="not a list"),
    Wrong(
        "45.1",
        "beside zeros, the other gradient itself",
        old="    dot = x @ y\n",
        new="    dot = x @ y\n    if not x.any():\n        return b\n",
        says="return a new array",
    ),
    Wrong(
        "45.2",
        "any number of ranks",
        old=REFUSE,
        new="    if False:\n",
        says="With 3 ranks",
    ),
    Wrong(
        "45.2",
        "all layers as one",
        old=LAYERS,
        new="        mine = pair(mine, theirs)\n",
        says="taken for one",
    ),
    Wrong(
        "45.2",
        "a layer a message",
        old=[SWAP, LAYERS],
        new=[
            "",
            "        for layer in layers:\n"
            "            comm.Sendrecv(mine[layer], other, recvbuf=theirs[layer], source=other)\n"
            "            mine[layer] = pair(mine[layer], theirs[layer])\n",
        ],
        says="messages; recursive doubling sends",
    ),
    Wrong(
        "45.2",
        "distances 1, 2, 3",
        old="distance *= 2",
        new="distance += 1",
        says="each rank sent 3 messages",
    ),
    Wrong("45.2", "one swap only", old="distance *= 2", new="break", says="Adasum is wrong"),
    Wrong(
        "45.2",
        "in the caller's array",
        old="mine, theirs, distance = gradient.copy(),",
        new="mine, theirs, distance = gradient,",
        says="The gradient that was given is changed",
    ),
    Wrong(
        "45.2",
        "sends before it receives: right for short messages only",
        old=SWAP,
        new="        comm.Send(mine, other)\n        comm.Recv(theirs, other)\n",
        says="waits until its receive is called",
    ),
    Wrong(
        "45.3",
        "float16 is half everywhere",
        old="2 * n * doubling",
        new="2 * n * halving",
        says="bytes that a node",
    ),
    Wrong(
        "45.3",
        "Adasum swaps whole vectors",
        old='"Adasum": 4 * n * halving',
        new='"Adasum": 4 * n * doubling',
        says="bytes that",
    ),
    Wrong(
        "45.3",
        "the rest is forgotten",
        old='(sent["float16"] / rate + rest) / (sent["float32"] / rate + rest)',
        new='sent["float16"] / sent["float32"]',
        says="0.3 s of other work",
    ),
    Wrong(
        "45.4",
        "scores compared as text",
        old='float(row["score"]))\n',
        new='row["score"])\n',
        says="The best in this log",
    ),
    Wrong(
        "45.4", "whole scores", old='float(row["score"]))\n', new='int(float(row["score"])))\n', says="98.6"
    ),
    Wrong("45.4", "the last line is left out", old="max(rows,", new="max(list(rows)[:-1],", says="98.6"),
    Wrong(
        "45.4",
        "the score in place of the setting",
        old="max(settings, key=lambda setting: np.median(scores[setting]))",
        new="max(np.median(taken) for taken in scores.values())",
        says="expected one of the settings",
    ),
    Wrong("45.4", "a megabyte is a million", old="2**20)", new="1e6)", says="The best in this log"),
    Wrong(
        "45.4",
        "one lucky run decides",
        old="np.median(scores[setting])",
        new="max(scores[setting])",
        says="one lucky run of a slow one",
    ),
    Wrong(
        "45.4",
        "the worst run decides",
        old="np.median(scores[setting])",
        new="min(scores[setting])",
        says="one unlucky run of the best",
    ),
    Wrong(
        "45.4",
        "the last run decides",
        old="np.median(scores[setting])",
        new="scores[setting][-1]",
        says="one lucky run of a slow one",
    ),
    Wrong("45.4", "always 5 rounds", old="range(rounds)", new="range(5)", says="4 rounds of 3 settings"),
    Wrong(
        "45.4",
        "a setting at a time",
        old=ROUNDS,
        new="    for setting in settings:\n        for _ in range(rounds):\n            scores",
        says="In each round every setting",
    ),
]
