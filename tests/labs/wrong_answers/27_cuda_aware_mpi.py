"""Mistakes that learners make in lab 27, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

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
SAFE = 'return on and (built is True or (built is None and name == "CRAY MPICH"))'
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
          "comm.Sendrecv(out, dest=dest, recvbuf=into, source=source)", "upper-case calls move NumPy arrays"),
    Wrong("27.1", "dest and source exchanged",
          "dest=dest, recvbuf=inbox, source=source", "dest=source, recvbuf=inbox, source=dest",
          "`into` on rank"),
    Wrong("27.1", "copies back what was sent",
          "device.to_device(into, inbox)", "device.to_device(into, outbox)", "beside `out` of rank"),
    Wrong("27.1", "one box for both: MPI forbids to receive into what the same call sends",
          ["recvbuf=inbox", "device.to_device(into, inbox)"],
          ["recvbuf=outbox", "device.to_device(into, outbox)"],
          "`outbox` on rank 0 was overwritten. MPI forbids"),
    Wrong("27.1", "Send, then Recv: waits for ever",
          "    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n",
          "    comm.Send(outbox, dest=dest)\n    comm.Recv(inbox, source=source)\n", "waits in Send"),
    Wrong("27.1", "memory that is not pinned",
          "device.to_host(outbox, out).wait()", "device.to_host(np.empty(len(out), np.uint8), out).wait()",
          "pinned memory from device.pinned"),
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
          LANDED, "", "`into` on rank"),
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
    Wrong("27.2", "copies the chunk before to where this one belongs",
          "device.to_device(into[pieces[i]], half(inbox, i))",
          "device.to_device(into[pieces[i]], half(inbox, i + 1)[: pieces[i].stop - pieces[i].start]) "
          "if i + 1 < len(pieces) else device.to_device(into[pieces[i]], half(inbox, i))",
          "Slice the longer one"),
    Wrong("27.3", "built for CUDA is enough", SAFE, "return built is True",
          r"'MVAPICH2 Version      :\t2.3.7', built: True, MV2_USE_CUDA=0: you say True; it would crash"),
    Wrong("27.3", "believes the variable alone", SAFE, "return on", "built: False"),
    Wrong("27.3", "takes no answer for yes",
          'built is True or (built is None and name == "CRAY MPICH")', "built is not False", "built: None"),
    Wrong("27.3", "wants an answer of Cray MPICH, too",
          SAFE, "return on and built is True", "(ANL base 3.4a2)', built: None"),
    Wrong("27.3", "looks for the name in all lines",
          "if name in version.splitlines()[0]:", "if name in version:",
          "'MVAPICH Version:   4.1', built: True"),
    Wrong("27.3", "wants the name at the beginning of the line",
          "if name in version.splitlines()[0]:", "if version.splitlines()[0].startswith(name):",
          "CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)', built: True"),
    Wrong("27.3", "knows 1 and true alone as on",
          'not in ("0", "false")', 'in ("1", "true")', "MV2_USE_CUDA=2: you say False"),
    Wrong("27.3", "unset means off for all",
          "environment.get(variable, default)", 'environment.get(variable, "0")',
          "MVP_ENABLE_GPU=None: you say False; it takes device memory"),
    Wrong("27.3", "unset means on for all",
          "environment.get(variable, default)", 'environment.get(variable, "1")',
          "MV2_USE_CUDA=None: you say True; it would crash"),
    Wrong("27.3", "knows 0 alone as off",
          'not in ("0", "false")', '!= "0"', "OMPI_MCA_opal_cuda_support=false"),
    Wrong("27.3", "knows 1 alone as on",
          'not in ("0", "false")', '== "1"', "MV2_USE_CUDA=2: you say False"),
    Wrong("27.3", "what is not in the list is safe if it says so",
          "    return False", "    return built is True", "Intel(R) MPI"),
    Wrong("27.4", "the number of chunks, not their bytes",
          "round(sqrt(nbytes * start / rest))", "round(sqrt(nbytes * rest / start))", "is best"),
    Wrong("27.4", "all three steps in r",
          "for _, per_byte in steps) - slow", "for _, per_byte in steps)", "is best"),
    Wrong("27.4", "the slowest step in r",
          "rest = sum(per_byte for _, per_byte in steps) - slow", "rest = slow", "is best"),
    Wrong("27.4", "no root", "sqrt(nbytes * start / rest)", "nbytes * start / rest", "is best"),
    Wrong("27.4", "not a whole number",
          "round(sqrt(nbytes * start / rest))", "sqrt(nbytes * start / rest)", "a whole number"),
    Wrong("27.4", "chunks longer than the message",
          BEST, "max(1, round(sqrt(nbytes * start / rest)))", "1e+03 bytes"),
    Wrong("27.4", "never gives the MPI device memory",
          "        return 0\n", "        return chunk\n", "direct takes 0.97"),
    Wrong("27.4", "gives it always",
          "if direct and direct[0] + nbytes * direct[1] < pipeline_time(nbytes, nbytes / chunk, steps):",
          "if direct:", "direct takes 1.03"),
    Wrong("27.4", "compares with staging in one piece",
          "pipeline_time(nbytes, nbytes / chunk, steps)", "pipeline_time(nbytes, 1, steps)",
          "direct takes 1.03"),
    Wrong("27.4", "device memory costs nothing per byte",
          "direct[0] + nbytes * direct[1]", "direct[0]", "direct takes 1.03"),
    Wrong("27.4", "the start of the first step, not of the slowest",
          "rest = sum", "start = steps[0][0]\n    rest = sum", "is best"),
    Wrong("27.4", "chunks of no bytes where steps start at once",
          BEST, "min(nbytes, round(sqrt(nbytes * start / rest)))",
          "chunks of 0 bytes; 1, a whole number, is best"),
]
