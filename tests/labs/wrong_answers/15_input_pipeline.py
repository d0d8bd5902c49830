"""Mistakes that learners make in lab 15, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"images": 96, "side": 64, "shards": 8, "rounds": 5, "latency": 1e-3}

ORDER = "np.random.default_rng((seed, epoch)).permutation(n)[: n - n % ranks]"
SPLIT = 'name, kind = member.name.split(".", 1)'

# fmt: off
WRONG = [
    Wrong("15.1", "each rank has a seed of its own",
          "(seed, epoch)", "(seed, epoch, rank)", "more than once"),
    Wrong("15.1", "nothing dropped: some ranks read one more", "[: n - n % ranks]", "", "all need as many"),
    Wrong("15.1", "always the last samples are dropped",
          ORDER, "np.random.default_rng((seed, epoch)).permutation(n - n % ranks)", "nobody reads samples"),
    Wrong("15.1", "each worker reads all of the rank's", "[worker::workers]", "", "more than once"),
    Wrong("15.1", "an epoch is the one before, moved on",
          ORDER, "np.roll(np.random.default_rng(seed).permutation(n), epoch)[: n - n % ranks]",
          "who follows whom"),
    Wrong("15.1", "two orders in turns", "(seed, epoch)", "(seed, epoch % 2)", "Epochs 0 and 2"),
    Wrong("15.1", "ten seeds, then they come again", "(seed, epoch)", "10 * seed + epoch",
          "has the order of seed 0 in epoch 10"),
    Wrong("15.1", "each rank shuffles a part of its own", [ORDER, "order[rank::ranks][worker"], ["""\
np.roll(np.arange(n), epoch)[: n - n % ranks][rank::ranks]
    np.random.default_rng((seed, epoch, rank)).shuffle(order)""", "order[worker"],
          "stay together on one rank"),
    Wrong("15.2", "wants to go back in the stream", '"r|"', '"r:"', "only goes forward"),
    Wrong("15.2", "all samples of a shard at once",
          ["sample, part = None, {}", 'yield part["jpg"], int(part["cls"])'],
          ["found, sample, part = [], None, {}",
           'found.append((part["jpg"], int(part["cls"])))\n        yield from found'],
          "the whole shard"),
    Wrong("15.2", "files with one name, wherever they stand",
          ["sample, part = None, {}", "if name != sample:\n                sample, part = name, {}"],
          ["parts = {}", "part = parts.setdefault(name, {})"], "side by side"),
    Wrong("15.2", "a sample ends where its label is", "if len(part) == 2:", 'if kind == "cls":', "KeyError"),
    Wrong("15.2", "parts of the sample before are kept", "sample, part = name, {}", "pass", "samples of a"),
    Wrong("15.2", "two parts are a sample, whatever their names",
          ["sample, part = name, {}", 'int(part["cls"])'],
          ["pass", 'int(part["cls"])\n                    part = {}'], "neighbour's label"),
    Wrong("15.2", "names have six digits",
          SPLIT, "name, kind = member.name[:6], member.name[7:]", "any length"),
    Wrong("15.2", "the label as a float", 'int(part["cls"])', 'float(part["cls"])', "no whole number"),
    Wrong("15.2", "the label's first digit", 'int(part["cls"])', 'int(part["cls"][:1])', "a whole number"),
    Wrong("15.2", "by the last dot",
          SPLIT, 'name, kind = member.name.split(".")[0], member.name.split(".")[-1]',
          "not the image's bytes"),
    Wrong("15.2", "the image decoded",
          'yield part["jpg"]', 'yield lab15.decode(part["jpg"])', "as they are"),
    Wrong("15.2", "all members first", "in tar:", "in tar.getmembers():", "passes by once"),
    Wrong("15.3", "the rest is lost", "    yield from held", "    return", "items never come out"),
    Wrong("15.3", "the rest is not shuffled",
          "    rng.shuffle(held)\n", "", "seeds 1 and 2 give the same order"),
    Wrong("15.3", "all is read first", "len(held) < size", "True", "items are held"),
    Wrong("15.3", "the last place is never chosen",
          "rng.integers(size)", "rng.integers(max(1, size - 1))", "is first 0 times"),
    Wrong("15.3", "a new generator for each item: always the same place",
          "place = rng.integers(size)", "place = np.random.default_rng(seed).integers(size)",
          "from one generator"),
    Wrong("15.3", "pairs become an array",
          "    rng.shuffle(held)\n    yield from held", "    yield from rng.permutation(held)",
          "Give items out as they came"),
    Wrong("15.3", "the generator that all share", ["np.random.default_rng(seed), []", "rng.integers(size)"],
          ["np.random, []\n    np.random.seed(seed)", "rng.randint(size)"], "Two streams"),
    Wrong("15.3", "a second loop over the items goes on where the first ended",
          "    for item in items:", "    held = list(itertools.islice(items, size))\n    for item in items:",
          "begins anew"),
]
