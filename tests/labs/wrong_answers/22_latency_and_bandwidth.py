"""Mistakes that learners make in lab 22, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

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

WRONG = [
    Wrong(
        "22.1",
        "the whole round trip",
        old="seconds.append((clock() - start) / 2)",
        new="seconds.append(clock() - start)",
        says="you say 2, which is there and back",
    ),
    Wrong(
        "22.1",
        "no warm-up",
        old=["range(skip + rounds)", "        if one >= skip:\n            seconds"],
        new=["range(rounds)", "        if True:\n            seconds"],
        says="one of those 10 is among your values",
    ),
    Wrong(
        "22.1",
        "the warm-up counts too",
        old="        if one >= skip:\n            seconds",
        new="        if True:\n            seconds",
        says="the number of values, with rounds=40 and skip=10: expected 40, got 50",
    ),
    Wrong(
        "22.1",
        "only the first round left out",
        old=["range(skip + rounds)", "if one >= skip:"],
        new=["range(1 + rounds)", "if one >= 1:"],
        says="one of those 10 is among your values",
    ),
    Wrong(
        "22.1",
        "one warm-up round too few left out",
        old=["range(skip + rounds)", "if one >= skip:"],
        new=["range(skip + rounds - 1)", "if one >= skip - 1:"],
        says="one of those 10 is among your values",
    ),
    Wrong(
        "22.1",
        "the mean, which interruptions move",
        old="np.median(seconds)",
        new="np.mean(seconds)",
        says="some later ones are held up by 1 ms: your latency in seconds",
    ),
    Wrong(
        "22.1",
        "the fastest round",
        old="typical = np.median(seconds)",
        new="typical = min(seconds) * 0.97",
        says="your latency in seconds",
    ),
    Wrong(
        "22.1",
        "the fastest round as it is",
        old="np.median(seconds)",
        new="min(seconds)",
        says="your number, beside your values' median",
    ),
    Wrong(
        "22.1",
        "the last round",
        old="np.median(seconds)",
        new="seconds[-1]",
        says="median",
    ),
    Wrong(
        "22.1",
        "the mean of the faster half",
        old="np.median(seconds)",
        new="np.mean(sorted(seconds)[: rounds // 2])",
        says="your number, beside your values' median",
    ),
    Wrong(
        "22.1",
        "an exchange, both send at once",
        old=TRIP + "        if one >= skip:\n            seconds.append((clock() - start) / 2)",
        new="""        comm.Sendrecv(ball, dest=1 - comm.rank, recvbuf=ball.copy(), source=1 - comm.rank)
        if one >= skip:
            seconds.append(clock() - start)""",
        says="both send at once",
    ),
    Wrong(
        "22.1",
        "microseconds",
        old="np.median(seconds)",
        new="np.median(seconds) * 1e6",
        says="your latency in seconds: expected 1e-06, got 1",
    ),
    Wrong(
        "22.1",
        "times the send alone",
        old=TRIP + "        if one >= skip:\n            seconds.append((clock() - start) / 2)",
        new="""        if comm.rank == 0:
            comm.Send(ball, dest=1)
            seconds.append(clock() - start)
            comm.Recv(ball, source=1)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)
        seconds = seconds[-rounds:]""",
        says="your latency in seconds: expected 1e-06, got 0",
    ),
    Wrong(
        "22.1",
        "both ranks receive first",
        old="            comm.Send(ball, dest=1)\n            comm.Recv(ball, source=1)\n",
        new="            comm.Recv(ball, source=1)\n            comm.Send(ball, dest=1)\n",
        says="wait",
    ),
    Wrong(
        "22.2",
        "no final reply",
        old=REPLY,
        new="",
        says="more than the link carries",
    ),
    Wrong(
        "22.2",
        "MB of 2^20 bytes",
        old="/ 1e6)",
        new="/ 2**20)",
        says="of 2^20 bytes; MB is 10^6",
    ),
    Wrong(
        "22.2",
        "one message after another",
        old=SENDS,
        new="""        for i in range(window):
            if comm.rank == 0:
                comm.Send(data, dest=1)
            else:
                comm.Recv(inbox[i], source=0)
""",
        says="Are all started before the first Wait",
    ),
    Wrong(
        "22.2",
        "waits for each request at once",
        old=SENDS,
        new="""        for row in inbox:
            (comm.Isend(data, dest=1) if comm.rank == 0 else comm.Irecv(row, source=0)).Wait()
""",
        says="Are all started before the first Wait",
    ),
    Wrong(
        "22.2",
        "a reply to every message",
        old=SENDS + REPLY,
        new="""        for row in inbox:
            if comm.rank == 0:
                comm.Send(data, dest=1)
                comm.Recv(reply, source=1)
            else:
                comm.Recv(row, source=0)
                comm.Send(reply, dest=0)
""",
        says="Are all started before the first Wait",
    ),
    Wrong(
        "22.2",
        "a reply to every message, while others are under way",
        old="            request.Wait()\n" + REPLY,
        new="""            request.Wait()
            if comm.rank == 0:
                comm.Recv(reply, source=1)
            else:
                comm.Send(reply, dest=0)
""",
        says="but not one reply a window",
    ),
    Wrong(
        "22.2",
        "bytes for MB",
        old=" / 1e6)",
        new=")",
        says="In 10^6 bytes?",
    ),
    Wrong(
        "22.2",
        "the bytes of one message",
        old="rates.append(window * nbytes /",
        new="rates.append(nbytes /",
        says="Are all started before the first Wait",
    ),
    Wrong(
        "22.2",
        "half of the time, as in ping-pong",
        old="(clock() - start) / 1e6)",
        new="((clock() - start) / 2) / 1e6)",
        says="more than the link carries",
    ),
    Wrong(
        "22.2",
        "all receives into one row",
        old="comm.Irecv(row, source=0) for row in inbox",
        new="comm.Irecv(inbox[0], source=0) for _ in inbox",
        says="Wait for that request first",
    ),
    Wrong(
        "22.2",
        "no warm-up",
        old=["range(skip + rounds)", "        if one >= skip:\n            rates"],
        new=["range(rounds)", "        if True:\n            rates"],
        says="A warm-up round is among your values",
    ),
    Wrong(
        "22.2",
        "the receiver does not wait",
        old="        for request in requests:\n            request.Wait()\n",
        new="        for request in requests if comm.rank == 0 else []:\n            request.Wait()\n",
        says="that is not over",
    ),
    Wrong(
        "22.3",
        "plain least squares: the longest messages decide",
        old=FIT,
        new="    beta, alpha = np.polyfit(sizes, seconds, 1)\n",
        says="is each error divided by its own t?",
    ),
    Wrong(
        "22.3",
        "errors divided by t²",
        old=FIT,
        new="    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / seconds**2)\n",
        says="is each error divided by its own t?",
    ),
    Wrong(
        "22.3",
        "errors divided by √t",
        old=FIT,
        new="    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.sqrt(seconds))\n",
        says="is each error divided by its own t?",
    ),
    Wrong(
        "22.3",
        "a line through the first and the last time",
        old=FIT,
        new="    alpha, beta = seconds[0], (seconds[-1] - seconds[0]) / sizes[-1]\n",
        says="is each error divided by its own t?",
    ),
    Wrong(
        "22.3",
        "the sum of (α + nβ - t)², as equations",
        old=FIT,
        new="""    columns = np.stack([np.ones(len(sizes)), sizes], axis=1)
    alpha, beta = np.linalg.lstsq(columns, seconds, rcond=None)[0]
""",
        says="is each error divided by its own t?",
    ),
    Wrong(
        "22.3",
        "α from the shortest, β from the longest message, forgetting α",
        old=FIT,
        new="    alpha, beta = seconds[0], seconds[len(seconds) // 2] / sizes[len(seconds) // 2]\n",
        says="your β: expected",
    ),
    Wrong(
        "22.3",
        "a line through the logarithms",
        old=FIT,
        new="    beta, alpha = np.exp(np.polyfit(np.log(sizes), np.log(seconds), 1))\n",
        says="your α: expected",
    ),
    Wrong(
        "22.3",
        "bandwidth for β",
        old="return alpha, beta, alpha / beta",
        new="return alpha, 1 / beta, alpha / beta",
        says="your β: expected",
    ),
    Wrong(
        "22.3",
        "n½ upside down",
        old="return alpha, beta, alpha / beta",
        new="return alpha, beta, beta / alpha",
        says="your n½: expected",
    ),
    Wrong(
        "22.3",
        "n½ as α times β",
        old="return alpha, beta, alpha / beta",
        new="return alpha, beta, alpha * beta",
        says="your n½: expected",
    ),
    Wrong(
        "22.3",
        "α and β in the other order",
        old="return alpha, beta, alpha / beta",
        new="return beta, alpha, alpha / beta",
        says="your α: expected",
    ),
    Wrong(
        "22.4",
        "the factor upside down",
        old="2 * (p - 1) / p",
        new="p / (p - 1) if p > 1 else 0.0",
        says="busbw in GB/s",
    ),
    Wrong(
        "22.4",
        "reduce-scatter's factor",
        old="algbw * 2 * (p - 1) / p",
        new="algbw * (p - 1) / p",
        says="busbw in GB/s",
    ),
    Wrong(
        "22.4",
        "GB of 2^30 bytes",
        old="nbytes / mean / 1e9",
        new="nbytes / mean / 2**30",
        says="algbw in GB/s, of 10^9 bytes",
    ),
    Wrong(
        "22.4",
        "the slowest rank for the mean",
        old="np.mean(seconds)",
        new="np.mean(np.max(seconds, axis=0))",
        says="2 ranks, 10^8 bytes, calls of 0.026 s in the mean: µs",
    ),
    Wrong(
        "22.4",
        "the median for the mean",
        old="np.mean(seconds)",
        new="np.median(seconds)",
        says="µs: expected 26000, got 26500",
    ),
    Wrong(
        "22.4",
        "the bytes of all ranks",
        old="algbw = nbytes /",
        new="algbw = p * nbytes /",
        says="algbw in GB/s",
    ),
    Wrong(
        "22.4",
        "milliseconds",
        old="mean * 1e6",
        new="mean * 1e3",
        says="µs: expected 26000, got 26",
    ),
    Wrong(
        "22.4",
        "calls taken for ranks",
        old="len(seconds)",
        new="len(seconds[0])",
        says="busbw in GB/s",
    ),
]
