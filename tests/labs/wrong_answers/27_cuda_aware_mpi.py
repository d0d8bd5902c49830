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

WRONG = [
    Wrong(
        "27.1",
        "no wait for the copy to the host",
        old="device.to_host(outbox, out).wait()",
        new="device.to_host(outbox, out)",
        says="got rubbish of a pinned buffer",
    ),
    Wrong(
        "27.1",
        "no wait for the copy to the device",
        old="device.to_device(into, inbox).wait()",
        new="device.to_device(into, inbox)",
        says="was not filled. All copies awaited?",
    ),
    Wrong(
        "27.1",
        "hands plain MPI the device's memory",
        old="comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)",
        new="comm.Sendrecv(out, dest=dest, recvbuf=into, source=source)",
        says="upper-case calls move NumPy arrays",
    ),
    Wrong(
        "27.1",
        "dest and source exchanged",
        old="dest=dest, recvbuf=inbox, source=source",
        new="dest=source, recvbuf=inbox, source=dest",
        says="`into` on rank",
    ),
    Wrong(
        "27.1",
        "copies back what was sent",
        old="device.to_device(into, inbox)",
        new="device.to_device(into, outbox)",
        says="beside `out` of rank",
    ),
    Wrong(
        "27.1",
        "Send, then Recv: waits for ever",
        old="    comm.Sendrecv(outbox, dest=dest, recvbuf=inbox, source=source)\n",
        new="    comm.Send(outbox, dest=dest)\n    comm.Recv(inbox, source=source)\n",
        says="waits in Send",
    ),
    Wrong(
        "27.1",
        "memory that is not pinned",
        old="device.to_host(outbox, out).wait()",
        new="device.to_host(np.empty(len(out), np.uint8), out).wait()",
        says="pinned memory from device.pinned",
    ),
    Wrong(
        "27.2",
        "waits for each chunk to come before it copies the next",
        old=LATE,
        new="""        coming.Wait()
        if i + 1 < len(pieces):
            if i > 0:
                sent[i - 1].Wait()
            copy = device.to_host(half(outbox, i + 1), out[pieces[i + 1]])
""",
        says="in turns",
    ),
    Wrong(
        "27.2",
        "waits for each copy to the device at once",
        old=COME,
        new=COME.rstrip() + "\n        landed[i].wait()\n",
        says="in turns",
    ),
    Wrong(
        "27.2",
        "one step after another",
        old=[LATE, COME],
        new=[
            "        coming.Wait()\n        sent[i].Wait()\n",
            COME + "        landed[i].wait()\n        if i + 1 < len(pieces):\n" + NEXT + "\n",
        ],
        says="in turns",
    ),
    Wrong(
        "27.2",
        "receives into a half that is still being copied to the device",
        old=LANDED,
        new="",
        says="`into` on rank",
    ),
    Wrong(
        "27.2",
        "copies into a half that is still being sent",
        old=SENT,
        new="",
        says="before",
    ),
    Wrong(
        "27.2",
        "sends before the chunk is on the host",
        old="        copy.wait()\n        sent.append",
        new="        sent.append",
        says="rubbish of a pinned buffer",
    ),
    Wrong("27.2", "no wait at the end", old=DONE, new="", says="never waited for"),
    Wrong(
        "27.2",
        "waits for its sends alone at the end",
        old=DONE,
        new="    for request in sent:\n        request.Wait()",
        says="was not filled",
    ),
    Wrong(
        "27.2",
        "forgets its last sends",
        old=DONE,
        new="    for copy in landed:\n        copy.wait()",
        says="Isend",
    ),
    Wrong(
        "27.2",
        "drops the last chunk if it is short",
        old=["for i in range(len(pieces)):", "if i + 1 < len(pieces):"],
        new=["for i in range(max(1, len(out) // chunk)):", "if i + 1 < len(out) // chunk:"],
        says="was not filled",
    ),
    Wrong(
        "27.2",
        "copies the chunk before to where this one belongs",
        old="device.to_device(into[pieces[i]], half(inbox, i))",
        new="device.to_device(into[pieces[i]], half(inbox, i + 1)[: pieces[i].stop - pieces[i].start])"
        " if i + 1 < len(pieces) else device.to_device(into[pieces[i]], half(inbox, i))",
        says="Slice the longer one",
    ),
    Wrong(
        "27.3",
        "built for CUDA is enough",
        old=SAFE,
        new="return built is True",
        says="'MVAPICH2 Version      :\\t2.3.7', built: True, MV2_USE_CUDA=0: you say True; it would crash",
    ),
    Wrong("27.3", "believes the variable alone", old=SAFE, new="return on", says="built: False"),
    Wrong(
        "27.3",
        "takes no answer for yes",
        old='built is True or (built is None and name == "CRAY MPICH")',
        new="built is not False",
        says="built: None",
    ),
    Wrong(
        "27.3",
        "wants an answer of Cray MPICH, too",
        old=SAFE,
        new="return on and built is True",
        says="'CRAY MPICH version 8.1', built: None",
    ),
    Wrong(
        "27.3",
        "looks for the name in all lines",
        old="if name in version.splitlines()[0]:",
        new="if name in version:",
        says="'MVAPICH Version:   4.1', built: True",
    ),
    Wrong(
        "27.3",
        "unset means off for all",
        old="environment.get(variable, default)",
        new='environment.get(variable, "0")',
        says="MVP_ENABLE_GPU=None: you say False; it takes device memory",
    ),
    Wrong(
        "27.3",
        "unset means on for all",
        old="environment.get(variable, default)",
        new='environment.get(variable, "1")',
        says="MV2_USE_CUDA=None: you say True; it would crash",
    ),
    Wrong(
        "27.3",
        "knows 0 alone as off",
        old='not in ("0", "false")',
        new='!= "0"',
        says="OMPI_MCA_opal_cuda_support=false",
    ),
    Wrong(
        "27.3",
        "what is not in the list is safe if it says so",
        old="    return False",
        new="    return built is True",
        says="Intel(R) MPI",
    ),
    Wrong(
        "27.4",
        "the number of chunks, not their bytes",
        old="round(sqrt(nbytes * start / rest))",
        new="round(sqrt(nbytes * rest / start))",
        says="is best",
    ),
    Wrong(
        "27.4",
        "all three steps in r",
        old="for _, each in steps) - slow",
        new="for _, each in steps)",
        says="is best",
    ),
    Wrong(
        "27.4",
        "the slowest step in r",
        old="rest = sum(each for _, each in steps) - slow",
        new="rest = slow",
        says="is best",
    ),
    Wrong("27.4", "no root", old="sqrt(nbytes * start / rest)", new="nbytes * start / rest", says="is best"),
    Wrong(
        "27.4",
        "not a whole number",
        old="round(sqrt(nbytes * start / rest))",
        new="sqrt(nbytes * start / rest)",
        says="a whole number",
    ),
    Wrong(
        "27.4",
        "chunks longer than the message",
        old="max(1, min(nbytes, round(sqrt(nbytes * start / rest))))",
        new="max(1, round(sqrt(nbytes * start / rest)))",
        says="1e+03 bytes",
    ),
    Wrong(
        "27.4",
        "never gives the MPI device memory",
        old="        return 0\n",
        new="        return chunk\n",
        says="direct takes 0.97",
    ),
    Wrong(
        "27.4",
        "gives it always",
        old="if direct and direct[0] + nbytes * direct[1] < pipeline_time(nbytes, nbytes / chunk, steps):",
        new="if direct:",
        says="direct takes 1.03",
    ),
    Wrong(
        "27.4",
        "compares with staging in one piece",
        old="pipeline_time(nbytes, nbytes / chunk, steps)",
        new="pipeline_time(nbytes, 1, steps)",
        says="direct takes 1.03",
    ),
    Wrong(
        "27.4",
        "device memory costs nothing per byte",
        old="direct[0] + nbytes * direct[1]",
        new="direct[0]",
        says="direct takes 1.03",
    ),
    Wrong(
        "27.4",
        "the start of the first step, not of the slowest",
        old="rest = sum",
        new="start = steps[0][0]\n    rest = sum",
        says="is best",
    ),
    Wrong(
        "27.4",
        "chunks of no bytes where steps start at once",
        old="max(1, min(nbytes, round(sqrt(nbytes * start / rest))))",
        new="min(nbytes, round(sqrt(nbytes * start / rest)))",
        says="chunks of 0 bytes; 1, a whole number, is best",
    ),
]
