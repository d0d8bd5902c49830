"""Mistakes that learners make in lab 43, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"lengths": (1e4, 1e7)}

KIND = '"SHM" if via == "direct shared memory" else via.split("/")[0]'
DUPLICATE = """    if len(set(taken)) < len(taken):
        return "two ranks on one GPU"
"""
MIXED = 'mixed = chosen["ALLREDUCE"] == "NCCL" and "MPI" in chosen.values()'
SEEN = "{gpu for other, gpu, _ in job if other == host} <= set(visible)"

# fmt: off
RIGHT = [
    Right("43.1", "kinds by a chain of tests, pairs with `in`",
          [f"kind = {KIND}",
           "        pairs.setdefault((int(source), int(dest)), set()).add(kind)"],
          ['kind = "NET" if via.startswith("NET") else "P2P" if "P2P" in via else "SHM"', """\
        pair = int(source), int(dest)
        if pair not in pairs:
            pairs[pair] = set()
        pairs[pair] |= {kind}"""]),
    Right("43.1", "a defaultdict",
          ["    pairs = {}\n    for line", "pairs.setdefault((int(source), int(dest)), set()).add(kind)"],
          ["    from collections import defaultdict\n    pairs = defaultdict(set)\n    for line",
           "pairs[int(source), int(dest)].add(kind)"]),
    Right("43.2", "all pairs of ranks compared",
          ["    taken = [(host, gpu) for host, gpu, _ in job]\n", "len(set(taken)) < len(taken)"],
          ["", "any(one[:2] == other[:2] for at, one in enumerate(job) for other in job[:at])"]),
    Right("43.2", "by host, with Counter and in sorted order",
          ["len(set(taken)) < len(taken)", "    for host, _, visible in job:", SEEN],
          ["__import__('collections').Counter(taken).most_common(1)[0][1] > 1",
           "    for host, _, visible in sorted(job):",
           "all(gpu in visible for at, gpu in taken if at == host)"]),
    Right("43.3", "a loop over the operations",
          ["chosen = {name: together or single[name] for name in OPERATIONS}", MIXED],
          ["""chosen = dict.fromkeys(OPERATIONS, together)
    for name, way in single.items():
        if way is not None:
            chosen[name] = way""", 'mixed = single["ALLREDUCE"] == "NCCL" and "MPI" in single.values()']),
    Right("43.3", "every name asked for with `in`",
          "together and any(single.values())",
          'together is not None and any(f"HOROVOD_GPU_{name}" in switches for name in OPERATIONS)'),
]

WRONG = [
    Wrong("43.1", "source and dest swapped",
          "(int(source), int(dest))", "(int(dest), int(source))",
          "means {(14, 13): {'P2P'}}; you read {(13, 14): {'P2P'}}"),
    Wrong("43.1", "[receive] is taken for the other direction",
          "(int(source), int(dest))",
          "(int(dest), int(source)) if '[receive]' in line else (int(source), int(dest))",
          "[receive] via NET/IB/0/GDRDMA” means {(5, 12)"),
    Wrong("43.1", "GPUDirect RDMA is forgotten",
          'kind += "+GDRDMA"', "pass", "means {(13, 4): {'NET+GDRDMA'}}; you read {(13, 4): {'NET'}}"),
    Wrong("43.1", "InfiniBand is taken for GPUDirect RDMA",
          'if "GDRDMA" in via:', 'if "NET/IB" in via:', "In the log nvls_64_ranks"),
    Wrong("43.1", "GDRDMA at the end of the line alone",
          'if "GDRDMA" in via:', 'if via.endswith("GDRDMA"):', "A line may end with Shared"),
    Wrong("43.1", "the old words for shared memory are not known",
          KIND, 'via.split("/")[0]', "via direct shared memory” means {(3, 2): {'SHM'}}"),
    Wrong("43.1", "GPUDirect RDMA by the number of parts of the path",
          'if "GDRDMA" in via:', 'if via.count("/") > 2:',
          "via NET/IB/0/Shared” means {(1, 0): {'NET'}}"),
    Wrong("43.1", "GPUDirect RDMA displaces NET",
          "pairs.setdefault((int(source), int(dest)), set()).add(kind)", """\
pair = pairs.setdefault((int(source), int(dest)), set())
        pair.add(kind)
        if "NET+GDRDMA" in pair:
            pair.discard("NET")""", "at [(7, 8)], got {'NET+GDRDMA'}"),
    Wrong("43.1", "returns after the first line",
          "set()).add(kind)", "set()).add(kind)\n        return pairs", "all connections in the log"),
    Wrong("43.1", "ranks as text",
          "(int(source), int(dest))", "(source, dest)", "you read {('14', '13'): {'P2P'}}"),
    Wrong("43.1", "only the last line of a pair counts, and its other ways are lost",
          "pairs.setdefault((int(source), int(dest)), set()).add(kind)",
          "pairs[int(source), int(dest)] = {kind}", "Two pairs with two kinds each"),
    Wrong("43.2", "GPU 0 of node1 taken for GPU 0 of node2",
          "taken = [(host, gpu) for host, gpu, _ in job]", "taken = [gpu for host, gpu, _ in job]",
          "--gpus-per-node=4 --gpu-bind=none: trouble says 'two ranks on one GPU', not None"),
    Wrong("43.2", "two ranks on one GPU pass", DUPLICATE, "", "five ranks, four GPUs: trouble says None"),
    Wrong("43.2", "peers on all hosts", " if other == host}", "}",
          "trouble says 'peers hidden', not None, of [('node1', 11, [11]), ('node11', 1, [1])]"),
    Wrong("43.2", "only its own GPU must be visible",
          SEEN, "set(visible)", "--gpus-per-task=1: trouble says None, not 'peers hidden'"),
    Wrong("43.2", "one common GPU with the peers is held to be enough",
          SEEN, "len({gpu for other, gpu, _ in job if other == host} & set(visible)) > 1",
          "cgroups with 0,1 or 2,3: trouble says None"),
    Wrong("43.2", "lists that differ are held to hide peers",
          SEEN, "all(set(other[2]) and other[2] == visible for other in job if other[0] == host)",
          "not None, of [('node1', 0, [0, 1]), ('node1', 1, [1, 0])]"),
    Wrong("43.2", "peers that see another GPU besides are held to be hidden",
          SEEN, "all(set(other[2]) == set(visible) for other in job if other[0] == host)",
          "not None, of [('node1', 0, [0, 1, 2]), ('node1', 1, [0, 1, 3])]"),
    Wrong("43.2", "as many GPUs as ranks are held to be enough",
          SEEN, "len(visible) >= sum(other[0] == host for other in job)",
          "trouble says None, not 'peers hidden', of [('node1', 0, [0, 2]), ('node1', 1, [1, 2])]"),
    Wrong("43.2", "doubles by the whole entry, the visible GPUs included",
          "len(set(taken)) < len(taken)", "any(job.count(entry) > 1 for entry in job)",
          "two of four GPUs, but both ranks on one: trouble says None"),
    Wrong("43.2", "host and GPU glued to one name", "taken = [(host, gpu) for", "taken = [f'{host}{gpu}' for",
          "not None, of [('node1', 11, [11]), ('node11', 1, [1])]"),
    Wrong("43.2", "peers are consecutive ranks only", "    for host, _, visible in job:\n        if not " + SEEN,
          """    for one, other in zip(job, job[1:]):
        if one[0] == other[0] and not {one[1], other[1]} <= set(one[2]) & set(other[2])""",
          "three nodes in turn, one rank of node5 sees too little: trouble says None"),
    Wrong("43.2", "hidden peers on the first host alone",
          "if not " + SEEN, "if host == job[0][0] and not " + SEEN,
          "three nodes in turn, one rank of node5 sees too little: trouble says None"),
    Wrong("43.2", "only the first rank's list is looked at",
          "for host, _, visible in job:", "for host, _, visible in job[:1]:",
          "only one rank sees too little: trouble says None"),
    Wrong("43.2", "only the last rank's list counts",
          "for host, _, visible in job:", "for host, _, visible in job[-1:]:",
          "only the first rank sees too little: trouble says None"),
    Wrong("43.2", "doubles on the first host alone",
          "taken = [(host, gpu) for host, gpu, _ in job]",
          "taken = [(host, gpu) for host, gpu, _ in job if host == job[0][0]]",
          "doubles on the second node alone: trouble says None"),
    Wrong("43.2", "peers asked before doubles", [DUPLICATE, "    return None"],
          ["", DUPLICATE + "    return None"],
          "trouble says 'peers hidden', not 'two ranks on one GPU'"),
    Wrong("43.2", "sorts the caller's job", "    taken = [", "    job.sort()\n    taken = [",
          "the job was changed"),
    Wrong("43.3", "takes a switch out of the caller's dict",
          "    single = {", '    switches.pop("HOROVOD_GPU_OPERATIONS", None)\n    single = {',
          "the dict of switches was changed"),
    Wrong("43.3", "mixed the other way round is refused too",
          MIXED, 'mixed = {"NCCL", "MPI"} <= set(chosen.values())',
          "GPU_ALLREDUCE=MPI GPU_BROADCAST=NCCL”: CMake builds"),
    Wrong("43.3", "mixed operations pass: a build that may deadlock",
          '"MPI" in chosen.values()', "False", 'refuses this, ValueError("mixed"); you return'),
    Wrong("43.3", "only the broadcast is looked at",
          '"MPI" in chosen.values()', 'chosen["BROADCAST"] == "MPI"',
          "GPU_ALLGATHER=MPI”: CMake refuses this"),
    Wrong("43.3", "any value of the switch allows it", 'switches.get("HOROVOD_ALLOW_MIXED_GPU_IMPL") != "1"',
          'not switches.get("HOROVOD_ALLOW_MIXED_GPU_IMPL")', "ALLOW_MIXED_GPU_IMPL=0”: CMake refuses this"),
    Wrong("43.3", "the switch that allows mixing allows both, too", "together and any(single.values())",
          'together and any(single.values()) and "HOROVOD_ALLOW_MIXED_GPU_IMPL" not in switches',
          "GPU_ALLTOALL=MPI ALLOW_MIXED_GPU_IMPL=1”: CMake refuses this"),
    Wrong("43.3", "the switch that allows it is not known",
          'mixed and switches.get("HOROVOD_ALLOW_MIXED_GPU_IMPL") != "1"', "mixed",
          "ALLOW_MIXED_GPU_IMPL=1”: CMake builds"),
    Wrong("43.3", "the switch for all wins silently over those for one",
          '        raise ValueError("both")', "        pass", 'CMake refuses this, ValueError("both")'),
    Wrong("43.3", "what nobody names counts as MPI",
          "together or single[name] for", 'together or single[name] or "MPI" for',
          "No switches: CMake builds"),
    Wrong("43.3", "the error is returned, not raised",
          'raise ValueError("both")', 'return ValueError("both")', "you return ValueError('both')"),
    Wrong("43.3", "both is an error only if they differ",
          "any(single.values())", "any(way not in (None, together) for way in single.values())",
          "GPU_OPERATIONS=NCCL GPU_ALLREDUCE=NCCL”: CMake refuses this"),
    Wrong("43.3", "any two switches are both", "together and any(single.values())",
          "together and len(switches) > 1", "GPU_OPERATIONS=NCCL ALLOW_MIXED_GPU_IMPL=1”: CMake builds"),
    Wrong("43.3", "what goes through the host is left out of the table",
          "    return chosen", "    return {name: way for name, way in chosen.items() if way}",
          "No switches: CMake builds"),
    Wrong("43.3", "both with some of the operations alone", "any(single.values())",
          '(single["ALLREDUCE"] or single["ALLTOALL"])', "GPU_ALLGATHER=MPI”: CMake refuses this"),
    Wrong("43.3", "mixed asked before both", "    if together and any",
          """    if single["ALLREDUCE"] == "NCCL" and "MPI" in single.values():
        if switches.get("HOROVOD_ALLOW_MIXED_GPU_IMPL") != "1":
            raise ValueError("mixed")
    if together and any""", 'refuses this, ValueError("both"); you raise ValueError("mixed")'),
    Wrong("43.3", "two operations with MPI are not mixed", '"MPI" in chosen.values()',
          'list(chosen.values()).count("MPI") == 1', "GPU_ALLTOALL=NCCL”: CMake refuses this"),
    Wrong("43.3", "a mixture without allreduce is refused, too", 'chosen["ALLREDUCE"] == "NCCL"',
          'chosen["ALLREDUCE"] != "MPI"', "GPU_ALLGATHER=MPI GPU_BROADCAST=NCCL”: CMake builds"),
]
