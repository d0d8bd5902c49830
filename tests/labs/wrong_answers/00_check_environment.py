"""Lab 00: first contact, so the mistakes are small; the checks have to say them kindly and exactly."""

from tests.labs.wrong_answers import Wrong

SMALL = {"ranks": 4, "patience": 4}

WRONG = [
    Wrong(
        "00.1",
        "all cores of the node, not those this job may use",
        old='machine["cores"]',
        new='machine["cores_in_all"]',
        says="expected 6 at ['threads'], got 64",
    ),
    Wrong(
        "00.1",
        "no thread at all when ranks outnumber cores",
        old='max(1, machine["cores"] // ranks)',
        new='machine["cores"] // ranks',
        says="12 ranks, 6 cores of 64, 30 GiB free of 256, 2 GPUs: expected 1 at ['threads'], got 0",
    ),
    Wrong(
        "00.1",
        "half a thread",
        old='machine["cores"] // ranks',
        new='machine["cores"] / ranks',
        says="at ['threads'], got 1.5",
    ),
    Wrong(
        "00.1",
        "every rank takes all cores",
        old='max(1, machine["cores"] // ranks)',
        new='machine["cores"]',
        says="2 GPUs: expected 1 at ['threads'], got 6",
    ),
    Wrong(
        "00.1",
        "memory that others already use",
        old="memory_free_gib",
        new="memory_gib",
        says="expected 30 at ['memory_gib'], got 256",
    ),
    Wrong(
        "00.1",
        "memory not shared out",
        old='["memory_free_gib"] / ranks',
        new='["memory_free_gib"]',
        says="got 30",
    ),
    Wrong(
        "00.1",
        "a machine without GPU forgotten",
        old='report["gpu"]["devices"] or []',
        new='report["gpu"]["devices"]',
        says="object of type 'NoneType' has no len()",
    ),
    Wrong(
        "00.1",
        "the list of GPUs instead of their number",
        old='len(report["gpu"]["devices"] or [])',
        new='report["gpu"]["devices"] or 0',
        says="expected 2 at ['gpus']",
    ),
    Wrong(
        "00.1",
        "this machine's report instead of the one handed in",
        old='machine = report["machine"]',
        new='machine = doctor.report()["machine"]',
        says="at ['",
    ),
    Wrong(
        "00.2",
        "a number from the screen",
        old="os.getpid()",
        new="1234",
        says="not all different",
    ),
    Wrong(
        "00.2",
        "a pid taken beforehand, by the notebook",
        old=["def who_am_i(comm)", ": os.getpid()"],
        new=["def who_am_i(comm, pid=os.getpid())", ": pid"],
        says="not all different",
    ),
    Wrong(
        "00.2",
        "rank and size swapped",
        old='"rank": comm.rank, "ranks": comm.size',
        new='"rank": comm.size, "ranks": comm.rank',
        says="from rank to rank",
    ),
    Wrong(
        "00.2", "every rank says 0", old="comm.rank", new="world.local_rank() * 0", says="from rank to rank"
    ),
    Wrong(
        "00.2",
        "a number of ranks by heart",
        old="comm.size",
        new="8",
        says="`ranks`, as the ranks see it",
    ),
    Wrong(
        "00.2",
        "the version of the standard instead of the library",
        old="MPI.Get_library_version()",
        new="MPI.Get_version()",
        says="gives text",
    ),
    Wrong(
        "00.2",
        "the function instead of its result",
        old="MPI.Get_library_version()",
        new="MPI.Get_library_version",
        says="gives text",
    ),
    Wrong(
        "00.2", "nothing returned", old="    return {**me", new="    me = {**me", says="rank 0 returned None"
    ),
    Wrong(
        "00.2",
        "MPI not imported",
        old="    from mpi4py import MPI\n",
        new="",
        says="NameError: name 'MPI' is not defined",
    ),
    Wrong(
        "00.3",
        "still receives first",
        old='    return comm.sendrecv(f"greetings from {comm.rank}", dest=right, source=left)',
        new="    note = comm.recv(source=left)\n    comm.send(comm.rank, dest=right)\n    return note",
        says="wait",
    ),
    Wrong(
        "00.3",
        "wrong way round the ring",
        old="dest=right, source=left",
        new="dest=left, source=right",
        says="3 ranks returned",
    ),
    Wrong(
        "00.3",
        "waits for the one it sends to",
        old="dest=right, source=left",
        new="dest=right, source=right",
        says="wait",
    ),
    Wrong(
        "00.3",
        "its own greeting",
        old='    return comm.sendrecv(f"greetings from {comm.rank}", dest=right, source=left)',
        new='    return f"greetings from {comm.rank}"',
        says="3 ranks returned",
    ),
    Wrong(
        "00.3",
        "even ranks send, odd ranks receive: an odd one is left over",
        old='    return comm.sendrecv(f"greetings from {comm.rank}", dest=right, source=left)',
        new="    return comm.sendrecv(0, dest=comm.rank ^ 1, source=comm.rank ^ 1)",
        says="Invalid rank",
    ),
    Wrong("00.3", "sends, returns nothing", old="return comm.sendrecv", new="comm.sendrecv", says="got None"),
    Wrong(
        "00.3",
        "its rank instead of the greeting",
        old='f"greetings from {comm.rank}"',
        new="comm.rank",
        says="got 2",
    ),
]
