"""Mistakes that learners make in lab 44, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"workers": 2, "rounds": 1}

# fmt: off
RIGHT = [
    Right("44.1", "the spans in a defaultdict, NumPy numbers",
          ["    spans = {}  #", "spans.setdefault(rank, []).append((before, last))", "int(name)",
           "return {rank: lab44.covered(of_rank) for rank, of_rank in spans.items()}"],
          ["    from collections import defaultdict\n    spans = defaultdict(list)  #",
           "spans[rank] += [(before, last)]", "np.int64(name)",
           "return dict(zip(spans, map(lab44.covered, spans.values()), strict=True))"]),
    Right("44.1", "the last two by a slice, the union by a set of µs, all ranks, also those never last",
          ["before = seen[-2][0] if len(seen) > 1 else last",
           "lab44.covered(of_rank) for rank, of_rank in spans.items()"],
          ["before = seen[-2:][0][0]",
           "len({at for one in spans.get(rank, []) for at in range(*one)}) for rank in range(8)"]),
    Right("44.2", "messages all at once",
          ["        now += seconds(0)\n", """\
        for message in fuse(found, limit):
            now += seconds(sum(tensor.bytes for tensor in message))
            calls += 1
""", "now = max(now, look + cycle)"],
          ["        messages = fuse(found, limit)\n", """\
        now += seconds(0) + sum(seconds(sum(t.bytes for t in message)) for message in messages)
        calls = calls + len(messages)
""", "now = look + cycle if now < look + cycle else now"]),
    Right("44.2", "in NumPy numbers, and a list returned",
          ["    now = 0.0\n", "return end, calls"],
          ["    now = np.float64(0)\n", "return [end, np.int64(calls)]"]),
    Right("44.3", "a set of what is known as it is, by name kept apart",
          ["known = {}", "if not cached or known.get(tensor.name) != tensor]",
           "            known[tensor.name] = tensor\n"],
          ["known = set()", "if not (cached and tensor in known)]",
           "            known = {old for old in known if old.name != tensor.name} | {tensor}\n"]),
    Right("44.3", "counted in a loop, an array returned",
          ["new = [tensor for tensor in step if not cached or known.get(tensor.name) != tensor]",
           """\
        for tensor in new:
            known[tensor.name] = tensor
        counts.append(len(new))
""", "    return counts"],
          ["number = 0", """\
        for tensor in step:
            if not cached or tensor.name not in known or known[tensor.name] != tensor:
                number += 1
                known[tensor.name] = tensor
        counts.append(number)
""", "    return np.array(counts)"]),
]

WRONG = [
    Wrong("44.1", "time that three tensors wait at once is lost three times",
          "lab44.covered(of_rank)", "sum(last - before for before, last in of_rank)",
          "Tensors that wait at the same time lose that time once"),
    Wrong("44.1", "one span from first to last",
          "lab44.covered(of_rank)", "max(last for _, last in of_rank) - min(first for first, _ in of_rank)",
          "between its negotiations nobody waits"),
    Wrong("44.1", "only the last negotiation of a rank",
          "spans.setdefault(rank, []).append((before, last))", "spans[rank] = [(before, last)]",
          "A rank may be last in several negotiations"),
    Wrong("44.1", "charged since the first rank, whoever else was late",
          "seen[-2][0] if len(seen) > 1 else last", "seen[0][0]", "Charged from the first X on"),
    Wrong("44.1", "charged since the second rank",
          "seen[-2][0] if len(seen) > 1 else last", "seen[1][0] if len(seen) > 2 else seen[0][0]",
          "not always seen[1]"),
    Wrong("44.1", "the marks of all tensors in one list",
          ["ticks.setdefault(tensor, [])", "tensor in ticks", "ticks.pop(tensor)"],
          ["ticks.setdefault(0, [])", "0 in ticks", "ticks.pop(0)"],
          'charge(lab44.made_up("a and b, then c"))'),
    Wrong("44.1", "a rank alone has nobody before it",
          " if len(seen) > 1 else last", "", "A negotiation with one X: IndexError"),
    Wrong("44.1", "up to the end of the negotiation", "append((before, last))",
          "append((before, when))", "A span ends at the last X"),
    Wrong("44.1", "a rank alone has waited since 0",
          " if len(seen) > 1 else last", " if len(seen) > 1 else -9", "One rank alone waits for nobody"),
    Wrong("44.1", "a rank is a word",
          "append((when, int(name)))", "append((when, name))", "a rank is a number here, not a string"),
    Wrong("44.1", "rank 0 is never late", "spans.setdefault(rank, []).append((before, last))",
          "spans.setdefault(rank, []).append((before, last if rank else before))",
          "expected 3 at [0], got 0"),
    Wrong("44.1", "uses up the lines", "    for when, tensor, kind, name in lines:\n        if kind == ",
          "    while lines:\n        when, tensor, kind, name = lines.pop(0)\n        if kind == ",
          "The timeline that `charge` got was changed"),
    Wrong("44.2", "looks cost nothing",
          "        now += seconds(0)\n", "", "end of the step: expected 3, got 2"),
    Wrong("44.2", "takes what becomes ready during the look",
          ["if tensor.ready <= look]", "if tensor.ready > look]"],
          ["if tensor.ready <= look + seconds(0)]", "if tensor.ready > look + seconds(0)]"],
          "expected 6, got 5, off by 1 (16.67%). Cycles begin at 0, 1, 2 and 3"),
    Wrong("44.2", "a cycle from the end of a look on",
          "look + cycle)", "look + seconds(0) + cycle)", "end of the step: expected 23, got 25"),
    Wrong("44.2", "only the second cycle comes on time",
          "look + cycle)", "cycle)", "the third finds a"),
    Wrong("44.2", "the pause after the messages, not from look to look",
          "now = max(now, look + cycle)", "now += cycle", "end of the step"),
    Wrong("44.2", "a look that comes late waits for the next tick",
          "now = max(now, look + cycle)", "now = max(look + cycle, -(-now // cycle) * cycle)",
          "end of the step: expected 14, got 15"),
    Wrong("44.2", "the thread sleeps until the next gradient",
          "now = max(now, look + cycle)", "now = max([now, look + cycle, *(t.ready for t in left[:1])])",
          "end of the step: expected 23, got 15"),
    Wrong("44.2", "the large ones first", "in fuse(found, limit)",
          "in fuse(sorted(found, key=lambda t: -t.bytes), limit)", "expected 22, got 21"),
    Wrong("44.2", "a look that finds nothing costs nothing",
          "        now += seconds(0)\n", "        now += seconds(0) if found else 0\n",
          "even if it finds nothing"),
    Wrong("44.2", "takes the gradients from the caller's list",
          "        end = now\n", "        end = now\n        gradients[:] = left\n",
          "The list of gradients that `step_time` got was changed"),
    Wrong("44.2", "what was sent is sent again",
          "        left = [tensor for tensor in left if tensor.ready > look]\n", "",
          "step_time does not end"),
    Wrong("44.2", "waits for the next look at the end",
          "    return end, calls", "    return now, calls", "end of the step: expected 3, got 10"),
    Wrong("44.2", "counts tensors, not messages",
          "calls += 1", "calls += len(message)", "messages: expected 1, got 2"),
    Wrong("44.3", "known by its name alone",
          "known.get(tensor.name) != tensor]", "tensor.name not in known]", "Steps a:4 b:4 | a:8 b:4"),
    Wrong("44.3", "known by bytes and type, whatever the name",
          "known.get(tensor.name) != tensor]", "tensor[1:] not in [old[1:] for old in known.values()]]",
          "expected 1 at [3], got 0. a's bytes change twice"),
    Wrong("44.3", "known for ever, in whatever form it once was",
          ["known.get(tensor.name) != tensor]", "known[tensor.name] = tensor"],
          ["tensor not in known]", "known[tensor] = tensor"],
          "Steps a:4 b:4 | a:8 b:4 | a:8 b:4 | a:4 b:4, with a cache: expected 1 at [3], got 0"),
    Wrong("44.3", "only the last step is known",
          "        for tensor in new:\n            known[tensor.name] = tensor\n",
          "        known = {tensor.name: tensor for tensor in step}\n",
          "What is not used for a step is still known"),
    Wrong("44.3", "no cache is a cache", "not cached or known.get", "known.get",
          "Without a cache, all tensors of each step"),
    Wrong("44.3", "no cache, as many as in the first step",
          "counts.append(len(new))", "counts.append(len(new) if cached else len(steps[0]))",
          "expected 1 at [1], got 2. Without a cache"),
    Wrong("44.3", "one new tensor, and all are asked about",
          "counts.append(len(new))", "counts.append(len(step) if new else 0)", "expected 1 at [1], got"),
    Wrong("44.3", "all so far", "counts.append(len(new))", "counts.append(len(new) + sum(counts))",
          "expected 0 at [1], got 2"),
    Wrong("44.3", "empties the steps",
          "        counts.append(len(new))", "        counts.append(len(new))\n        step.clear()",
          "The list of steps that `asked` got was changed"),
]
