"""Lab 00: first contact, so the mistakes are small; the checks have to say them kindly and exactly."""

from tests.labs.wrong_answers import Wrong

SMALL = {"ranks": 4, "patience": 4}

GREET = "    return comm.sendrecv(greeting, dest=right, source=left)"

# fmt: off
WRONG = [
    Wrong("00.1", "all cores of the node, not those this job may use",
          'machine["cores"]', 'machine["cores_in_all"]', "expected 6 at ['threads'], got 64"),
    Wrong("00.1", "no thread at all when ranks outnumber cores",
          'max(1, machine["cores"] // ranks)', 'machine["cores"] // ranks',
          "12 ranks, 6 cores of 64, 30 GiB free of 256, 2 GPUs: expected 1 at ['threads'], got 0"),
    Wrong("00.1", "half a thread",
          'machine["cores"] // ranks', 'machine["cores"] / ranks', "at ['threads'], got 1.5"),
    Wrong("00.1", "every rank takes all cores", 'max(1, machine["cores"] // ranks)', 'machine["cores"]',
          "2 GPUs: expected 1 at ['threads'], got 6"),
    Wrong("00.1", "memory that others already use",
          "memory_free_gib", "memory_gib", "expected 30 at ['memory_gib'], got 256"),
    Wrong("00.1", "memory not shared out", '["memory_free_gib"] / ranks', '["memory_free_gib"]', "got 30"),
    Wrong("00.1", "a machine without GPU forgotten",
          'report["gpu"]["devices"] or []', 'report["gpu"]["devices"]',
          "object of type 'NoneType' has no len()"),
    Wrong("00.1", "the list of GPUs instead of their number",
          'len(report["gpu"]["devices"] or [])', 'report["gpu"]["devices"] or 0', "expected 2 at ['gpus']"),
    Wrong("00.1", "this machine's report instead of the one handed in",
          'machine = report["machine"]', 'machine = doctor.report()["machine"]', "at ['"),
    Wrong("00.2", "a number from the screen", "os.getpid()", "1234", "not all different"),
    Wrong("00.2", "a pid taken beforehand, by the notebook",
          ["def who_am_i(comm)", ": os.getpid()"], ["def who_am_i(comm, pid=os.getpid())", ": pid"],
          "not all different"),
    Wrong("00.2", "rank and size swapped",
          '"rank": comm.rank, "ranks": comm.size', '"rank": comm.size, "ranks": comm.rank',
          "from rank to rank"),
    Wrong("00.2", "every rank says 0", "comm.rank", "world.local_rank() * 0", "from rank to rank"),
    Wrong("00.2", "a number of ranks by heart", "comm.size", "8", "`ranks`, as the ranks see it"),
    Wrong("00.2", "the version of the standard instead of the library",
          "MPI.Get_library_version()", "MPI.Get_version()", "gives text"),
    Wrong("00.2", "the function instead of its result",
          "MPI.Get_library_version()", "MPI.Get_library_version", "gives text"),
    Wrong("00.2", "a name by heart", "MPI.Get_library_version()", '"MPICH"', "ask MPI.Get_library_version()"),
    Wrong("00.2", "nothing returned", "    return {**me", "    me = {**me", "rank 0 returned None"),
    Wrong("00.2", "MPI not imported",
          "    from mpi4py import MPI\n", "", "NameError: name 'MPI' is not defined"),
    Wrong("00.3", "still receives first", GREET, """\
    note = comm.recv(source=left)
    comm.send(greeting, dest=right)
    return note""", "wait"),
    Wrong("00.3", "wrong way round the ring",
          "dest=right, source=left", "dest=left, source=right", "3 ranks returned"),
    Wrong("00.3", "waits for the one it sends to",
          "dest=right, source=left", "dest=right, source=right", "wait"),
    Wrong("00.3", "its own greeting", GREET, "    return greeting", "3 ranks returned"),
    Wrong("00.3", "made up, no message at all",
          GREET, '    return f"greetings from rank {left}, process {os.getpid()}"', "3 ranks returned"),
    Wrong("00.3", "even ranks send, odd ranks receive: an odd one is left over",
          GREET, "    return comm.sendrecv(0, dest=comm.rank ^ 1, source=comm.rank ^ 1)", "Invalid rank"),
    Wrong("00.3", "sends, returns nothing", "return comm.sendrecv", "comm.sendrecv", "got None"),
    Wrong("00.3", "its rank instead of the greeting", "sendrecv(greeting,", "sendrecv(comm.rank,", "got 2"),
]
