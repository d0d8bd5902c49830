"""Mistakes that learners make in lab 27, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"longest": 1 << 21}

LANDED = """        if i > 1:
            landed[i - 2].wait()
"""
SENT = """            if i > 0:
                sent[i - 1].Wait()
"""
NEXT = "            copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])"
LATE = """        if i + 1 < len(pieces):
            if i > 0:
                sent[i - 1].Wait()
            copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])
        coming.Wait()
"""
COME = "        landed.append(device.to_device(into[pieces[i]], half(inbox, i)))\n"
DONE = """    for request, copy in zip(sent, landed, strict=True):
        request.Wait()
        copy.wait()"""
BEST = "max(1, min(nbytes, round(sqrt(nbytes * start / rest))))"

# fmt: off
WRONG = [
    Wrong("27.1", "no wait for the copy to the host",
          "device.to_host(outbox, out).wait()", "device.to_host(outbox, out)",
          "got rubbish of a pinned buffer"),
    Wrong("27.1", "no wait for the copy to the device",
          "device.to_device(into, inbox).wait()", "device.to_device(into, inbox)",
          "was not filled. All copies awaited?"),
    Wrong("27.1", "hands plain MPI the device's memory",
          "comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)",
          "comm.Sendrecv(out, dest=dest, recvbuf=into, source=source)", "This is device memory"),
    Wrong("27.1", "dest and source exchanged",
          "dest=dest, recvbuf=inbox, source=source", "dest=source, recvbuf=inbox, source=dest",
          "`into` on rank"),
    Wrong("27.1", "always to the next rank, whatever dest and source are",
          "dest=dest, recvbuf=inbox, source=source",
          "dest=(comm.rank + 1) % comm.size, recvbuf=inbox, source=(comm.rank - 1) % comm.size",
          "`into` on rank 0, beside `out` of rank 1"),
    Wrong("27.1", "copies back what was sent",
          "device.to_device(into, inbox)", "device.to_device(into, outbox)", "beside `out` of rank"),
    Wrong("27.1", "one box for both: MPI forbids to receive into what the same call sends",
          ["recvbuf=inbox", "device.to_device(into, inbox)"],
          ["recvbuf=outbox", "device.to_device(into, outbox)"],
          "sendbuf and recvbuf share memory"),
    Wrong("27.1", "Send, then Recv: waits for ever",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n",
          "    comm.Send(outbox, dest=dest)\n    comm.Recv(inbox, source=source)\n", "waits in Send"),
    Wrong("27.1", "memory that is not pinned",
          "device.to_host(outbox, out).wait()", "device.to_host(np.empty_like(outbox), out).wait()",
          "not unpinned and Memory"),
    Wrong("27.1", "begins the copy to the device before the bytes have come",
          ["    comm.Sendrecv(", "device.to_device(into, inbox).wait()"],
          ["    copy = device.to_device(into, inbox)\n    comm.Sendrecv(", "copy.wait()"],
          "was changed between its start and its wait"),
    Wrong("27.1", "even ranks send first, odd ranks receive first",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n", """\
    if dest == comm.rank:
        comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)
    elif comm.rank % 2:
        comm.Send(outbox, dest=dest)
        comm.Recv(inbox, source=source)
    else:
        comm.Recv(inbox, source=source)
        comm.Send(outbox, dest=dest)
""", "its three steps take 22"),
    Wrong("27.1", "copies to the host twice", "device.to_host(outbox, out).wait()",
          "device.to_host(outbox, out).wait()\n    device.to_host(outbox, out).wait()",
          "the number of copies to host: expected 1, got 2"),
    Wrong("27.1", "sends twice", "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n" * 2,
          "the messages that rank 0 sent: expected 1, got 2"),
    Wrong("27.1", "the lower-case call, which packs and unpacks",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n",
          "    inbox[:] = comm.sendrecv(outbox, dest=dest, source=source)\n", "bytes that rank 0 sent"),
    Wrong("27.2", "asks for its sends, does not wait for them",
          "                sent[i - 1].Wait()\n", "                sent[i - 1].Test()\n", "before"),
    Wrong("27.2", "waits for each chunk to come before it copies the next", LATE, """\
        coming.Wait()
        if i + 1 < len(pieces):
            if i > 0:
                sent[i - 1].Wait()
            copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])
""", "in turns"),
    Wrong("27.2", "waits for each copy to the device at once",
          COME, COME.rstrip() + "\n        landed[i].wait()\n", "in turns"),
    Wrong("27.2", "one step after another", [LATE, COME], ["""\
        coming.Wait()
        sent[i].Wait()
""", COME + "        landed[i].wait()\n        if i + 1 < len(pieces):\n" + NEXT + "\n"], "in turns"),
    Wrong("27.2", "receives into a half that is still being copied to the device",
          LANDED, "", "was changed between its start and its wait"),
    Wrong("27.2", "copies into a half that is still being sent", SENT, "", "before"),
    Wrong("27.2", "sends before the chunk is on the host",
          "        copy.wait()\n        sent.append", "        sent.append", "rubbish of a pinned buffer"),
    Wrong("27.2", "no wait at the end", DONE, "", "never waited for"),
    Wrong("27.2", "waits for its sends alone at the end",
          DONE, "    for request in sent:\n        request.Wait()", "was not filled"),
    Wrong("27.2", "forgets its last sends", DONE, "    for copy in landed:\n        copy.wait()", "Isend"),
    Wrong("27.2", "drops the last chunk if it is short",
          ["for i in range(len(pieces)):", "if i + 1 < len(pieces):"],
          ["for i in range(max(1, len(out) // chunk)):", "if i + 1 < len(out) // chunk:"], "was not filled"),
    Wrong("27.3", "the number of chunks, not their bytes",
          "round(sqrt(nbytes * start / rest))", "round(sqrt(nbytes * rest / start))", "is best"),
    Wrong("27.3", "all three steps in r",
          "for _, per_byte in steps) - slow", "for _, per_byte in steps)", "is best"),
    Wrong("27.3", "the slowest step in r",
          "rest = sum(per_byte for _, per_byte in steps) - slow", "rest = slow", "is best"),
    Wrong("27.3", "takes the slowest step out of the caller's list", [
          "start, slow = max(steps, key=lambda step: step[1])",
          "rest = sum(per_byte for _, per_byte in steps) - slow"], [
          "start, slow = max(steps, key=lambda step: step[1])\n    steps.remove((start, slow))",
          "rest = sum(per_byte for _, per_byte in steps)"], "The list of steps was changed"),
    Wrong("27.3", "no root", "sqrt(nbytes * start / rest)", "nbytes * start / rest", "is best"),
    Wrong("27.3", "not a whole number",
          "round(sqrt(nbytes * start / rest))", "sqrt(nbytes * start / rest)", "a whole number"),
    Wrong("27.3", "chunks longer than the message",
          BEST, "max(1, round(sqrt(nbytes * start / rest)))", "1e+03 bytes"),
    Wrong("27.3", "never gives the MPI device memory",
          "        return 0\n", "        return chunk\n", "direct takes 0.97"),
    Wrong("27.3", "gives it always",
          "if direct and direct[0] + nbytes * direct[1] < staged:",
          "if direct:", "direct takes 1.03"),
    Wrong("27.3", "compares with staging in one piece",
          "lab27.pipeline_time(nbytes, nbytes / chunk, steps)", "lab27.pipeline_time(nbytes, 1, steps)",
          "direct takes 1.03"),
    Wrong("27.3", "device memory costs nothing per byte",
          "direct[0] + nbytes * direct[1]", "direct[0]", "direct takes 1.03"),
    Wrong("27.3", "the start of the first step, not of the slowest",
          "rest = sum", "start = steps[0][0]\n    rest = sum", "is best"),
    Wrong("27.3", "chunks of no bytes where steps start nearly at once",
          [BEST, "nbytes / chunk"],
          ["min(nbytes, round(sqrt(nbytes * start / rest)))", "nbytes / max(1, chunk)"],
          "you take chunks of 0; 1 bytes, a whole number, is best"),
]

RIGHT = [
    Right("27.1", "Isend and Irecv, both waited for",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n", """\
    coming = comm.Irecv(inbox, source=source)
    leaving = comm.Isend(outbox, dest=dest)
    coming.Wait()
    leaving.Wait()
"""),
    Right("27.1", "by position, with its tags and a status",
          "comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)",
          "comm.Sendrecv(outbox, dest, 0, inbox, source, 0)"),
    Right("27.1", "names for copies, keyword arguments", [
          "device.to_host(outbox, out).wait()", "comm.Sendrecv(outbox, dest=dest,"], [
          "copy = device.to_host(host=outbox, memory=out)\n    copy.wait()",
          "comm.Sendrecv(sendbuf=outbox, dest=dest,"]),
    Right("27.2", "keywords, a while, the end by Waitall in order", [
          "for i in range(len(pieces)):", "comm.Irecv(half(inbox, i), source=source)",
          "comm.Isend(half(outbox, i), dest=dest)"], [
          "for i, _ in enumerate(pieces):", "comm.Irecv(buf=half(inbox, i), source=source)",
          "comm.Isend(buf=half(outbox, i), dest=dest)"]),
    Right("27.2", "MPI.Request.Waitall at the end", DONE, """\
    from mpi4py import MPI

    MPI.Request.Waitall(sent)
    for copy in landed:
        copy.wait()"""),
    Right("27.2", "Sendrecv, while the next chunk is copied", [
          "        coming = comm.Irecv(half(inbox, i), source=source)\n",
          "        sent.append(comm.Isend(half(outbox, i), dest=dest))\n", SENT, "coming.Wait()", DONE], [
          "", "", "", "comm.Sendrecv(half(outbox, i), dest, 0, half(inbox, i), source)",
          "    for copy in landed:\n        copy.wait()"]),
    Right("27.3", "by the number of chunks", BEST,
          "max(1, min(nbytes, round(nbytes / sqrt(nbytes * rest / start))))"),
    Right("27.3", "a NumPy number, cut by np.clip", BEST,
          "np.clip(np.rint(np.sqrt(nbytes * start / rest)), 1, nbytes).astype(int)"),
    Right("27.3", "sorted by seconds per byte", [
          "start, slow = max(steps, key=lambda step: step[1])",
          "rest = sum(per_byte for _, per_byte in steps) - slow"], [
          "*others, (start, slow) = sorted(steps, key=lambda step: step[1])",
          "rest = sum(per_byte for _, per_byte in others)"]),
]
