"""Mistakes that learners make in lab 35, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"epochs": 2, "seeds": (0,), "values_real": 4096, "patience": 20}

MEAN = "arrived.mean(axis=0, dtype=np.float32)"
ERROR = "    error[:] = wanted - expand(message, n)"
SUM = "sum(expand(row, n) for row in messages) / comm.size"

# fmt: off
RIGHT = [
    Right("35.1", "float16 put into `chunks` row by row, NumPy's float16 mean of float32",
          ["chunks.ravel()[:n] = gradient * scale", MEAN + ".astype(np.float16)"],
          ["chunks.reshape(-1)[:n] = np.multiply(gradient, np.float32(scale)).astype(np.float16)",
           "np.float16(arrived.astype(np.float32).sum(axis=0) / p)"]),
    Right("35.1", "the mean in float64, the way back with `[:n]` at the end",
          [MEAN, "return chunks.ravel()[:n].astype(np.float32) / np.float32(scale)"],
          ["arrived.astype(np.float64).mean(axis=0)",
           "return (chunks.astype(np.float32).ravel() / np.float32(scale))[:n]"]),
    Right("35.2", "tobytes and frombuffer, np.where",
          ["np.concatenate([means.view(np.uint8), np.packbits(up)])",
           "means[np.unpackbits(message[8:], count=n)]"],
          ["np.frombuffer(means.tobytes() + np.packbits(up).tobytes(), np.uint8)",
           "np.where(np.unpackbits(message[8:])[:n], means[1], means[0])"]),
    Right("35.2", "sums over counts",
          ["means[0] = values[~up].mean()", "means[1] = values[up].mean()"],
          ["means[0] = values[values < 0].sum() / np.sum(~up)",
           "means[1] = np.where(up, values, 0).sum() / up.sum()"]),
    Right("35.3", "np.subtract into `error`, a loop over the rows",
          [ERROR, f"    return {SUM}"],
          ["    np.subtract(wanted, expand(message, n), out=error)", """\
    mean = np.zeros(n, np.float32)
    for row in messages:
        mean += expand(row, n) / comm.size
    return mean"""]),
    Right("35.3", "the error added first, in place; buffers by keyword",
          ["    wanted = gradient + error\n", "compress(wanted)", ERROR, "comm.Allgather(message, messages)"],
          ["    error += gradient\n", "compress(error)", "    error -= expand(message, n)",
           "comm.Allgather(sendbuf=message, recvbuf=messages)"]),
    Right("35.3", "the messages travel while the error is kept",
          [ERROR + "\n", "    comm.Allgather(message, messages)\n"],
          ["", f"    request = comm.Iallgather(message, messages)\n{ERROR}\n    request.Wait()\n"]),
]

WRONG = [
    Wrong("35.1", "added up in float16: large values overflow on the way",
          MEAN, "(arrived.sum(axis=0, dtype=np.float16) / p)", "up to 60000, scale 1: the mean"),
    Wrong("35.1", "the scale comes after the rounding: tiny values are lost",
          "chunks.ravel()[:n] = gradient * scale",
          "chunks.ravel()[:n] = gradient.astype(np.float16) * np.float16(min(scale, 6e4))",
          "Multiply by `scale` in float32"),
    Wrong("35.1", "values are rounded, but travel as float32",
          "        comm.Allgather(mean.view(np.uint16), chunks.view(np.uint16))", """\
        full = np.empty(chunks.shape, np.float32)
        comm.Allgather(mean.astype(np.float32), full)
        chunks[:] = full""", "float16, there and back, sends"),
    Wrong("35.1", "cut down to the largest float16: nobody sees the overflow",
          "= gradient * scale", "= np.clip(gradient * scale, -65504, 65504)",
          "The last should be inf, so that all can see it"),
    Wrong("35.1", "divided by the ranks in float16, then added up in float32",
          MEAN, "(arrived / np.float16(p)).sum(axis=0, dtype=np.float32)",
          "It is the mean of a float32 sum"),
    Wrong("35.1", "the caller's gradient is scaled", "        chunks.ravel()[:n] = gradient * scale",
          "        gradient *= scale\n        chunks.ravel()[:n] = gradient",
          "scale 1024: the gradient was changed"),
    Wrong("35.1", "divided by the scale while still in float16: tiny values are lost",
          "return chunks.ravel()[:n].astype(np.float32) / np.float32(scale)",
          "return (chunks.ravel()[:n] / np.float16(scale)).astype(np.float32)",
          "divide by it in float32"),
    Wrong("35.1", "not divided by the scale", " / np.float32(scale)", "",
          "divide by it in float32"),
    Wrong("35.2", "the means are cleared in the caller's message",
          "    return means[np.unpackbits(message[8:], count=n)]",
          "    values = means[np.unpackbits(message[8:], count=n)]\n    means[:] = 0\n    return values",
          "the message was changed; it belongs to the caller"),
    Wrong("35.2", "one mean magnitude for both signs", """\
    if not up.all():
        means[0] = values[~up].mean()
    if up.any():
        means[1] = values[up].mean()""", "    means[:] = -np.abs(values).mean(), np.abs(values).mean()",
          "the message's two means"),
    Wrong("35.2", "means of 8 bytes each",
          "[means.view(np.uint8)", "[means.astype(np.float64).view(np.uint8)",
          "bytes of the message: expected 9, got 17"),
    Wrong("35.2", "the bits of a byte are read from its other end",
          "message[8:], count=n)", 'message[8:], count=n, bitorder="little")', "what comes back"),
    Wrong("35.2", "the filling of the last byte comes back as values",
          "message[8:], count=n)", "message[8:])", "shape of what comes back"),
    Wrong("35.2", "the other way round, there and back",
          ["np.packbits(up)", "means[np.unpackbits(message[8:], count=n)]"],
          ["np.packbits(~up)", "means[1 - np.unpackbits(message[8:], count=n)]"],
          "the message's bits, 0 where a value is below 0"),
    Wrong("35.2", "a byte is filled from its other end, there and back",
          ["np.packbits(up)", "message[8:], count=n)"],
          ['np.packbits(up, bitorder="little")', 'message[8:], count=n, bitorder="little")'],
          "the message's bits, 0 where a value is below 0"),
    Wrong("35.2", "float64 comes back", "means[np.unpackbits(message[8:], count=n)]",
          "np.where(np.unpackbits(message[8:], count=n), float(means[1]), float(means[0]))",
          "what comes back: dtype: expected 'float32', got 'float64'"),
    Wrong("35.3", "what was left is not added",
          "wanted = gradient + error", "wanted = gradient", "This is the result without the error of the step before"),
    Wrong("35.3", "a new name instead of the caller's array",
          "error[:] = wanted", "error = wanted", "change the caller's array in place, `error[:] = …`"),
    Wrong("35.3", "the error is added to the old error", "error[:] = wanted", "error += wanted",
          "The new error replaces the old one, which `wanted` contains"),
    Wrong("35.3", "the error of the mean of all, not of the own message", [ERROR + "\n", f"    return {SUM}"],
          ["", f"    mean = {SUM}\n    error[:] = wanted - mean\n    return mean"],
          "2 ranks, 7 values, step 1, rank"),
    Wrong("35.3", "what the messages say travels as float32",
          "    messages = np.empty((comm.size, len(message)), np.uint8)\n"
          "    # Across ranks: all ranks get all messages.\n"
          "    comm.Allgather(message, messages)\n"
          "    return " + SUM,
          """\
    said, total = expand(message, n), np.empty(n, np.float32)
    comm.Allreduce(said, total)
    return total / comm.size""", "an allgather of the messages sends"),
    Wrong("35.3", "the error is added into the caller's gradient",
          "    wanted = gradient + error", "    wanted = gradient\n    wanted += error",
          "the gradient was changed"),
]
