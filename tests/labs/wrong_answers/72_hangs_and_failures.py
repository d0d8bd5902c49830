"""Mistakes of learners in lab 72: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"patience": 25}

_RANK = "rank = min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))"
_STEPS = "dist.all_reduce(fewest, op=dist.ReduceOp.MIN)"
_COPIES = "[nearby / file.name for file in files[:fewest]]"
_WANTED = '{name for other in everybody for name in other["statistics"]}'
_GATHER = "    dist.all_gather_object(everybody, batch)\n"
_ODD = "rank = min(range(len(kinds)), key=lambda rank: kinds.count(kinds[rank]))"
_FIRST = "first = min(ranks, key=lambda rank: notes[rank])"
_SUM = "    dist.all_reduce(gradient)\n"
_DECIDE = "return bool(torch.isfinite(gradient).all())"

# fmt: off
WRONG = [
    Wrong("72.1", "the most common line", _RANK, _RANK.replace("min(", "max("), "expected 0 at [0], got 1"),
    Wrong("72.1", "the innermost line", "stack[0].line", "stack[-1].line", "inside of a library"),
    Wrong("72.1", "whoever is not like rank 0", _RANK,
          "rank = next(rank for rank in range(len(lines)) if lines[rank] != lines[0])", "got 1"),
    Wrong("72.1", "the innermost lines are counted", _RANK,
          "inner = [stack[-1].line for stack in stacks]\n" + "    " + _RANK.replace("lines.count(lines", "inner.count(inner"),
          "expected 2 at [0], got 0"),
    Wrong("72.1", "whoever is not on the most common line", _RANK,
          "rank = next(rank for rank in range(len(lines)) if lines[rank] != max(lines, key=lines.count))",
          "expected 2 at [0], got 1"),
    Wrong("72.1", "the rank alone", "return rank, lines[rank]", "return rank", "(rank, line)"),
    Wrong("72.1", "the line of another", "return rank, lines[rank]", "return rank, lines[0]", "(rank, line)"),
    Wrong("72.1", "the smallest line", _RANK, "rank = lines.index(min(lines))", "(rank, line)"),
    Wrong("72.2", "the disk that is ill", _COPIES, "files[:fewest]", "has to use what is in `nearby`"),
    Wrong("72.2", "the log as it is", '(nearby / "log").open("w")', "log", "of epoch: print(number"),
    Wrong("72.2", "the table as it is", ', nearby / "table"', ", table", "of epoch: flock(lines"),
    Wrong("72.2", "each its own number of steps", f"    {_STEPS}\n", "", "as many copies as the shortest"),
    Wrong("72.2", "as many as the longest", "ReduceOp.MIN", "ReduceOp.MAX", "as many copies as the shortest"),
    Wrong("72.2", "as many as rank 0", _STEPS, "dist.broadcast(fewest, src=0)", "as many copies as the shortest"),
    Wrong("72.2", "one step", "files[:fewest]", "files[:1]", "a line for each"),
    Wrong("72.2", "the number is never exchanged", _STEPS, "fewest -= 1", "5 steps are possible"),
    Wrong("72.3", "calls alone, no lengths", "(call.call, call.numbers)", "call.call", "as if all calls matched"),
    Wrong("72.3", "numbers alone", "(call.call, call.numbers)", "call.numbers", "of as many numbers"),
    Wrong("72.3", "lines, too", "call.numbers) for", "call.numbers, call.line) for", "in line 8"),
    Wrong("72.3", "whoever is not like rank 0", _ODD,
          "rank = next(rank for rank in range(len(kinds)) if kinds[rank] != kinds[0])", "rank 0 reduces"),
    Wrong("72.3", "the last difference", [
        "            return rank, calls[rank].line\n    return None",
        "    for calls in"], [
        "            found = rank, calls[rank].line\n    return found",
        "    found = None\n    for calls in"], "a broadcast too many"),
    Wrong("72.3", "an answer where all calls fit", "calls[rank].line\n    return None",
          "calls[rank].line\n    return 0, calls[0].line", "and not None"),
    Wrong("72.3", "three ranks and no others", "for call in calls]", "for call in calls[:3]]", "Rank 3 reduces"),
    Wrong("72.3", "the most common call", _ODD, _ODD.replace("min(", "max("), "(rank, line)"),
    Wrong("72.3", "the line of rank 0", "calls[rank].line", "calls[0].line", "a broadcast too many"),
    Wrong("72.3", "the shortest list", _ODD, "rank = min(range(len(records)), key=lambda r: len(records[r]))",
          "(rank, line)"),
    Wrong("72.3", "where each rank waits now", "zip(*records, strict=False)",
          "[[record[-1] for record in records]]", "(rank, line)"),
    Wrong("72.4", "writes into the batch that it is given",
          '    return {"loss": max(other["loss"] for other in everybody), "statistics": sorted(wanted)}',
          '    batch.update(loss=max(other["loss"] for other in everybody), statistics=sorted(wanted))\n'
          '    return batch', "the batch was changed"),
    Wrong("72.4", "its own loss", 'max(other["loss"] for other in everybody)', 'batch["loss"]',
          "The losses by rank are"),
    Wrong("72.4", "a whole number", 'max(other["loss"] for other in everybody)',
          'int(max(other["loss"] for other in everybody))', "loss: expected 7.5"),
    Wrong("72.4", "its own statistics", _WANTED, 'batch["statistics"]', "Wanted are, by rank"),
    Wrong("72.4", "what all want", _WANTED,
          'set.intersection(*(set(other["statistics"]) for other in everybody))', "Wanted are, by rank"),
    Wrong("72.4", "as often as it is wanted", _WANTED,
          '[name for other in everybody for name in other["statistics"]]', "Wanted are, by rank"),
    Wrong("72.4", "in the order in which they come", f"wanted = {_WANTED}\n",
          'wanted = dict.fromkeys(name for other in everybody for name in other["statistics"])\n'
          "    sorted = list\n", "Wanted are, by rank"),
    Wrong("72.4", "asks the others only when it is in need", _GATHER,
          '    if batch["loss"] > 4.5:\n        dist.all_gather_object(everybody, batch)\n'
          "    else:\n        everybody = [batch]\n", "may decide alone"),
    Wrong("72.5", "Horovod's average", ["op=hvd.Sum, ", "total[:3] / total[3]"], ["", "total[:3]"],
          "Zeros of ranks that have joined"),
    Wrong("72.5", "the sum", "total[:3] / total[3]", "total[:3]", "This is the sum"),
    Wrong("72.5", "no zeros among the gradients", "torch.ones(1)", "gradient.any().float()[None]",
          "A gradient of zeros counts, too"),
    Wrong("72.5", "whole numbers", "/ total[3]", "// total[3]", "the average of step"),
    Wrong("72.5", "no join", "    hvd.join()\n", "", "without an end", hangs=True),
    Wrong("72.5", "one number for all three", "total[:3] / total[3]", "(total[:1] / total[3]).repeat(3)",
          "the average of step"),
    Wrong("72.5", "nothing is sent", "results.append(total[:3] / total[3])", "results.append(gradient)",
          "This is its own gradient"),
    Wrong("72.5", "the first gradients only", "enumerate(gradients)", "enumerate(gradients[:1])", "averages"),
    Wrong("72.6", "the last", _FIRST, _FIRST.replace("min(", "max("), "(rank, line)"),
    Wrong("72.6", "lines without steps", _FIRST, "first = min(ranks, key=lambda rank: notes[rank][1])",
          "(rank, line)"),
    Wrong("72.6", "a sum that only short lines allow", _FIRST,
          "first = min(ranks, key=lambda rank: 10 * notes[rank][0] + notes[rank][1])", "(rank, line)"),
    Wrong("72.6", "the step, not the line", "notes[first][1]", "notes[first][0]", "(rank, line)"),
    Wrong("72.6", "the note alone", "return first, notes[first][1]", "return notes[first]", "(rank, line)"),
    Wrong("72.7", "its own decision, before the exchange", _SUM,
          "    if not torch.isfinite(gradient).all():\n        return False\n" + _SUM, "may decide alone"),
    Wrong("72.7", "its own gradient is looked at", [_SUM, _DECIDE],
          ["    fine = bool(torch.isfinite(gradient).all())\n" + _SUM, "return fine"], "answer"),
    Wrong("72.7", "nan alone", "torch.isfinite(gradient).all()", "not torch.isnan(gradient).any()", "answer"),
    Wrong("72.7", "less than infinity", "torch.isfinite(gradient).all()", '(gradient < float("inf")).all()',
          "-inf on rank 1"),
    Wrong("72.7", "zeros for nan", _SUM, "    gradient.nan_to_num_(0.0, 0.0, 0.0)\n" + _SUM, "answer"),
    Wrong("72.7", "the sum", "    gradient /= dist.get_world_size()\n", "", "This is the sum"),
    Wrong("72.7", "three ranks and no others", "gradient /= dist.get_world_size()", "gradient /= 3",
          "of two ranks"),
    Wrong("72.7", "no exchange", _SUM, "", "gradient afterwards"),
    Wrong("72.7", "rounded down", "gradient /= dist", "gradient //= dist", "gradient afterwards"),
    Wrong("72.7", "not in place", "    gradient /= dist.get_world_size()\n",
          "    gradient = gradient / dist.get_world_size()\n", "This is the sum"),
]

RIGHT = [
    Right("72.1", "a Counter", _RANK,
          "from collections import Counter\n    many = Counter(lines)\n"
          "    rank = lines.index(min(many, key=many.get))"),
    Right("72.1", "a list", "return rank, lines[rank]", "return [rank, lines[rank]]"),
    Right("72.2", "the smallest number gathered", f"{_STEPS}\n    copies = {_COPIES}",
          "everybody = [None] * dist.get_world_size()\n"
          "    dist.all_gather_object(everybody, len(files))\n"
          "    copies = [nearby / file.name for file in files][: min(everybody)]"),
    Right("72.2", "an item", _COPIES, "[nearby.joinpath(file.name) for file in files[: fewest.item()]]"),
    Right("72.3", "slices of the records", "kinds = [(call.call, call.numbers) for call in calls]",
          "kinds = [call[:2] for call in calls]"),
    Right("72.4", "a loop over the batches", f"wanted = {_WANTED}\n",
          "wanted = set()\n    for other in everybody:\n        wanted.update(other['statistics'])\n"),
    Right("72.4", "a new dict by **, keys in another order",
          'return {"loss": max(other["loss"] for other in everybody), "statistics": sorted(wanted)}',
          'return {**batch, "statistics": sorted(wanted), "loss": max([one["loss"] for one in everybody])}'),
    Right("72.5", "two sums by name in place of one",
          ["counted = torch.cat([gradient, torch.ones(1)])\n"
           "        total = hvd.allreduce(counted, op=hvd.Sum, name=name)",
           "total[:3] / total[3]"],
          ["total = hvd.allreduce(gradient, op=hvd.Sum, name=name)\n"
           "        many = hvd.allreduce(torch.ones(1), op=hvd.Sum, name=name + '.ranks')", "total / many"]),
    Right("72.5", "lists of numbers", "results.append(total[:3] / total[3])",
          "results.append([number / total[3].item() for number in total[:3].tolist()])"),
    Right("72.5", "all sums begun, then waited for",
          ["total = hvd.allreduce(counted, op=hvd.Sum, name=name)\n"
           "        results.append(total[:3] / total[3])",
           "    hvd.join()\n"],
          ["results.append(hvd.allreduce_async(counted, op=hvd.Sum, name=name))",
           "    results = [hvd.synchronize(handle) for handle in results]\n"
           "    results = [total[:3] / total[3] for total in results]\n    hvd.join()\n"]),
    Right("72.6", "sorted pairs", [_FIRST, "return first, notes[first][1]"],
          ["(step, line), first = min((notes[rank], rank) for rank in ranks)", "return first, line"]),
    Right("72.7", "a tensor as the answer", _DECIDE, "return torch.isfinite(gradient).all()"),
    Right("72.7", "MIN of a flag before the sum", [_SUM, _DECIDE], [
        "    fine = torch.isfinite(gradient).all().float()\n"
        "    dist.all_reduce(fine, op=dist.ReduceOp.MIN)\n" + _SUM, "return fine.item() == 1"]),
]
# fmt: on
