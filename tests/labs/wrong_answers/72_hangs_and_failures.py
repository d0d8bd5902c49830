"""Mistakes of learners in lab 72: exercise, mistake, what is replaced, by what, a phrase of the rejection."""

from tests.labs.wrong_answers import Wrong

SMALL = {"patience": 25}

_RANK = "rank = min(range(len(lines)), key=lambda rank: lines.count(lines[rank]))"
_STEPS = "dist.all_reduce(fewest, op=dist.ReduceOp.MIN)"
_COPIES = "[nearby / file.name for file in files[:fewest]]"
_WANTED = '{name for other in everybody for name in other["statistics"]}'
_GATHER = "    dist.all_gather_object(everybody, batch)\n"
_WORKER = 'return first_cause(ranks), "workers"'
_ROOM = 'return first_cause(ranks), "room"'
_NUMBERS = 'return first_cause(ranks), "numbers"'
_ODD_VERSION = "results.index(min(results, key=results.count))"
_DOUBLE = "max(results, key=results.count)"
_ODD = "rank = min(range(len(kinds)), key=lambda rank: kinds.count(kinds[rank]))"
_FIRST = "first = min(ranks, key=lambda rank: notes[rank])"
_SUM = "    dist.all_reduce(gradient)\n"
_DECIDE = "return bool(torch.isfinite(gradient).all())"

# fmt: off
WRONG = [
    Wrong("72.1", "the most common line", _RANK, _RANK.replace("min(", "max("), "expected 3 at [0], got 0"),
    Wrong("72.1", "the innermost line", "stack[0].line", "stack[-1].line", "inside of a library"),
    Wrong("72.1", "whoever is not like rank 0", _RANK,
          "rank = next(rank for rank in range(len(lines)) if lines[rank] != lines[0])", "got 1"),
    Wrong("72.1", "always rank 0", _RANK, "rank = 0", "expected 3 at [0], got 0"),
    Wrong("72.1", "the rank alone", "return rank, lines[rank]", "return rank", "(rank, line)"),
    Wrong("72.1", "the line of another", "return rank, lines[rank]", "return rank, lines[0]", "(rank, line)"),
    Wrong("72.1", "the smallest line", _RANK, "rank = lines.index(min(lines))", "(rank, line)"),
    Wrong("72.1", "the disk that is ill", _COPIES, "files[:fewest]", "a file does not answer: nothing"),
    Wrong("72.1", "the log as it is", '(nearby / "log").open("w")', "log", "nearby / 'log'"),
    Wrong("72.1", "the table as it is", ', nearby / "table"', ", table", "nearby / 'table'"),
    Wrong("72.1", "each its own number of steps", f"    {_STEPS}\n", "", "a shard has"),
    Wrong("72.1", "as many as the longest", "ReduceOp.MIN", "ReduceOp.MAX", "a shard has"),
    Wrong("72.1", "no steps at all", "files[:fewest]", "files[:0]", "a line for each"),
    Wrong("72.1", "one step", "files[:fewest]", "files[:1]", "a line for each"),
    Wrong("72.1", "the number is never exchanged", _STEPS, "fewest -= 1", "a shard has"),
    Wrong("72.2", "calls alone, no lengths", "(call.call, call.numbers)", "call.call", "reduces 2 numbers"),
    Wrong("72.2", "numbers alone", "(call.call, call.numbers)", "call.numbers", "of as many numbers"),
    Wrong("72.2", "lines, too", "call.numbers) for", "call.numbers, call.line) for", "in line 8"),
    Wrong("72.2", "whoever is not like rank 0", _ODD,
          "rank = next(rank for rank in range(len(kinds)) if kinds[rank] != kinds[0])", "rank 0 reduces"),
    Wrong("72.2", "the last difference", [
        "            return rank, calls[rank].line\n    return None",
        "    for calls in"], [
        "            found = rank, calls[rank].line\n    return found",
        "    found = None\n    for calls in"], "a broadcast too many"),
    Wrong("72.2", "the most common call", _ODD, _ODD.replace("min(", "max("), "(rank, line)"),
    Wrong("72.2", "the line of rank 0", "calls[rank].line", "calls[0].line", "a broadcast too many"),
    Wrong("72.2", "the shortest list", _ODD, "rank = min(range(len(records)), key=lambda r: len(records[r]))",
          "(rank, line)"),
    Wrong("72.2", "where each rank waits now", "zip(*records, strict=False)",
          "[[record[-1] for record in records]]", "(rank, line)"),
    Wrong("72.2", "its own loss", 'max(other["loss"] for other in everybody)', 'batch["loss"]',
          "The losses by rank are"),
    Wrong("72.2", "the smallest loss", "max(other", "min(other", "The losses by rank are"),
    Wrong("72.2", "its own statistics", _WANTED, 'batch["statistics"]', "Wanted are, by rank"),
    Wrong("72.2", "what all want", _WANTED,
          'set.intersection(*(set(other["statistics"]) for other in everybody))', "Wanted are, by rank"),
    Wrong("72.2", "as often as it is wanted", _WANTED,
          '[name for other in everybody for name in other["statistics"]]', "Wanted are, by rank"),
    Wrong("72.2", "in the order in which they come", f"wanted = {_WANTED}\n",
          'wanted = dict.fromkeys(name for other in everybody for name in other["statistics"])\n'
          "    sorted = list\n", "Wanted are, by rank"),
    Wrong("72.2", "asks the others only when it is in need", _GATHER,
          '    if batch["loss"] > 4.5:\n        dist.all_gather_object(everybody, batch)\n'
          "    else:\n        everybody = [batch]\n", "may decide alone"),
    Wrong("72.3", "Horovod's average", ["op=hvd.Sum, ", "total[:3] / total[3]"], ["", "total[:3]"],
          "Zeros of ranks that have joined"),
    Wrong("72.3", "the sum", "total[:3] / total[3]", "total[:3]", "This is the sum"),
    Wrong("72.3", "no join", "    hvd.join()\n", "", "without an end", hangs=True),
    Wrong("72.3", "one number for all three", "total[:3] / total[3]", "(total[:1] / total[3]).repeat(3)",
          "the average of step"),
    Wrong("72.3", "nothing is sent", "results.append(total[:3] / total[3])", "results.append(gradient)",
          "This is its own gradient"),
    Wrong("72.3", "the first gradients only", "enumerate(gradients)", "enumerate(gradients[:1])", "averages"),
    Wrong("72.4", "the last", _FIRST, _FIRST.replace("min(", "max("), "(rank, line)"),
    Wrong("72.4", "lines without steps", _FIRST, "first = min(ranks, key=lambda rank: notes[rank][1])",
          "(rank, line)"),
    Wrong("72.4", "its own decision, before the exchange", _SUM,
          "    if not torch.isfinite(gradient).all():\n        return False\n" + _SUM, "may decide alone"),
    Wrong("72.4", "its own gradient is looked at", [_SUM, _DECIDE],
          ["    fine = bool(torch.isfinite(gradient).all())\n" + _SUM, "return fine"], "answer"),
    Wrong("72.4", "nan alone", "torch.isfinite(gradient).all()", "not torch.isnan(gradient).any()", "answer"),
    Wrong("72.4", "less than infinity", "torch.isfinite(gradient).all()", '(gradient < float("inf")).all()',
          "-inf on rank 1"),
    Wrong("72.4", "zeros for nan", _SUM, "    gradient.nan_to_num_(0.0, 0.0, 0.0)\n" + _SUM, "answer"),
    Wrong("72.4", "the sum", "    gradient /= dist.get_world_size()\n", "", "This is the sum"),
    Wrong("72.4", "three ranks and no others", "gradient /= dist.get_world_size()", "gradient /= 3",
          "of two ranks"),
    Wrong("72.4", "no exchange", _SUM, "", "gradient afterwards"),
    Wrong("72.4", "not in place", "    gradient /= dist.get_world_size()\n",
          "    gradient = gradient / dist.get_world_size()\n", "This is the sum"),
    Wrong("72.5", "the first that raised",
          'rank.state != "finished" and "by peer" not in rank.error', 'rank.state == "raised"',
          "disk is full"),
    Wrong("72.5", "who did not finish", ' and "by peer" not in rank.error', "", "disk is full"),
    Wrong("72.5", "closed, and not reset", '"by peer"', '"closed by peer"', "rank 0 is reset"),
    Wrong("72.5", "no signals", 'rank.state != "finished"', 'rank.state == "raised"', "SIGKILL"),
    Wrong("72.5", "raised, or killed", 'rank.state != "finished"', 'rank.state in ("raised", "SIGKILL")',
          "status 70"),
    Wrong("72.5", "no words, so no fault", 'rank.state != "finished"', "rank.error", "SIGKILL"),
    Wrong("72.5", "who does not complain", 'rank.state != "finished" and ', "", "disk is full"),
    Wrong("72.5", "the last one", [
        ' rank.state != "finished" and', "return rank.rank, rank.line\n    return None",
          "    for rank in ranks:\n"], ["", "found = rank.rank, rank.line\n    return found",
          "    found = None\n    for rank in ranks:\n"], "Rank 0's disk"),
    Wrong("72.5", "the rank alone", "return rank.rank, rank.line", "return rank.rank", "(rank, line)"),
    Wrong("72.6", "memory: who lost the connection", _NUMBERS,
          'return next((rank.rank, rank.line) for rank in ranks if "by peer" in rank.error), "numbers"',
          "only lost its connection"),
    Wrong("72.6", "memory: the rank alone", _NUMBERS, 'return first_cause(ranks)[0], "numbers"',
          "its line belongs to it"),
    Wrong("72.6", "memory: as for a loader", _NUMBERS, 'return first_cause(ranks), "workers"',
          "loaders that take too much memory"),
    Wrong("72.6", "a loader: the next rank", _WORKER,
          'rank, line = first_cause(ranks)\n        return ((rank + 1) % 3, line), "workers"',
          "a data loader's worker is killed: where"),
    Wrong("72.6", "a loader: as for memory", _WORKER, 'return first_cause(ranks), "numbers"',
          "losses that pile up"),
    Wrong("72.6", "a loader: its signal is the sign", '"DataLoader worker"', '"SIGKILL"',
          "none of your signs"),
    Wrong("72.6", "the disk: submit it again", _ROOM, 'return first_cause(ranks), "again"',
          "othing has changed"),
    Wrong("72.6", "the disk: the first that raised", _ROOM,
          'return max((rank.rank, rank.line) for rank in ranks if "by peer" in rank.error), "room"',
          "only lost its connection"),
    Wrong("72.6", "the disk: its sign says disk", '"unexpected pos"', '"disk"', "none of your signs"),
    Wrong("72.6", "versions: as DDP says it", '"recipe"', '"params"', "none of your signs"),
    Wrong("72.6", "versions: a rank of the many", _ODD_VERSION, _ODD_VERSION.replace("min(", "max("),
          "s many as two ranks"),
    Wrong("72.6", "versions: the version", _ODD_VERSION, "min(results, key=results.count)", "name the rank"),
    Wrong("72.6", "versions: wait for longer", '"install"', '"timeout"', "obody was too slow"),
    Wrong("72.6", "the map: the rank", _DOUBLE, "0", "its map is"),
    Wrong("72.6", "the map: all that they said", _DOUBLE, "results", "nce is enough"),
    Wrong("72.6", "the map: read off the output", _DOUBLE, 'failures["map"][0].result', "on one core: where"),
    Wrong("72.6", "versions: read off the output", _ODD_VERSION, 'culprits["versions"]',
          "s many as two ranks"),
    Wrong("72.6", "the map: as for versions", '"map"', '"install"', "nodes that differ"),
    Wrong("72.6", "the port: where nobody listens", '"timed out" in result', '"refused" in result',
          "no firewall is in its way"),
    Wrong("72.6", "the port: that which answers", '"timed out" in result', '"connected" in result',
          "his one answers"),
    Wrong("72.6", "the port: wait for longer", '"port"', '"timeout"', "obody was too slow"),
    Wrong("72.6", "the port: with what came of it", 'result.split(":")[0]', "result",
          "without what came of it"),
    Wrong("72.6", "where alone", _WORKER, "return first_cause(ranks)", "its line belongs to it"),
]
# fmt: on
