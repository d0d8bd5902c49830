"""Mistakes that learners make in lab 15, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "images": 96,
    "side": 64,
    "shards": 8,
    "rounds": 2,
    "latency": 1e-3,
    "width": 8,
    "shares": (0.5, 2),
    "steps": 5,
    "repeats": 1,
}

ORDER = "np.random.default_rng((seed, epoch)).permutation(n)[: n - n % ranks]"
SPLIT = 'name, kind = member.name.split(".", 1)'

# fmt: off
WRONG = [
    Wrong("15.1", "each rank has a seed of its own",
          "(seed, epoch)", "(seed * (rank + 1), epoch * (rank + 1))", "more than once"),
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
    Wrong("15.1", "the numbers as floats", "[worker::workers]", "[worker::workers].astype(float)",
          "whole numbers; these are float64"),
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
    Wrong("15.2", "a label of 0 is none", "if len(part) == 2:",
          'if len(part) == 2 and int(part["cls"]):', "Sample 0 of them is missing"),
    Wrong("15.2", "two parts are a sample, whatever their names",
          ["sample, part = name, {}", 'int(part["cls"])'],
          ["pass", 'int(part["cls"])\n                    part = {}'], "neighbor's label"),
    Wrong("15.2", "the last sample is taken for a whole one", [
          "name != sample:", '            if kind in ("jpg", "cls"):\n                part[kind]',
          "                if len(part) == 2:\n            "], [
          'name != sample:\n                if {"jpg", "cls"} <= set(part):\n'
          '                    yield part["jpg"], int(part["cls"])', "            part[kind]", ""], "KeyError"),
    Wrong("15.2", "looks at the parts after every file",
          "                if len(part) == 2:\n                    yield",
          "            if len(part) == 2:\n                yield", "came twice"),
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
    Wrong("15.3", "no end", '        ready.put(("end", None))\n', "", "what is in the queue"),
    Wrong("15.3", "items alone", 'ready.put(("item", item))', "ready.put(item)", "what is in the queue"),
    Wrong("15.3", "None is taken for the end",
          'if kind == "end":', "if value is None:", "take of these pairs"),
    Wrong("15.3", "the end is yielded", """\
        if kind == "end":
            return
""", """\
        if kind == "end":
            yield value
            return
""", "take of these pairs"),
    Wrong("15.3", "never looks at stop", "if stop.is_set():", "if False:",
          "stop is set before item 0"),
    Wrong("15.3", "looks at stop once",
          ["        for item in items:\n            if stop.is_set():\n                return\n"],
          ["        if stop.is_set():\n            return\n        for item in items:\n"],
          "Look at `stop` before each put"),
    Wrong("15.3", "a queue that is empty for a second is taken for the end",
          "        kind, value = ready.get()\n", """\
        try:
            kind, value = ready.get(timeout=1)
        except queue.Empty:
            return
""", "get waits as long as that"),
    Wrong("15.3", "an empty queue is taken for the end", "while True:\n        kind, value",
          "while not ready.empty():\n        kind, value", "An empty queue is not the end"),
    Wrong("15.3", "the end is where the queue is empty after an item",
          "        yield value\n", "        yield value\n        if ready.empty():\n            return\n",
          "An empty queue is not the end"),
    Wrong("15.3", "some errors only",
          "except Exception as error", "except OSError as error", "Put any error, as Exception"),
    Wrong("15.3", "gives up when the queue stays full",
          'ready.put(("item", item))', 'ready.put(("item", item), timeout=5)', "put waits as long as that"),
    Wrong("15.3", "gives up when no batch comes",
          "ready.get()\n        if kind", "ready.get(timeout=5)\n        if kind",
          "get waits as long as that"),
    Wrong("15.3", "all is read before the first item comes out",
          "for item in items:", "for item in list(items):", "Put each as soon as it is read"),
    Wrong("15.3", "an error ends the thread, unseen",
          'ready.put(("error", error))', "print(error)", 'The error is put instead of'),
    Wrong("15.3", "the error is yielded", "raise value", "yield value", "waits forever"),
    Wrong("15.3", "an error is taken for the end",
          "raise value", "return", "own error must come out of take"),
    Wrong("15.3", "another error is raised", "raise value", "raise RuntimeError(str(value))",
          "RuntimeError came instead"),
    Wrong("15.3", "an end behind an error, too", """\
        ready.put(("end", None))
    except Exception as error:
        ready.put(("error", error))
""", """\
    except Exception as error:
        ready.put(("error", error))
    ready.put(("end", None))
""", "The error is put instead of"),
    Wrong("15.4", "the bandwidth of all by heart", "together / ranks", "100 / ranks", "together 50 B/s"),
    Wrong("15.4", "never below all", "max(0.0, read - compute)", "read",
          "It goes on while the step computes"),
    Wrong("15.4", "below 0", "max(0.0, read - compute)", "read - compute", "cannot wait less than 0"),
    Wrong("15.4", "the whole step", "max(0.0, read - compute)", "max(read, compute)", "whole time"),
    Wrong("15.4", "the other way round", "if ahead", "if not ahead", "no prefetch: expected"),
    Wrong("15.4", "the wider pipe", "min(own", "max(own", "narrower pipe"),
    Wrong("15.4", "a rank's own bandwidth forgotten", "min(own, together / ranks)",
          "(own if ranks == 1 else together / ranks)", "ranks: 6"),
    Wrong("15.4", "each gets all", "together / ranks", "together", "each gets an equal part"),
    Wrong("15.4", "whole seconds only", "nbytes /", "nbytes //", "1001 bytes"),
    Wrong("15.4", "no open", "latency + nbytes", "nbytes", "so add one latency"),
    Wrong("15.4", "an open after the other",
          "latency + nbytes", "ranks * latency + nbytes", "so add one latency"),
]

RIGHT = [
    Right("15.1", "neighbours in the order belong to one rank, as lists",
          [ORDER, "return order[rank::ranks][worker::workers]"],
          ["np.random.default_rng((epoch, seed)).permutation(n)\n"
           "    own = order[rank * (n // ranks) :][: n // ranks]",
           "return np.array_split(own, workers)[worker].tolist()"]),
    Right("15.1", "shuffled in place, reshaped", [ORDER, "order[rank::ranks][worker"],
          ["np.arange(n)\n    np.random.default_rng([seed, epoch]).shuffle(order)",
           "order[: n // ranks * ranks].reshape(-1, ranks)[:, rank][worker"]),
    Right("15.2", "all files of a sample are gathered, and looked at when the next one begins", """\
            if name != sample:
                sample, part = name, {}
            if kind in ("jpg", "cls"):
                part[kind] = tar.extractfile(member).read()
                if len(part) == 2:
                    yield part["jpg"], int(part["cls"])""", """\
            if name != sample:
                if {"jpg", "cls"} <= set(part):
                    yield part["jpg"], int(part["cls"])
                sample, part = name, {}
            part[kind] = tar.extractfile(member).read()
        if {"jpg", "cls"} <= set(part):
            yield part["jpg"], int(part["cls"])
"""),
    Right("15.2", "a list of two, the label as a NumPy number, partition", [
          SPLIT, 'yield part["jpg"], int(part["cls"])'], [
          'name, _, kind = member.name.partition(".")',
          'yield [part["jpg"], np.int64(part["cls"].decode())]']),
    Right("15.3", "each item is told to be done", "ready.get()\n        if kind",
          "ready.get()\n        ready.task_done()\n        if kind"),
    Right("15.3", "an iterator by hand, a match of kinds", [
          "        for item in items:\n            if stop.is_set():\n                return\n"
          '            ready.put(("item", item))\n        ready.put(("end", None))\n'], [
          "        items = iter(items)\n        while not stop.is_set():\n            try:\n"
          "                item = next(items)\n            except StopIteration:\n"
          '                ready.put(("end", None))\n                return\n'
          "            if not stop.is_set():\n"
          '                ready.put(item=("item", item), block=True)\n']),
    Right("15.3", "until the end, the error last", """\
    while True:
        kind, value = ready.get()
        if kind == "end":
            return
        if kind == "error":
            raise value
        yield value
""", """\
    kind, value = ready.get(block=True)
    while kind == "item":
        yield value
        kind, value = ready.get()
    if kind == "error":
        raise value
"""),
    Right("15.4", "NumPy numbers, and the slower of two", [
          "return max(0.0, read - compute) if ahead else read",
          "return latency + nbytes / min(own, together / ranks)"], [
          "return np.maximum(0, read - compute * ahead)",
          "return np.maximum(nbytes / own, nbytes * ranks / together) + latency"]),
    Right("15.4", "with if and else", "    return max(0.0, read - compute) if ahead else read\n", """\
    if not ahead:
        return read
    return read - compute if read > compute else 0
"""),
]
