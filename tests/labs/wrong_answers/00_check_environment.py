"""Lab 00: first contact, so the mistakes are small; the checks have to say them kindly and
exactly."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"ranks": 4, "patience": 4}

GREET = "    return comm.sendrecv(greeting, dest=right, source=left)"

# fmt: off
WRONG = [
    Wrong("00.1", "all cores of the node, not those this job may use",
          'machine["cores"]', 'machine["cores_in_all"]', "['threads']: expected 6, got 64"),
    Wrong("00.1", "no thread at all when ranks outnumber cores",
          'max(1, machine["cores"] // ranks)', 'machine["cores"] // ranks',
          "Ranks: 12, 6 cores of 64, 33.1 GiB free of 256, 2 GPUs: the returned dict ['threads']: expected 1"),
    Wrong("00.1", "half a thread",
          'machine["cores"] // ranks', 'machine["cores"] / ranks', "`threads` is 6.0, but it must be a whole number"),
    Wrong("00.1", "memory that others already use",
          "memory_free_gib", "memory_gib", "['memory_gib']: expected 33.1, got 256"),
    Wrong("00.1", "memory not shared out", '["memory_free_gib"] / ranks', '["memory_free_gib"]', "got 33.1"),
    Wrong("00.1", "memory rounded", 'machine["memory_free_gib"] / ranks',
          'round(machine["memory_free_gib"] / ranks, 2)', "['memory_gib']: expected 11.0333, got 11.03"),
    Wrong("00.1", "the GPUs shared out, too", 'len(report["gpu"]["devices"] or [])',
          'len(report["gpu"]["devices"] or []) // ranks', "`gpus` is not divided"),
    Wrong("00.1", "a machine without GPU forgotten",
          'report["gpu"]["devices"] or []', 'report["gpu"]["devices"]',
          "object of type 'NoneType' has no len()"),
    Wrong("00.1", "no GPU: False instead of 0", 'len(report["gpu"]["devices"] or [])',
          'report["gpu"]["devices"] is not None and len(report["gpu"]["devices"])', "`gpus` is False"),
    Wrong("00.1", "a dict for each rank", ["return {", 'or []),\n    }'], ["return [{", "or []),\n    }] * ranks"],
          "It returns a list, not a dict"),
    Wrong("00.1", "the list of GPUs instead of their number",
          'len(report["gpu"]["devices"] or [])', 'report["gpu"]["devices"] or 0', "['gpus']"),
    Wrong("00.1", "this machine's report instead of the one handed in",
          'machine = report["machine"]', 'machine = doctor.report()["machine"]', "['threads']: expected"),
    Wrong("00.1", "the report itself is changed", '    machine = report["machine"]\n',
          '    machine = report["machine"]\n    machine["cores"] = max(1, machine["cores"] // ranks)\n'
          '    ranks, part = 1, ranks\n    machine["memory_free_gib"] /= part\n',
          "The report was changed"),
    Wrong("00.1", "memory as text", '"memory_gib": machine["memory_free_gib"] / ranks',
          '"memory_gib": str(machine["memory_free_gib"] / ranks)', "expected numbers, got '33.1'"),
    Wrong("00.1", "an empty list written into the report where it has None",
          '    machine = report["machine"]\n',
          '    machine = report["machine"]\n    report["gpu"]["devices"] = report["gpu"]["devices"] or []\n',
          "0 GPUs: The report was changed"),
    Wrong("00.2", "a pid taken beforehand, by the notebook",
          ["def who_am_i(comm)", ": os.getpid()"], ["def who_am_i(comm, pid=os.getpid())", ": pid"],
          "It is the value of os.getpid() on that rank"),
    Wrong("00.2", "the process that started the rank", "os.getpid()", "os.getppid()", "`pid` of rank 0"),
    Wrong("00.2", "an entry forgotten", ', "pid": os.getpid()}', "}", "has no entry `pid`"),
    Wrong("00.2", "only rank 0 answers", "    return {**me", "    if comm.rank == 0:\n        return {**me",
          "rank 1 returned None"),
    Wrong("00.2", "the call in quotes", "MPI.Get_library_version()", '"MPI.Get_library_version()"',
          "got 'MPI.Get_library_version()'. It is the value of MPI.Get_library_version()"),
    Wrong("00.2", "rank and size swapped",
          '"rank": comm.rank, "ranks": comm.size', '"rank": comm.size, "ranks": comm.rank',
          "`rank` of rank 0: expected 0, got 3"),
    Wrong("00.2", "a number of ranks by heart", "comm.size", "8", "`ranks` of rank 0: expected 3, got 8"),
    Wrong("00.2", "nothing returned", "    return {**me", "    me = {**me", "rank 0 returned None"),
    Wrong("00.2", "MPI not imported",
          "    from mpi4py import MPI\n", "", "NameError: name 'MPI' is not defined"),
    Wrong("00.2", "MPI imported above the function",
          ["def who_am_i(comm)", "    from mpi4py import MPI\n"],
          ["from mpi4py import MPI\n\n\ndef who_am_i(comm)", ""], "imported outside of it"),
    Wrong("00.3", "still receives first", GREET, """\
    note = comm.recv(source=left)
    comm.send(greeting, dest=right)
    return note""", "ranks 0, 1, 2, 3 wait", hangs=True),
    Wrong("00.3", "wrong way round the ring",
          "dest=right, source=left", "dest=left, source=right", "This is the right neighbor's greeting"),
    Wrong("00.3", "waits for the one it sends to",
          "dest=right, source=left", "dest=right, source=right", "wait", hangs=True),
    Wrong("00.3", "its own greeting", GREET, "    return greeting", "This is the rank's own greeting"),
    Wrong("00.3", "made up, no message at all",
          GREET, '    return f"greetings from rank {left}, process {os.getpid()}"', "what rank"),
    Wrong("00.3", "four by heart", GREET, """\
    left, right = (comm.rank - 1) % 4, (comm.rank + 1) % 4
    return comm.sendrecv(greeting, dest=right, source=left)""", "in a group of 3 ranks"),
    Wrong("00.3", "a request that is never waited for", GREET, """\
    comm.isend(greeting, dest=right)
    return comm.recv(source=left)""", "its request is never waited for"),
    Wrong("00.3", "sent first, and then once more", GREET, """\
    comm.send(greeting, dest=right)
    return comm.sendrecv(greeting, dest=right, source=left)""", "was sent a message that it never received"),
    Wrong("00.3", "right where all ranks begin at once: a greeting that is late is given up", GREET, """\
    comm.send(greeting, dest=right)
    return comm.recv(source=left) if comm.iprobe(source=left) else ''""", "what rank"),
    Wrong("00.3", "sends, returns nothing", "return comm.sendrecv", "comm.sendrecv", "got None"),
    Wrong("00.3", "its rank instead of the greeting", "sendrecv(greeting,", "sendrecv(comm.rank,", "expected 'greetings from rank"),
]

RIGHT = [
    Right("00.1", "NumPy numbers, an if for the GPUs, divided by multiplying", [
          'max(1, machine["cores"] // ranks)', 'machine["memory_free_gib"] / ranks',
          'len(report["gpu"]["devices"] or [])'], [
          '__import__("numpy").maximum(1, machine["cores"] // ranks)',
          'machine["memory_free_gib"] * (1 / ranks)',
          'len(report["gpu"]["devices"]) if report["gpu"]["devices"] is not None else 0']),
    Right("00.1", "int and or", 'max(1, machine["cores"] // ranks)', 'int(machine["cores"] / ranks) or 1'),
    Right("00.2", "the import as a module", ["from mpi4py import MPI", "MPI.Get_library_version()"],
          ["import mpi4py.MPI as mpi", "mpi.Get_library_version()"]),
    Right("00.2", "the getters, dict(), socket", [
          '    me = {"rank": comm.rank, "ranks": comm.size, "host": platform.node(), "pid": os.getpid()}\n',
          ], [
          "    import socket\n\n    me = dict(rank=comm.Get_rank(), ranks=comm.Get_size())\n"
          "    me.update(host=socket.gethostname(), pid=os.getpid())\n"]),
    Right("00.2", "the library without its last line break", "MPI.Get_library_version()",
          "MPI.Get_library_version().strip()"),
    Right("00.2", "one dict, the library first", "    return {**me, \"library\": MPI.Get_library_version()}",
          "    return dict(library=MPI.Get_library_version(), **me)"),
    Right("00.3", "sent first, received second: short messages are taken along", GREET, """\
    comm.send(greeting, right)
    return comm.recv(source=left)"""),
    Right("00.3", "a request that is waited for", GREET, """\
    request = comm.isend(greeting, dest=right)
    note = comm.recv(source=left)
    request.wait()
    return note"""),
    Right("00.3", "a collective", GREET, "    return comm.allgather(greeting)[left]"),
]
