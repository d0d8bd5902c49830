"""Mistakes that learners make in lab 35, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"epochs": 2, "seeds": (0,), "values_real": 4096, "patience": 20}

MEAN = "arrived.mean(axis=0, dtype=np.float32)"
ERROR = "    error[:] = wanted - expand(message, n)"
SUM = "sum(expand(one, n) for one in messages) / comm.size"

WRONG = [
    Wrong(
        "35.1",
        "added up in float16: large values overflow on the way",
        old=MEAN,
        new="(arrived.sum(axis=0, dtype=np.float16) / p)",
        says="up to 60000, scale 1: the mean",
    ),
    Wrong(
        "35.1",
        "the scale comes after the rounding: tiny values are lost",
        old="chunks.ravel()[:n] = gradient * scale",
        new="chunks.ravel()[:n] = gradient.astype(np.float16) * np.float16(min(scale, 6e4))",
        says="up to 1e-08",
    ),
    Wrong(
        "35.1",
        "values are rounded, but travel as float32",
        old="        comm.Allgather(mean.view(np.uint16), chunks.view(np.uint16))",
        new="        full = np.empty(chunks.shape, np.float32)\n"
        "        comm.Allgather(mean.astype(np.float32), full)\n        chunks[:] = full",
        says="float16, there and back, sends",
    ),
    Wrong(
        "35.1",
        "cut down to the largest float16: nobody sees the overflow",
        old="= gradient * scale",
        new="= np.clip(gradient * scale, -65504, 65504)",
        says="should be inf, so that all can see it",
    ),
    Wrong(
        "35.1",
        "divided by the ranks first, then added up in float16",
        old=MEAN + ".astype(np.float16)",
        new="(arrived / np.float16(p)).sum(axis=0, dtype=np.float16)",
        says="1024 on rank 0 and 0.499 elsewhere: the mean (of a float32 sum)",
    ),
    Wrong(
        "35.1",
        "the caller's gradient is scaled",
        old="        chunks.ravel()[:n] = gradient * scale",
        new="        gradient *= scale\n        chunks.ravel()[:n] = gradient",
        says="your function changed the values that it was given",
    ),
    Wrong(
        "35.2",
        "one mean magnitude for both signs",
        old="    if not up.all():\n        means[0] = values[~up].mean()\n    if up.any():\n"
        "        means[1] = values[up].mean()",
        new="    means[:] = -np.abs(values).mean(), np.abs(values).mean()",
        says="the message's two means",
    ),
    Wrong(
        "35.2",
        "means of 8 bytes each",
        old="[means.view(np.uint8)",
        new="[means.astype(np.float64).view(np.uint8)",
        says="bytes of the message: expected 9, got 17",
    ),
    Wrong(
        "35.2",
        "the bits of a byte are read from its other end",
        old="message[8:], count=n)",
        new='message[8:], count=n, bitorder="little")',
        says="what comes back",
    ),
    Wrong(
        "35.2",
        "the filling of the last byte comes back as values",
        old="message[8:], count=n)",
        new="message[8:])",
        says="shape of what comes back",
    ),
    Wrong(
        "35.2",
        "float64 comes back",
        old="means[np.unpackbits(message[8:], count=n)]",
        new="np.where(np.unpackbits(message[8:], count=n), float(means[1]), float(means[0]))",
        says="what comes back should be float32, not float64",
    ),
    Wrong(
        "35.3",
        "what was left is not added",
        old="wanted = gradient + error",
        new="wanted = gradient",
        says="step 2, rank 0: as if nothing was left of the step before",
    ),
    Wrong(
        "35.3",
        "a new name instead of the caller's array",
        old="error[:] = wanted",
        new="error = wanted",
        says="step 1, rank 0: the error that is left",
    ),
    Wrong(
        "35.3",
        "the error of the mean of all, not of the own message",
        old=[ERROR + "\n", f"    return {SUM}"],
        new=["", f"    mean = {SUM}\n    error[:] = wanted - mean\n    return mean"],
        says="2 ranks, 7 values, step 1, rank 0: the error that is left",
    ),
    Wrong(
        "35.3",
        "what the messages say travels as float32",
        old="""    messages = np.empty((comm.size, len(message)), np.uint8)
    # Across ranks: everybody gets everybody's message.
    comm.Allgather(message, messages)
    return """
        + SUM,
        new="""    said, total = expand(message, n), np.empty(n, np.float32)
    comm.Allreduce(said, total)
    return total / comm.size""",
        says="an allgather of the messages sends",
    ),
    Wrong(
        "35.3",
        "the error is added into the caller's gradient",
        old="    wanted = gradient + error",
        new="    wanted = gradient\n    wanted += error",
        says="your function changed the values that it was given",
    ),
    Wrong(
        "35.4",
        "the largest values, not the largest magnitudes",
        old="np.abs(values), -k",
        new="values, -k",
        says="magnitudes at the places sent",
    ),
    Wrong(
        "35.4",
        "places of 8 bytes each",
        old="[-k:].astype(np.int32)",
        new="[-k:]",
        says="bytes of the message",
    ),
    Wrong(
        "35.4",
        "places are sorted, values are not",
        old="[places.view(np.uint8)",
        new="[np.sort(places).view(np.uint8)",
        says="the values sent, in the order of their places",
    ),
    Wrong(
        "35.4",
        "added into a vector of ones",
        old="np.zeros(n, np.float32)",
        new="np.ones(n, np.float32)",
        says="what comes back",
    ),
    Wrong(
        "35.4",
        "a vector of float64",
        old="np.zeros(n, np.float32)",
        new="np.zeros(n)",
        says="what comes back should be float32, not float64",
    ),
    Wrong(
        "35.5",
        "an allgather counted as a ring",
        old='"1 bit": (p - 1) * bits',
        new='"1 bit": ring / 32',
        says="bytes sent ['1 bit']: expected 188, got 180",
    ),
    Wrong(
        "35.5",
        "bits that do not fill a byte are not sent",
        old="8 + -(-n // 8)",
        new="8 + n // 8",
        says="2 ranks, 9 values: bytes sent ['1 bit']",
    ),
    Wrong(
        "35.5",
        "float16 counted as an allgather",
        old='"float16": ring / 2',
        new='"float16": (p - 1) * 2 * n',
        says="3 ranks",
    ),
    Wrong(
        "35.5",
        "a link that would have to carry both",
        old="max(0, full - small) / seconds",
        new="max(0, full - small) and (full + small) / seconds",
        says="Both should take as long",
    ),
    Wrong(
        "35.5",
        "below 0 where compression sends more",
        old="max(0, full - small)",
        new="(full - small)",
        says="100 bytes without and 200 with",
    ),
]
