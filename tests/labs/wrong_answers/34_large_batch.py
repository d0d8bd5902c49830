"""Mistakes that learners make in lab 34, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "batches": (64, 256, 768, 1536),
    "epochs": 4,
    "warm": 1,
    "goal": 90,
    "seeds": (0,),
    "patience": 20,
}

AVERAGED = """    own = nets.join(nets.gradient(weights, images, labels))
    total = np.empty_like(own)
    # Across ranks: the mean gradient of the whole batch, before anybody takes its norm.
    comm.Allreduce(own, total)
    update(weights, nets.cut(total / comm.size, weights), state, rate)"""
LOCAL = "local = trust * size / (slope + decay * size) if size > 0 and slope > 0 else 1"
# fmt: off
RIGHT = [
    Right("34.1", "the fall as the square of a cosine, in NumPy numbers",
          ["first = warm_up * (images // batch)", "    return peak * (1 + np.cos(np.pi * f)) / 2"],
          ["first = np.int64(warm_up) * (images // batch)", "    return peak * np.cos(np.pi / 2 * f) ** 2"]),
    Right("34.1", "by epochs, and the climb seen from the peak",
          ["    if step < first:\n        return base + (peak - base) * step / first\n",
           "f = (step - first) / (total - first)"],
          ["    if warm_up and step < first:\n        return peak - (peak - base) * (1 - step / first)\n",
           "f = (step / (images // batch) - warm_up) / (epochs - warm_up)"]),
    Right("34.2", "the momentum in place, `w[...] =`",
          ["state.m[i] = momentum * state.m[i] + rate * step\n        w -= state.m[i]",
           "size = np.linalg.norm(w)"],
          ["""\
state.m[i] *= momentum
        state.m[i] += rate * step
        w[...] = w - state.m[i]""", "size = np.sqrt((w**2).sum())"]),
    Right("34.2", "the local rate put onto both parts",
          [LOCAL, "            step = local * (g + decay * w)\n"],
          ["local = trust * size / (slope + decay * size) if size * slope else 1.0",
           "            step = local * g + local * decay * w\n"]),
    Right("34.3", "biases left out first",
          ["        ratio = 1\n", "if w.ndim > 1 and size > 0 and length > 0:"],
          ["""\
        if w.ndim == 1:
            w -= rate * step
            continue
        ratio = 1
""", "if size and length:"]),
    Right("34.3", "np.subtract with out",
          "        w -= rate * ratio * step", "        np.subtract(w, rate * ratio * step, out=w)"),
    Right("34.4", "divided beforehand, in place, without blocking",
          ["nets.gradient(weights, images, labels))", "    total = np.empty_like(own)\n",
           "comm.Allreduce(own, total)", "total / comm.size"],
          ["nets.gradient(weights, images, labels)) / comm.size", "    from mpi4py import MPI\n\n",
           "comm.Iallreduce(MPI.IN_PLACE, own).Wait()", "own"]),
    Right("34.1", "rounded to float32",
          "return peak * (1 + np.cos(np.pi * f)) / 2", "return np.float32(peak * (1 + np.cos(np.pi * f)) / 2)"),
]

WRONG = [
    Wrong("34.1", "nearly 0 at first: counted from step 1",
          "base + (peak - base) * step / first", "base if step == 0 else peak * step / first",
          "Warm-up begins at the base rate, not at 0"),
    Wrong("34.1", "the cosine begins at step 0", "f = (step - first) / (total - first)", "f = step / total",
          "The cosine begins when the warm-up is over"),
    Wrong("34.1", "half a batch is a step, too",
          ["warm_up * (images // batch)", "epochs * (images // batch)"],
          ["warm_up * images / batch", "epochs * images / batch"], "An epoch has 1536 // 100 steps"),
    Wrong("34.1", "the last step's rate is 0",
          "(total - first)\n", "(total - first - 1)\n", "the rate of step 60 of 120: expected"),
    Wrong("34.1", "a batch below the base batch keeps the rate",
          "(batch / base_batch) ** power", "max(1, batch / base_batch) ** power",
          "base 0.05 at 128, power 1"),
    Wrong("34.2", "one norm for the whole net", ["size = np.linalg.norm(w)", "slope = np.linalg.norm(g)"],
          ["size = np.sqrt(sum(np.linalg.norm(x) ** 2 for x in weights[::2]))",
           "slope = np.sqrt(sum(np.linalg.norm(x) ** 2 for x in gradients[::2]))"],
          "these are of the whole net"),
    Wrong("34.2", "biases get a local rate as well",
          "if w.ndim > 1:", "if w.ndim > 0:", "Biases are excluded: local rate 1, no decay"),
    Wrong("34.2", "nothing is done about a norm of 0",
          " if size > 0 and slope > 0 else 1", "", "Where a norm is 0, the local rate is 1"),
    Wrong("34.2", "the rate is put onto the whole momentum",
          ["rate * step", "w -= state.m[i]"], ["step", "w -= rate * state.m[i]"],
          "The rate of a step goes into the momentum"),
    Wrong("34.2", "the fraction upside down",
          "trust * size / (slope + decay * size)", "trust * slope / (size + decay * slope)",
          "the size of the gradient does not matter"),
    Wrong("34.2", "the norm of gradient and decay together",
          "(slope + decay * size)", "np.linalg.norm(g + decay * w)", "The denominator is the sum of two norms"),
    Wrong("34.2", "no decay in the denominator",
          "(slope + decay * size)", "slope", "The decay belongs into the denominator"),
    Wrong("34.2", "a new list of weights, the caller's arrays stay",
          "        w -= state.m[i]", "        w = w - state.m[i]\n        weights[i] = w",
          "hange the caller's arrays in place"),
    Wrong("34.3", "the gradient's norm, as in LARS",
          "np.linalg.norm(step)", "np.linalg.norm(g)", "decay 0.0, step 1: weights"),
    Wrong("34.3", "biases get a ratio, too",
          "w.ndim > 1 and size > 0", "size > 0", "Biases are excluded"),
    Wrong("34.3", "the gradient's norm where the step's may be 0",
          "length > 0:", "g.any():", "with decay, step is not 0 where g is"),
    Wrong("34.3", "the steps are counted, too", "        w -= rate * ratio * step",
          "        w -= rate * ratio * step\n    state.t += 1", "The caller counts the steps"),
    Wrong("34.3", "decay once more", "        ratio = 1\n",
          "        step = step + decay * w if w.ndim > 1 else step\n        ratio = 1\n",
          "its step has the decay already"),
    Wrong("34.3", "no ratio",
          "            ratio = size / length\n", "            ratio = 1\n", "This is Adam"),
    Wrong("34.3", "nothing is done about a norm of 0",
          " and size > 0 and length > 0", "", "Where ‖w‖ or ‖step‖ is 0, the ratio is 1"),
    Wrong("34.3", "a new list of weights, the caller's arrays stay",
          "        w -= rate * ratio * step", "        weights[i] = w - rate * ratio * step",
          "hange the caller's arrays in place"),
    Wrong("34.3", "Adam's step is taken twice", "        length = np.linalg.norm(step)\n",
          "        length = np.linalg.norm(adam_step(i, w, g, state, decay))\n", "values are off"),
    Wrong("34.4", "one rate for all steps", "weights), state, rate)", "weights), state, 0.1)",
          "The rate is 0.05, and update got 0.1"),
    Wrong("34.4", "an allreduce that pickles",
          "    comm.Allreduce(own, total)\n", "    total = comm.allreduce(own)\n", "pickles its argument"),
    Wrong("34.4", "never waited for",
          "comm.Allreduce(own, total)", "comm.Iallreduce(own, total)", "were never waited for"),
    Wrong("34.4", "LARS before the allreduce: each rank updates, then weights are averaged", AVERAGED, """\
    update(weights, nets.gradient(weights, images, labels), state, rate)
    for w in weights:
        total = np.empty_like(w)
        comm.Allreduce(w, total)
        w[...] = total / comm.size
""", "own gradient; average first"),
    Wrong("34.4", "the sum instead of the mean",
          "total / comm.size", "total", "LARS hides that in matrices, not in biases"),
    Wrong("34.4", "buffers are float32, whatever the gradient is",
          "weights, images, labels))\n    total", "weights, images, labels)).astype(np.float32)\n    total",
          "the gradient given to update: dtypes: expected {'float64'}, got {'float32'}"),
    Wrong("34.4", "the rate is scaled once more",
          "weights), state, rate)", "weights), state, rate * comm.size)",
          "the schedule has scaled it for the whole batch already"),
    Wrong("34.4", "a message for each array", AVERAGED, """\
    means = []
    for one in nets.gradient(weights, images, labels):
        total = np.empty_like(one)
        comm.Allreduce(np.ascontiguousarray(one), total)
        means.append(total / comm.size)
    update(weights, means, state, rate)
""", "One Allreduce a step is enough"),
    Wrong("34.4", "all images to all ranks: everybody computes the whole batch", AVERAGED, """\
    own = np.column_stack([images, labels]).ravel()
    whole = np.empty((comm.size, len(images), 65), own.dtype)
    comm.Allgather(own, whole)
    whole = whole.reshape(-1, 65)
    images = np.ascontiguousarray(whole[:, :64])
    labels = whole[:, 64].astype(int)
    update(weights, nets.gradient(weights, images, labels), state, rate)
""", "comm.Allgather is one call too many"),
    Wrong("34.1", "epochs * images // batch, without brackets",
          "epochs * (images // batch)\n", "epochs * images // batch\n",
          "the rate of step"),
    Wrong("34.1", "the default number of images, written out",
          ["warm_up * (images // batch)", "epochs * (images // batch)"],
          ["warm_up * (1536 // batch)", "epochs * (1536 // batch)"], "Batch 500 of 1300 images"),
    Wrong("34.4", "a buffer of float64, whatever the gradient is",
          "np.empty_like(own)", "np.empty(own.size)", "sendbuf holds float32 and recvbuf float64"),
    Wrong("34.4", "divided by the images as well",
          "total / comm.size", "total / comm.size / len(images)", "a mean over the images already"),
    Wrong("34.4", "a new state in every step",
          "weights), state, rate)", "weights), lab34.fresh_state(weights), rate)",
          "Is `state` the caller's own"),
    Wrong("34.4", "what Allreduce receives is not used",
          "comm.Allreduce(own, total)\n", "comm.Allreduce(own, total)\n    total = own\n",
          "the gradient given to update"),
    Wrong("34.2", "the default decay, whatever the call says",
          "(slope + decay * size)", "(slope + 1e-4 * size)", "this call has decay=0"),
    Wrong("34.2", "the default trust, whatever the call says",
          "trust * size", "0.05 * size", "Trust, decay and momentum are those of the call"),
    Wrong("34.3", "a ratio of at most 10, as some libraries have it",
          "ratio = size / length", "ratio = min(size / length, 10)", "decay 0.0, step 1: weights"),
]
