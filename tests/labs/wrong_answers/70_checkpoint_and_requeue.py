"""Mistakes of learners in lab 70: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

# Three fifths of 40 steps are a whole epoch.
SMALL = {"last": 40, "every": 5, "kills": 5, "kilobytes": 64, "megabytes": 1, "repeat": 5}

_STOP = "any(training.comm.allgather(stopped()))"
_IF_SAVE = "if stop or due:"

# fmt: off
WRONG = [
    Wrong("70.1", "epoch and step exchanged", 'training.epoch = state["epoch"]\n    training.step',
          'training.step = state["epoch"]\n    training.epoch',
          "Captured after 5 steps, in the middle of an epoch, on rank 0: the position in the data"),
    Wrong("70.1", "the epoch begins anew", '    training.step = state["step"]\n', "    training.step = 0\n",
          "the position in the data is not as before"),
    Wrong("70.1", "rank 0's states for all", 'state["random"][comm.rank]', 'state["random"][0]',
          "on rank 1: PyTorch's random state (each rank has its own) is not as before"),
    Wrong("70.1", "rank 0's states saved for all", "comm.gather(own)", "[own] * comm.size",
          "on rank 1: PyTorch's random state"),
    Wrong("70.1", "no dropout", "    torch.set_rng_state(dropout)\n", "", "PyTorch's random state"),
    Wrong("70.1", "no noise", "    training.noise.bit_generator.state = noise", "    pass",
          "NumPy's random state"),
    Wrong("70.1", "the state in the generator's place", "training.noise.bit_generator.state = noise",
          "training.noise = noise", "assign training.noise.bit_generator.state"),
    Wrong("70.1", "every rank returns it", "    if comm.rank != 0:\n        return None\n", "",
          "and the others None"),
    Wrong("70.1", "the generator itself", "comm.gather(own)", "comm.gather((own[0], training.noise))",
          "cannot be stored and read again"),
    Wrong("70.1", "capture draws", "    everybody =", "    training.noise.normal()\n    everybody =",
          "has changed the training run"),
    Wrong("70.1", "another key", ['state["random"] = everybody', 'state["random"][comm.rank]'],
          ['state["states"] = everybody', 'state["states"][comm.rank]'], 'has no key "random"'),
    Wrong("70.1", "takes the random states out of the dict", 'state["random"][comm.rank]',
          'state.pop("random")[comm.rank]', "has changed the keys of the dict"),
    Wrong("70.2", "into the file itself", ["open(temporary", "    os.replace(temporary, path)\n"],
          ["open(path", ""], "the file is empty"),
    Wrong("70.2", "appends", '"wb"', '"ab"', "before or after it, what a killed save had left"),
    Wrong("70.2", "not emptied", 'open(temporary, "wb")',
          'os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT), "wb")',
          "before or after it, what a killed save had left"),
    Wrong("70.2", "a new file only", '"wb"', '"xb"', "FileExistsError"),
    Wrong("70.2", "no fsync", "        os.fsync(file.fileno())\n", "", "before os.replace"),
    Wrong("70.2", "fsync before flush", "        file.flush()\n        os.fsync(file.fileno())",
          "        os.fsync(file.fileno())\n        file.flush()", "after file.flush()"),
    Wrong("70.2", "no flush", "        file.flush()\n", "", "after file.flush()"),
    Wrong("70.2", "no fsync of the folder", "    os.fsync(folder)\n", "", "os.fsync of path.parent"),
    Wrong("70.2", "folder before the rename", [
        "    os.replace(temporary, path)\n", "    os.close(folder)"],
        ["", "    os.close(folder)\n    os.replace(temporary, path)"], "comes after os.replace"),
    Wrong("70.2", "no rename", "    os.replace(temporary, path)\n", "", "after a save that nobody killed"),
    Wrong("70.2", "removed first", "    os.replace(temporary, path)",
          "    path.unlink()\n    os.replace(temporary, path)", "the file is gone"),
    Wrong("70.2", "in another folder", 'path.with_name(path.name + ".new")',
          'Path(tempfile.gettempdir()) / f"{path.parent.name}.new"', "belongs in the folder of `path`"),
    Wrong("70.2", "a new name each time", 'path.with_name(path.name + ".new")',
          "Path(tempfile.mktemp(dir=path.parent))", "the same name each time"),
    Wrong("70.2", "the folder stays open", "    os.close(folder)", "", "os.close(folder) at the end"),
    Wrong("70.2", "the folder is closed too early", ["    os.fsync(folder)\n", "    os.close(folder)"],
          ["", "    os.close(folder)\n    os.fsync(folder)"], "Bad file descriptor"),
    Wrong("70.3", "the model first", "    if label is None or",
          "    if label and label['model'] != model:\n        return 'another model'\n"
          "    if label is None or",
          "of another network, too"),
    Wrong("70.3", "no label is not asked for", "label is None or ", "", "NoneType"),
    Wrong("70.3", "length not looked at", ' or len(payload) != label["bytes"]', "", "incomplete"),
    Wrong("70.3", "only too short", 'len(payload) != label["bytes"]', 'len(payload) < label["bytes"]',
          "twice"),
    Wrong("70.3", "no checksum", 'hashlib.sha256(payload).hexdigest() != label["sha256"]', "False",
          "one bit"),
    Wrong("70.3", "checksum of all", "hashlib.sha256(payload)", "hashlib.sha256(content)", "'damaged'"),
    Wrong("70.3", "digest, not its text", ".hexdigest()", ".digest()", "whole"),
    Wrong("70.3", "any model", 'label["model"] != model', "False", "a file of another network"),
    Wrong("70.3", "returns nothing", '    return "good"', "    pass", "None"),
    Wrong("70.4", "the 2 is missing", "math.sqrt(2 * save * mtbf)", "math.sqrt(save * mtbf)",
          "The 2 is missing"),
    Wrong("70.4", "no root", "math.sqrt(2 * save * mtbf)", "2 * save * mtbf", "its square"),
    Wrong("70.4", "a whole interval is lost", "every / (2 * mtbf)", "every / mtbf",
          "half an interval on average"),
    Wrong("70.4", "only the saves", " + every / (2 * mtbf)", "", "the saving alone"),
    Wrong("70.4", "only the repeating", "save / every + every", "every", "the repeating alone"),
    Wrong("70.4", "of the time with the save", "save / every", "save / (every + save)",
          "`save / every` is asked"),
    Wrong("70.4", "saves against the mtbf", "save / every", "save / mtbf", "the share that is lost"),
    Wrong("70.5", "the own flag", _STOP, "stopped()", "left alone waits for ever"),
    Wrong("70.5", "rank 0's flag", _STOP, "training.comm.bcast(stopped())", "steps done"),
    Wrong("70.5", "all must be asked", "any(training", "all(training", "steps done"),
    Wrong("70.5", "a single one is asked", _STOP, "training.comm.allreduce(stopped()) == 1",
          "rank 0 and rank 1 asked to stop during step 5: steps done"),
    Wrong("70.5", "no save at the stop", _IF_SAVE, "if due:",
          "saved after steps"),
    Wrong("70.5", "twice in a step", f"        {_IF_SAVE}\n            save(training)\n",
          f"        {_IF_SAVE}\n            save(training)\n        if stop:\n            save(training)\n",
          "saved after steps"),
    Wrong("70.5", "asks twice", "        if stop:\n            return",
          "        if any(training.comm.allgather(stopped())):\n            return", "more than once"),
    Wrong("70.5", "a save at the stop alone", "if stop or due:", "if stop:", "saved after steps"),
    Wrong("70.6", "sorts the step in the caller's order", "    step = order[done : done + batch]\n",
          "    step = order[done : done + batch]\n    step.sort()\n", "the array `order` was changed"),
    Wrong("70.6", "the ranks' places in the whole epoch", "return step[rank::ranks]",
          "return order[rank::ranks][done // ranks : (done + batch) // ranks]", "sample(s)"),
    Wrong("70.6", "everybody takes all", "return step[rank::ranks]", "return step", "computed by two ranks"),
    Wrong("70.6", "blocks that are cut off", "return step[rank::ranks]",
          "return step[rank * (len(step) // ranks) : (rank + 1) * (len(step) // ranks)]", "in no rank's part"),
    Wrong("70.6", "whole steps from the epoch's start", "order[done : done + batch]",
          "order[done // batch * batch :][:batch]", "5 of 47 samples done"),
    Wrong("70.6", "padded, as ElasticSampler", "return step[rank::ranks]",
          "return np.resize(step, -(-len(step) // ranks) * ranks)[rank::ranks]", "computed by two ranks"),
    Wrong("70.6", "batch for each rank", "order[done : done + batch]", "order[done : done + batch * ranks]",
          "do not belong to this step"),
    Wrong("70.6", "no return", "return step[rank::ranks]", "step[rank::ranks]",
          "Does the function return it?"),
    Wrong("70.6", "no return for keep", "return batch, rate\n", "keep = (batch, rate)\n        return None\n",
          "return two numbers"),
    Wrong("70.6", "the rate alone", "    return batch // first * ranks, rate * ranks / first",
          "    return rate * ranks / first", "return two numbers"),
    Wrong("70.6", "always keeps", "    return batch // first * ranks, rate * ranks / first",
          "    return batch, rate", "rescale: samples of a step"),
    Wrong("70.6", "always rescales", "    if keep:\n        return batch, rate\n", "",
          "keep: samples of a step"),
    Wrong("70.6", "not whole", "batch // first * ranks,", "batch / first * ranks,", "not a whole number"),
    Wrong("70.6", "the rate stays", "rate * ranks / first", "rate", "This is the old rate"),
    Wrong("70.6", "the other way round", "rate * ranks / first", "rate * first / ranks",
          "divided where it has to be multiplied"),
]

RIGHT = [
    Right("70.1", "a dict by rank, place by setattr", [
        "everybody = comm.gather(own)\n    if comm.rank != 0:\n        return None\n"
        '    state["random"] = everybody\n    return state',
        '    training.epoch = state["epoch"]\n    training.step = state["step"]\n'], [
        'state["random"] = comm.gather(own, root=0)\n    return state if comm.rank == 0 else None',
        '    for name in ("epoch", "step"):\n        setattr(training, name, state[name])\n']),
    Right("70.1", "allgather, and copies", [
        "comm.gather(own)", "torch.set_rng_state(dropout)"], [
        "comm.allgather(own)", "torch.set_rng_state(dropout.clone())"]),
    Right("70.2", "calls of the system, and a finally", """\
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
""", """\
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(number, content)
        os.fsync(number)
    finally:
        os.close(number)
"""),
    Right("70.2", "paths' methods, no buffer", [
        'with open(temporary, "wb") as file', "        file.flush()\n        os.fsync",
        "os.replace(temporary, path)"], [
        'with temporary.open("wb", buffering=0) as file', "        os.fdatasync",
        "temporary.replace(path)"]),
    Right("70.2", "renamed before the file is closed, and the same name for all files", [
        'path.with_name(path.name + ".new")', "    os.replace(temporary, path)\n",
        "        os.fsync(file.fileno())\n"], [
        'path.parent / "a.new"', "",
        "        os.fsync(file.fileno())\n        os.replace(temporary, path)\n"]),
    Right("70.2", "os.rename, suffix", [
        'path.with_name(path.name + ".new")', "os.replace(temporary, path)"], [
        'path.with_suffix(".tmp")', "os.rename(str(temporary), str(path))"]),
    Right("70.3", "nested, in another order of words", """\
    if label is None or len(payload) != label["bytes"]:
        return "incomplete"
""", """\
    if not label:
        return "incomplete"
    if not len(payload) == label.get("bytes"):
        return "incomplete"
"""),
    Right("70.3", "hashlib.new, one expression",
          'if hashlib.sha256(payload).hexdigest() != label["sha256"]:\n        return "damaged"\n'
          '    if label["model"] != model:\n        return "another model"\n    return "good"',
          'digest = hashlib.new("sha256", payload).digest().hex()\n'
          '    return ("damaged" if digest != label["sha256"]\n'
          '            else "good" if label["model"] == model else "another model")'),
    Right("70.4", "a power", "math.sqrt(2 * save * mtbf)", "(2 * save * mtbf) ** 0.5"),
    Right("70.4", "NumPy's root, one fraction",
          ["math.sqrt(2 * save * mtbf)", "save / every + every / (2 * mtbf)"],
          ["np.sqrt(2.0 * save * mtbf)", "(2 * save * mtbf + every**2) / (2 * every * mtbf)"]),
    Right("70.5", "allreduce of a number, save first",
          "stop = any(training.comm.allgather(stopped()))\n        if stop or due:",
          "stop = training.comm.allreduce(int(stopped())) > 0\n        if due or stop:"),
    Right("70.5", "break, and an array", [
        "any(training.comm.allgather(stopped()))", "        if stop:\n            return"], [
        "np.any(training.comm.allgather(stopped()))", "        if stop:\n            break"]),
    Right("70.6", "array_split, numbers of NumPy", [
        "return step[rank::ranks]", "return batch, rate\n"], [
        "return np.array_split(step, ranks)[rank]", "return np.int64(batch), np.float64(rate)\n"]),
    Right("70.6", "a list by a loop, a list of two", [
        "step = order[done : done + batch]\n    return step[rank::ranks]",
        "return batch // first * ranks, rate * ranks / first"], [
        "end = min(done + batch, len(order))\n"
        "    return [order[place] for place in range(done + rank, end, ranks)]",
        "each = batch // first\n    return [each * ranks, rate / first * ranks]"]),
]
# fmt: on
