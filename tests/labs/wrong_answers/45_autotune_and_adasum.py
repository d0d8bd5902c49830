"""Mistakes that learners make in lab 45, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"ranks_wanted": 2, "epochs": 1, "seeds": (0,), "values": 4096, "layers": 3, "width": 32}
SMALL |= {"steps": 3, "samples": 3, "rounds": 1, "rates": (0.05, 0.125)}

OF_X = "1 - dot / (2 * (x @ x)) if x.any() else 1"
SWAP = "        comm.Sendrecv(mine, other, recvbuf=theirs, source=other)\n"
REFUSE = "    if comm.size & (comm.size - 1):\n"
LAYERS = "        for layer in layers:\n            mine[layer] = pair(mine[layer], theirs[layer])\n"
ROUNDS = "    for _ in range(rounds):\n        for setting in settings:\n            scores"

# fmt: off
WRONG = [
    Wrong("45.1", "the factor ½ is forgotten",
          ["(2 * (x @ x))", "(2 * (y @ y))"], ["(x @ x)", "(y @ y)"], "Twice the same gradient"),
    Wrong("45.1", "always the mean",
          "(of_x * x + of_y * y)", "((x + y) / 2)", "Orthogonal gradients (Adasum is their sum)"),
    Wrong("45.1", "each by the other's length", "(2 * (x @ x))", "(2 * (y @ y))", "and three times it"),
    Wrong("45.1", "in float32",
          "x, y = a.astype(np.float64), b.astype(np.float64)", "x, y = a, b", "Values of 1e25"),
    Wrong("45.1", "zeros divide", OF_X, "1 - dot / (2 * (x @ x))", "0 and a gradient"),
    Wrong("45.1", "comes back as float64", ".astype(a.dtype)", "",
          "type of the result (as of what came in): expected 'float32', got 'float64'"),
    Wrong("45.1", "always float32", ".astype(a.dtype)", ".astype(np.float32)",
          "type of the result (as of what came in): expected 'float64', got 'float32'"),
    Wrong("45.1", "comes back as a list", ".astype(a.dtype)", ".tolist()", "not a list"),
    Wrong("45.1", "beside zeros, the other gradient itself", "    dot = x @ y\n", """\
    dot = x @ y
    if not x.any():
        return b
""", "return a new array"),
    Wrong("45.2", "any number of ranks", REFUSE, "    if False:\n", "With 3 ranks"),
    Wrong("45.2", "all layers as one", LAYERS, "        mine = pair(mine, theirs)\n",
          "All layers were taken for one: each has its own dot product"),
    Wrong("45.2", "a layer a message", [SWAP, LAYERS], ["", """\
        for layer in layers:
            comm.Sendrecv(mine[layer], other, recvbuf=theirs[layer], source=other)
            mine[layer] = pair(mine[layer], theirs[layer])
"""], "messages; recursive doubling sends"),
    Wrong("45.2", "distances 1, 2, 3", "distance *= 2", "distance += 1", "each rank sent 3 messages"),
    Wrong("45.2", "one swap only", "distance *= 2", "break", "4 ranks, layers: 1: Adasum on rank 0"),
    Wrong("45.2", "in the caller's array",
          "mine = gradient.copy()", "mine = gradient", "The gradient was changed"),
    Wrong("45.2", "sends before it receives: right for short messages only",
          SWAP, "        comm.Send(mine, other)\n        comm.Recv(theirs, other)\n",
          "waits until its receive is called"),
    Wrong("45.3", "float16 is half everywhere", "2 * n * doubling", "2 * n * halving", "bytes that a node"),
    Wrong("45.3", "Adasum swaps whole vectors",
          '"Adasum": 4 * n * halving', '"Adasum": 4 * n * doubling', "bytes that"),
    Wrong("45.3", "float16 for one way only",
          '"Adasum, float16": 2 * n', '"Adasum, float16": 4 * n', "bytes that a node sends"),
    Wrong("45.4", "the score in place of the setting",
          "max(settings, key=lambda setting: np.median(scores[setting]))",
          "max(np.median(taken) for taken in scores.values())", "expected one of the settings"),
    Wrong("45.4", "one lucky run decides",
          "np.median(scores[setting])", "max(scores[setting])", "one lucky run of a slow one"),
    Wrong("45.4", "the worst run decides",
          "np.median(scores[setting])", "min(scores[setting])", "one unlucky run of the best"),
    Wrong("45.4", "the last run decides",
          "np.median(scores[setting])", "scores[setting][-1]", "one lucky run of a slow one"),
    Wrong("45.4", "always 5 rounds", "range(rounds)", "range(5)", "4 rounds of 3 settings"),
    Wrong("45.4", "a setting at a time", ROUNDS, """\
    for setting in settings:
        for _ in range(rounds):
            scores""", "In each round every setting"),
]
