"""Mistakes that learners make in lab 15, each with the words that its rejection must hold."""

from tests.wrong_answers import Wrong

SMALL = {
    "images": 96,
    "side": 64,
    "shards": 8,
    "rounds": 5,
    "latency": 1e-3,
    "width": 8,
    "shares": (1, 2),
    "loader_workers": 0,
    "repeats": 1,
}

ORDER = "np.random.default_rng((seed, epoch)).permutation(n)[: n - n % ranks]"
YIELD = """                yield part["jpg"], int(part["cls"])
                part = {}"""

WRONG = [
    Wrong(
        "15.1", "each rank has a seed of its own", "(seed, epoch)", "(seed, epoch, rank)", "more than once"
    ),
    Wrong("15.1", "nothing dropped: some ranks read one more", "[: n - n % ranks]", "", "all need as many"),
    Wrong(
        "15.1",
        "always the last samples are dropped",
        ORDER,
        "np.random.default_rng((seed, epoch)).permutation(n - n % ranks)",
        "nobody reads samples",
    ),
    Wrong("15.1", "each worker reads all of the rank's", "[worker::workers]", "", "more than once"),
    Wrong(
        "15.1",
        "an epoch is the one before, moved on",
        ORDER,
        "np.roll(np.random.default_rng(seed).permutation(n), epoch)[: n - n % ranks]",
        "who follows whom",
    ),
    Wrong("15.2", "wants to go back in the stream", '"r|"', '"r:"', "only goes forward"),
    Wrong(
        "15.2",
        "all samples of a shard at once",
        ["    part = {}\n    with", YIELD],
        [
            "    part, found = {}, []\n    with",
            '                found.append((part["jpg"], int(part["cls"])))\n'
            "                part = {}\n        yield from found",
        ],
        "the whole shard",
    ),
    Wrong(
        "15.2",
        "a sample ends where its label is",
        "if len(part) == 2:",
        'if kind == "cls":',
        "KeyError",
    ),
    Wrong(
        "15.2",
        "parts of the sample before are kept",
        YIELD,
        '                yield part["jpg"], int(part["cls"])',
        "samples of a shard",
    ),
    Wrong("15.2", "the label's first digit", 'int(part["cls"])', 'int(part["cls"][:1])', "a whole number"),
    Wrong("15.2", "by the last dot", '.split(".", 1)[1]', '.split(".")[-1]', "not the image's bytes"),
    Wrong(
        "15.2", "the image decoded", 'yield part["jpg"]', 'yield inputs.decode(part["jpg"])', "as they are"
    ),
    Wrong("15.2", "all members first", "in tar:", "in tar.getmembers():", "passes by once"),
    Wrong("15.3", "the rest is lost", "    yield from held", "    return", "items never come out"),
    Wrong(
        "15.3", "the rest is not shuffled", "    rng.shuffle(held)\n", "", "seeds 1 and 2 give the same order"
    ),
    Wrong("15.3", "all is read first", "len(held) < size", "True", "items are held"),
    Wrong(
        "15.3",
        "the last place is never chosen",
        "rng.integers(size)",
        "rng.integers(max(1, size - 1))",
        "is first 0 times",
    ),
    Wrong(
        "15.3",
        "a new generator for each item: always the same place",
        "place = rng.integers(size)",
        "place = np.random.default_rng(seed).integers(size)",
        "from one generator",
    ),
    Wrong(
        "15.3",
        "pairs become an array",
        "    rng.shuffle(held)\n    yield from held",
        "    yield from rng.permutation(held)",
        "Give items out as they came",
    ),
    Wrong(
        "15.4",
        "all is read before the first item comes out",
        "            for item in items:",
        "            for item in list(items):",
        "no bound",
    ),
    Wrong(
        "15.4",
        "an error ends the thread, unseen",
        '            ready.put(("error", error))',
        "            print(error)",
        "waits for ever",
    ),
    Wrong(
        "15.4",
        "the thread stays",
        "            while not ready.empty():\n                ready.get()\n            thread.join(0.01)",
        "            break",
        "a thread is left behind",
    ),
    Wrong(
        "15.4",
        "the queue emptied once: there is room for the last item, but not for the end",
        "        while thread.is_alive():\n            while not ready.empty():\n"
        "                ready.get()\n            thread.join(0.01)",
        "        while not ready.empty():\n            ready.get()",
        "a thread is left behind",
    ),
    Wrong(
        "15.4",
        "waits for a thread that waits for the queue",
        "            while not ready.empty():\n                ready.get()\n",
        "",
        "close() waits for ever",
    ),
]
