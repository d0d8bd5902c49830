"""Mistakes that learners make in lab 22, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "longest": 1 << 16,
    "trip_rounds": ((200, 20), (20, 3)),
    "window_rounds": ((5, 2), (3, 1)),
    "call_rounds": ((5, 2), (3, 1)),
}

TRIP = """        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)
"""
SENDS = """        if comm.rank == 0:
            requests = [comm.Isend(data, dest=1) for _ in range(window)]
        else:
            requests = [comm.Irecv(row, source=0) for row in inbox]
        for request in requests:
            request.Wait()
"""
REPLY = """        if comm.rank == 0:
            comm.Recv(reply, source=1)
        else:
            comm.Send(reply, dest=0)
"""
FIT = """    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    alpha, beta = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
"""
TIMED = "        if turn >= skip:\n            seconds.append((clock() - start) / 2)"

# fmt: off
RIGHT = [

    Right("22.1", "a comprehension of rounds, np.percentile", [TRIP + TIMED, "np.median(seconds)"], ["""\
        if comm.rank == 0:
            comm.Ssend(ball, 1)
            comm.Recv(ball, 1)
        else:
            comm.Recv(ball, 0)
            comm.Ssend(ball, 0)
        seconds.append((clock() - start) / 2)
    seconds = np.array(seconds[skip:])""", "np.percentile(seconds, 50)"]),
    Right("22.1", "requests", TRIP, """\
        if comm.rank == 0:
            comm.Isend(ball, dest=1).Wait()
            comm.Irecv(ball, source=1).Wait()
        else:
            comm.Irecv(ball, source=0).Wait()
            comm.Isend(ball, dest=0).Wait()
"""),
    Right("22.1", "a barrier before each round", "start = clock()", "comm.Barrier()\n        start = clock()"),
    Right("22.1", "only rank 0 has a clock, rank 1 returns None", [TRIP + TIMED, "range(skip + rounds)", "start = clock()\n",
                                                        "np.median(seconds)"], ["""\
        if comm.rank == 0:
            comm.Send(ball, 1)
            comm.Recv(ball, 1)
            half = (clock() - start) / 2
        else:
            comm.Recv(ball)
            comm.Send(ball, 0)
        if comm.rank == 0:
            seconds += [half]
    if comm.rank == 1:
        return None
    seconds = tuple(seconds[skip:])""", "range(rounds + skip)", "start = clock() if comm.rank == 0 else 0\n",
                                                        "sum(sorted(seconds)[(rounds - 1) // 2 : rounds // 2 + 1]) / (2 - rounds % 2)"]),
    Right("22.2", "types beside the buffers, the reply expected first", SENDS + REPLY, """\
        from mpi4py import MPI

        if comm.rank == 0:
            last = comm.Irecv([reply, MPI.BYTE], source=1)
            requests = {i: comm.Isend([data, MPI.BYTE], dest=1) for i in range(window)}
        else:
            requests = {i: comm.Irecv([inbox[i, :], MPI.BYTE], source=0) for i in reversed(range(window))}
        while not all([request.Test() for request in requests.values()]):
            pass
        if comm.rank == 0:
            last.Wait()
        else:
            comm.Send([reply, MPI.BYTE], dest=0)
"""),
    Right("22.2", "Waitall", "        for request in requests:\n            request.Wait()\n", """\
        from mpi4py import MPI

        MPI.Request.Waitall(requests)
"""),
    Right("22.2", "loops, and the reply by a request", SENDS + REPLY, """\
        requests = []
        for i in range(window):
            if comm.rank == 0:
                requests.append(comm.Isend(data, 1, i))
            else:
                requests.append(comm.Irecv(inbox[i], 0, i))
        while requests:
            requests.pop().wait()
        end = comm.Irecv(reply, 1) if comm.rank == 0 else comm.Isend(reply, 0)
        end.Wait()
"""),
    Right("22.3", "polyfit with weights", FIT,
          "    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / seconds)\n"),
    Right("22.3", "the normal equations", FIT, """\
    columns = np.vstack([1 / seconds, sizes / seconds]).T
    alpha, beta = np.linalg.solve(columns.T @ columns, columns.T @ np.ones(len(sizes)))
"""),
    Right("22.4", "the mean of the means", "np.mean(seconds)", "np.asarray(seconds).mean(axis=1).mean()"),
    Right("22.4", "the number of ranks from the shape, a list", ["len(seconds)", "mean * 1e6"],
          ["np.shape(seconds)[0]", "1e6 * sum(map(sum, seconds)) / np.size(seconds)"]),
]
WRONG = [
    Wrong("22.1", "the whole round trip",
          "seconds.append((clock() - start) / 2)", "seconds.append(clock() - start)",
          "(100.00%). You say 4, which is there and back"),
    Wrong("22.1", "no warm-up", ["range(skip + rounds)", "        if turn >= skip:\n            seconds"],
          ["range(rounds)", "        if True:\n            seconds"],
          "rank 0 sends 40000 bytes in all, not skip + rounds = 50 times 1000"),
    Wrong("22.1", "the first rounds count, the last do not", "turn >= skip", "turn < rounds",
          "one of those 10 is among your values"),
    Wrong("22.1", "a barrier in the timed part", "start = clock()", "start = clock()\n        comm.Barrier()",
          "keep it out of the timed part"),
    Wrong("22.1", "whole round trips in the list, and half of their median",
          ["(clock() - start) / 2", "np.median(seconds)"], ["clock() - start", "np.median(seconds) / 2"],
          "Those are whole round trips"),
    Wrong("22.1", "an empty reply", ["comm.Recv(ball, source=1)", "comm.Send(ball, dest=0)"],
          ["comm.Recv(ball[:0], source=1)", "comm.Send(ball[:0], dest=0)"], "rank 1 sends 0 bytes in all"),
    Wrong("22.1", "the clock is read once", ["    for turn in", "        start = clock()\n"],
          ["    start = clock()\n    for turn in", ""], "your values grow"),
    Wrong("22.1", "pickles", ["comm.Send(ball, dest=1)", "comm.Recv(ball, source=1)", "comm.Recv(ball, source=0)",
                              "comm.Send(ball, dest=0)"],
          ["comm.send(ball, dest=1)", "comm.recv(source=1)", "comm.recv(source=0)", "comm.send(ball, dest=0)"],
          "bytes in all, not skip + rounds = 50 times 1000"),
    Wrong("22.1", "the warm-up counts too",
          "        if turn >= skip:\n            seconds", "        if True:\n            seconds",
          "the number of values, with rounds=40 and skip=10: expected 40, got 50"),
    Wrong("22.1", "the mean, which interruptions move", "np.median(seconds)", "np.mean(seconds)",
          "some later ones are held up by 1 ms: your latency in seconds"),
    Wrong("22.1", "the fastest round as it is",
          "np.median(seconds)", "min(seconds)", "your number, beside your values' median"),
    Wrong("22.1", "the mean of the faster half",
          "np.median(seconds)", "np.mean(sorted(seconds)[: rounds // 2])",
          "your number, beside your values' median"),
    Wrong("22.1", "an exchange, both send at once", TRIP + TIMED, """\
        comm.Sendrecv(ball, dest=1 - comm.rank, recvbuf=ball.copy(), source=1 - comm.rank)
        if turn >= skip:
            seconds.append(clock() - start)""", "both send at once"),
    Wrong("22.1", "microseconds",
          "np.median(seconds)", "np.median(seconds) * 1e6", "your latency in seconds: expected 2e-06, got 2"),
    Wrong("22.1", "another clock", "start = clock()", "import time\n        start = (clock := time.perf_counter)()",
          "`clock()` was never called"),
    Wrong("22.1", "the median alone", "return typical, seconds", "return typical",
          "Return the median first, and then the list of all halves"),
    Wrong("22.1", "the list first", "return typical, seconds", "return seconds, typical",
          "Return the median first, and then the list of all halves"),
    Wrong("22.1", "both ranks receive first",
          "            comm.Send(ball, dest=1)\n            comm.Recv(ball, source=1)\n",
          "            comm.Recv(ball, source=1)\n            comm.Send(ball, dest=1)\n", "wait"),
    Wrong("22.2", "no final reply", REPLY, "", "more than the link carries"),
    Wrong("22.1", "all rounds, and the slowest of them dropped at the end",
          ["        if turn >= skip:\n            seconds.append((clock() - start) / 2)",
           "    typical = np.median(seconds)"],
          ["        seconds.append((clock() - start) / 2)",
           "    seconds = sorted(seconds)[:rounds]\n    typical = np.median(seconds)"],
          "your values are not those of the 40 rounds after these, in their order"),
    Wrong("22.1", "an exchange, and half of it", TRIP,
          "        comm.Sendrecv(ball, dest=1 - comm.rank, recvbuf=ball.copy(), source=1 - comm.rank)\n",
          "half of one way; do both send at once?"),
    Wrong("22.2", "one message after another", SENDS, """\
        for i in range(window):
            if comm.rank == 0:
                comm.Send(data, dest=1)
            else:
                comm.Recv(inbox[i], source=0)
""", "Are all started before the first Wait"),
    Wrong("22.2", "waits for each request at once", SENDS,
          "        for row in inbox:\n"
          "            (comm.Isend(data, dest=1) if comm.rank == 0 else comm.Irecv(row, source=0)).Wait()\n",
          "Are all started before the first Wait"),
    Wrong("22.2", "a reply to every message", SENDS + REPLY, """\
        for row in inbox:
            if comm.rank == 0:
                comm.Send(data, dest=1)
                comm.Recv(reply, source=1)
            else:
                comm.Recv(row, source=0)
                comm.Send(reply, dest=0)
""", "rank 0 sends 64 messages and rank 1 sends 64"),
    Wrong("22.2", "a reply to every message, while others are under way",
          "            request.Wait()\n" + REPLY, """\
            request.Wait()
            if comm.rank == 0:
                comm.Recv(reply, source=1)
            else:
                comm.Send(reply, dest=0)
""", "there should be 64, and one reply"),
    Wrong("22.2", "64 messages, whatever the window is",
          [" for _ in range(window)]", "(row, source=0) for row in inbox]"],
          [" for _ in range(64)]", "(np.empty_like(data), source=0) for _ in range(64)]"],
          "rank 0 sends 64 messages and rank 1 sends 1; there should be 4"),
    Wrong("22.2", "one message less", ["in range(window)", "for row in inbox"],
          ["in range(1, window)", "for row in inbox[1:]"], "rank 0 sends 63 messages"),
    Wrong("22.2", "a reply of a message's size", ["comm.Recv(reply,", "comm.Send(reply,"],
          ["comm.Recv(data,", "comm.Send(data,"], "the reply has 500 bytes"),
    Wrong("22.2", "new memory for each message", "comm.Irecv(row, source=0) for row in inbox",
          "comm.Irecv(np.empty_like(row), source=0) for row in inbox", "you receive into 88 buffers"),
    Wrong("22.2", "copies of the rows", "comm.Irecv(row, source=0) for row in inbox",
          "comm.Irecv(row.copy(), source=0) for row in inbox", "Receive into the 8 rows of `inbox`"),
    Wrong("22.2", "pickles", SENDS, """\
        if comm.rank == 0:
            requests = [comm.isend(data, dest=1) for _ in range(window)]
        else:
            requests = [comm.irecv(source=0) for row in inbox]
        for request in requests:
            request.wait()
""", "a message of rank 0 has 628 bytes"),
    Wrong("22.2", "half of the window, then the other half", SENDS, """\
        for half in (range(window // 2), range(window // 2, window)):
            if comm.rank == 0:
                requests = [comm.Isend(data, dest=1) for _ in half]
            else:
                requests = [comm.Irecv(inbox[i], source=0) for i in half]
            for request in requests:
                request.Wait()
""", "Something is waited for before all are started"),
    Wrong("22.2", "all receives into one row",
          "comm.Irecv(row, source=0) for row in inbox",
          "comm.Irecv(inbox[0], source=0) for _ in range(window)",
          "Wait for that request first"),
    Wrong("22.2", "nothing is sent", SENDS + REPLY, "        pass\n",
          "float division by zero"),
    Wrong("22.2", "the sender does not wait",
          "        for request in requests:\n            request.Wait()\n",
          "        for request in requests if comm.rank else []:\n            request.Wait()\n",
          "were never waited for: call their Wait"),
    Wrong("22.3", "powers of two, whatever the sizes are", "np.stack([1 / seconds, sizes / seconds]",
          "np.stack([1 / seconds, 2.0 ** np.arange(len(seconds)) / seconds]", "exact times: your α"),
    Wrong("22.3", "the caller's sizes are divided", "    columns = np.stack([1 / seconds, sizes / seconds]",
          "    sizes /= seconds\n    columns = np.stack([1 / seconds, sizes]",
          "An array of sizes or seconds was changed"),
    Wrong("22.3", "plain least squares: the longest messages decide",
          FIT, "    beta, alpha = np.polyfit(sizes, seconds, 1)\n", "is each error divided by its own t?"),
    Wrong("22.3", "errors divided by t²",
          FIT, "    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / seconds**2)\n",
          "is each error divided by its own t?"),
    Wrong("22.3", "a line through the first and the last time",
          FIT, "    alpha, beta = seconds[0], (seconds[-1] - seconds[0]) / sizes[-1]\n",
          "is each error divided by its own t?"),
    Wrong("22.3", "α from the shortest, β from the longest message, forgetting α",
          FIT, "    alpha, beta = seconds[0], seconds[len(seconds) // 2] / sizes[len(seconds) // 2]\n",
          "your β: expected"),
    Wrong("22.3", "a line through the logarithms",
          FIT, "    beta, alpha = np.exp(np.polyfit(np.log(sizes), np.log(seconds), 1))\n",
          "your α: expected"),
    Wrong("22.3", "bandwidth for β",
          "return alpha, beta, alpha / beta", "return alpha, 1 / beta, alpha / beta",
          "That is the bandwidth 1/β"),
    Wrong("22.3", "n½ upside down",
          "return alpha, beta, alpha / beta", "return alpha, beta, beta / alpha", "That is β/α"),
    Wrong("22.3", "n½ as α times β",
          "return alpha, beta, alpha / beta", "return alpha, beta, alpha * beta", "your n½: expected"),
    Wrong("22.3", "α and β in the other order",
          "return alpha, beta, alpha / beta", "return beta, alpha, alpha / beta",
          "That is β; α comes first"),
    Wrong("22.3", "without n½", "return alpha, beta, alpha / beta", "return alpha, beta",
          "Return three numbers: α, β and n½"),
    Wrong("22.4", "the caller's seconds become microseconds",
          ["    mean = np.mean(seconds)", "mean * 1e6, algbw"],
          ["    seconds *= 1e6\n    mean = np.mean(seconds) / 1e6", "np.mean(seconds), algbw"],
          "The array of seconds was changed"),
    Wrong("22.4", "the factor upside down",
          "2 * (p - 1) / p", "p / (p - 1) if p > 1 else 0.0", "busbw in GB/s"),
    Wrong("22.4", "reduce-scatter's factor",
          "algbw * 2 * (p - 1) / p", "algbw * (p - 1) / p", "busbw in GB/s"),
    Wrong("22.4", "the bytes of the first try", "nbytes / mean / 1e9", "0.1 / mean", "algbw in GB/s"),
    Wrong("22.4", "GB of 2^30 bytes",
          "nbytes / mean / 1e9", "nbytes / mean / 2**30", "algbw in GB/s, of 10^9 bytes"),
    Wrong("22.4", "the slowest rank for the mean", "np.mean(seconds)", "np.mean(np.max(seconds, axis=0))",
          "2 ranks, 10^8 bytes, calls of 0.026 s in the mean: the mean in µs"),
    Wrong("22.4", "the median for the mean",
          "np.mean(seconds)", "np.median(seconds)", "µs: expected 26000, got 26500"),
    Wrong("22.4", "the bytes of all ranks", "algbw = nbytes /", "algbw = p * nbytes /", "algbw in GB/s"),
    Wrong("22.4", "milliseconds", "mean * 1e6", "mean * 1e3", "µs: expected 26000, got 26"),
    Wrong("22.4", "calls taken for ranks", "len(seconds)", "len(seconds[0])",
          "That is right for 3 ranks, but there are 3 calls"),
    Wrong("22.4", "bytes rounded down", "algbw * 2 * (p - 1) / p", "nbytes * 2 * (p - 1) // p / mean / 1e9",
          "3 ranks, 10^1 bytes"),
]
