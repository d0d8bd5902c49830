"""Mistakes that learners make in lab 34, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {
    "batches": (64, 256, 1536),
    "epochs": 4,
    "warm": 1,
    "goal": 90,
    "seeds": (0,),
    "tried": (0.0125,),
    "patience": 20,
}

AVERAGED = """    mine = large_batch.join(large_batch.gradient(weights, images, labels))
    total = np.empty_like(mine)
    # Across ranks: the mean gradient of the whole batch, before anybody takes its norm.
    comm.Allreduce(mine, total)
    update(weights, large_batch.cut(total / comm.size, weights), state, rate)"""

WRONG = [
    Wrong(
        "34.1",
        "nearly 0 at first: counted from step 1",
        old="base + (peak - base) * step / first",
        new="base if step == 0 else peak * step / first",
        says="Warm-up begins at the base rate, not at 0",
    ),
    Wrong(
        "34.1",
        "the cosine begins at step 0",
        old="f = (step - first) / (total - first)",
        new="f = step / total",
        says="The cosine begins when the warm-up is over",
    ),
    Wrong(
        "34.1",
        "half a batch is a step, too",
        old="first, total = warm_up * (images // batch), epochs * (images // batch)",
        new="first, total = warm_up * images / batch, epochs * images / batch",
        says="An epoch has 1536 // 100 steps",
    ),
    Wrong(
        "34.1",
        "the last step's rate is 0",
        old="(total - first)\n",
        new="(total - first - 1)\n",
        says="f is not yet 1 there",
    ),
    Wrong(
        "34.1",
        "a batch below the base batch keeps the rate",
        old="(batch / base_batch) ** power",
        new="max(1, batch / base_batch) ** power",
        says="batch / base_batch is 0.5 here: take it as it is",
    ),
    Wrong(
        "34.2",
        "one norm for the whole net",
        old="size, slope = np.linalg.norm(w), np.linalg.norm(g)",
        new="size = np.sqrt(sum(np.linalg.norm(x) ** 2 for x in weights[::2]))\n"
        "            slope = np.sqrt(sum(np.linalg.norm(x) ** 2 for x in gradients[::2]))",
        says="these are of the whole net",
    ),
    Wrong(
        "34.2",
        "biases get a local rate as well",
        old="if w.ndim > 1:",
        new="if w.ndim > 0:",
        says="biases are excluded: local rate 1, no decay",
    ),
    Wrong(
        "34.2",
        "nothing is done about a norm of 0",
        old=" if size > 0 and slope > 0 else 1",
        new="",
        says="where a norm is 0, the local rate is 1",
    ),
    Wrong(
        "34.2",
        "the rate is put onto the whole momentum",
        old=["rate * step", "w -= state.m[i]"],
        new=["step", "w -= rate * state.m[i]"],
        says="the rate of a step goes into the momentum",
    ),
    Wrong(
        "34.2",
        "the fraction upside down",
        old="trust * size / (slope + decay * size)",
        new="trust * slope / (size + decay * slope)",
        says="With LARS the gradient's size has no say",
    ),
    Wrong(
        "34.2",
        "the norm of gradient and decay together",
        old="(slope + decay * size)",
        new="np.linalg.norm(g + decay * w)",
        says="two norms stand below the fraction",
    ),
    Wrong(
        "34.3",
        "no bias correction",
        old="m, v = state.m[i] / (1 - betas[0] ** state.t), state.v[i] / (1 - betas[1] ** state.t)",
        new="m, v = state.m[i], state.v[i]",
        says="without Adam's bias correction",
    ),
    Wrong(
        "34.3",
        "the corrected means are stored",
        old="m, v = state.m[i] / (1 - betas[0] ** state.t), state.v[i] / (1 - betas[1] ** state.t)",
        new="m = state.m[i] = state.m[i] / (1 - betas[0] ** state.t)\n"
        "        v = state.v[i] = state.v[i] / (1 - betas[1] ** state.t)",
        says="divide under a new name",
    ),
    Wrong(
        "34.3",
        "the gradient's norm, as in LARS",
        old="np.linalg.norm(direction)",
        new="np.linalg.norm(g)",
        says="the norm of the direction, not of the gradient",
    ),
    Wrong(
        "34.3",
        "decay comes after the norm",
        old=["            direction = direction + decay * w\n", "length > 0 else 1\n"],
        new=["", "length > 0 else 1\n            direction = direction + decay * w\n"],
        says="decay is part of the direction before its norm is taken",
    ),
    Wrong(
        "34.4",
        "LARS before the allreduce: each rank updates, then weights are averaged",
        old=AVERAGED,
        new="""    update(weights, large_batch.gradient(weights, images, labels), state, rate)
    for w in weights:
        total = np.empty_like(w)
        comm.Allreduce(w, total)
        w[...] = total / comm.size
""",
        says="own gradient; an update needs the norm of the mean",
    ),
    Wrong(
        "34.4",
        "the sum instead of the mean",
        old="total / comm.size",
        new="total",
        says="LARS hides that in matrices, not in biases",
    ),
    Wrong(
        "34.4",
        "buffers are float32, whatever the gradient is",
        old="weights, images, labels))\n    total",
        new="weights, images, labels)).astype(np.float32)\n    total",
        says="update got float32, but the gradients are float64 here",
    ),
    Wrong(
        "34.4",
        "the rate is scaled once more",
        old="weights), state, rate)",
        new="weights), state, rate * comm.size)",
        says="the schedule has scaled it for the whole batch already",
    ),
    Wrong(
        "34.4",
        "a message for each array",
        old=AVERAGED,
        new="""    means = []
    for one in large_batch.gradient(weights, images, labels):
        total = np.empty_like(one)
        comm.Allreduce(np.ascontiguousarray(one), total)
        means.append(total / comm.size)
    update(weights, means, state, rate)
""",
        says="One Allreduce a step is enough",
    ),
    Wrong(
        "34.1",
        "epochs * images // batch, without brackets",
        old="epochs * (images // batch)\n",
        new="epochs * images // batch\n",
        says="put `images // batch` into brackets",
    ),
    Wrong(
        "34.1",
        "the default number of images, written out",
        old=["warm_up * (images // batch)", "epochs * (images // batch)"],
        new=["warm_up * (1536 // batch)", "epochs * (1536 // batch)"],
        says="This is with 1,536 images",
    ),
    Wrong(
        "34.1",
        "a part of a batch is a step, rounded up",
        old=["warm_up * (images // batch)", "epochs * (images // batch)"],
        new=["warm_up * (-(-images // batch))", "epochs * (-(-images // batch))"],
        says="round down",
    ),
    Wrong(
        "34.2",
        "a matrix's 2-norm",
        old="np.linalg.norm(w), np.linalg.norm(g)",
        new="np.linalg.norm(w, 2), np.linalg.norm(g, 2)",
        says="a matrix's norm with a 2 is another",
    ),
    Wrong(
        "34.3",
        "decay apart from the direction, as in AdamW",
        old=["            direction = direction + decay * w\n", "rate * ratio * direction"],
        new=["", "rate * ratio * direction + rate * decay * w * (w.ndim > 1)"],
        says="AdamW's stands apart",
    ),
    Wrong(
        "34.4",
        "a buffer of float64, whatever the gradient is",
        old="np.empty_like(mine)",
        new="np.empty(mine.size)",
        says="sendbuf holds float32 and recvbuf float64",
    ),
    Wrong(
        "34.4",
        "divided by the images as well",
        old="total / comm.size",
        new="total / comm.size / len(images)",
        says="a mean over the images already",
    ),
    Wrong(
        "34.4",
        "a new state in every step",
        old="weights), state, rate)",
        new="weights), large_batch.fresh_state(weights), rate)",
        says="Is `state` the caller's own",
    ),
    Wrong(
        "34.4",
        "what Allreduce receives is not used",
        old="comm.Allreduce(mine, total)\n",
        new="comm.Allreduce(mine, total)\n    total = mine\n",
        says="use what Allreduce receives",
    ),
]
