"""Mistakes of learners in lab 68: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"read": 20_000, "steps": 3, "count": 90, "wide": 64, "layers": 2, "prompt": 512,
         "batches": (1, 2, 4), "both": (2, 4), "asked": 4, "slots": 2, "loads": (0.3, 1.0),
         "seconds": 0.02, "most": 2}  # fmt: skip

_KEYS = '    cache["keys"] = torch.cat([cache["keys"], keys], dim=2)'
_VALUES = '    cache["values"] = torch.cat([cache["values"], values], dim=2)'
_CAUSAL = "    causal = queries.shape[2] > 1"
_ATTEND = (
    "    return scaled_dot_product_attention("
    'queries, cache["keys"], cache["values"], is_causal=causal)'
)
_FLOPS = "    flops = 2 * weights * tokens + 4 * context * hidden * layers * tokens"
_BYTES = "    return flops, itemsize * (weights + cache)"
_MIDDLE = (
    "    middle = entering + added(comm, part.attention(part.norm1(entering))) + part.out_bias"
)
_LEAVING = "    return middle + added(comm, part.mlp(part.norm2(middle))) + part.down_bias"
_BOTH = "    return replicas, step(requests) / devices + 2 * layers * allreduce(nbytes)"
_RETIRED = "    retired = [request for request in running if request.left == 0]"
_STAY = "    running[:] = [request for request in running if request.left > 0]"
_ADMIT = "    while waiting and len(running) < slots:\n        running.append(waiting.popleft())"

# fmt: off
WRONG = [
    Wrong("68.1", "a causal mask in decode, too", _CAUSAL, "    causal = True", "see the first position alone"),
    Wrong("68.1", "no mask in the prefill", _CAUSAL, "    causal = False", "must not see later ones"),
    Wrong("68.1", "keys are forgotten", _KEYS, '    cache["keys"] = keys', "the shape of cache"),
    Wrong("68.1", "along the heads", _VALUES, _VALUES.replace("dim=2", "dim=1"), "68.1"),
    Wrong("68.1", "new ones in front", _KEYS,
          '    cache["keys"] = torch.cat([keys, cache["keys"]], dim=2)', 'cache["keys"]'),
    Wrong("68.1", "attends before it appends", [_KEYS, _CAUSAL, _ATTEND], [
        "    before = dict(cache)\n    if queries.shape[2] > 1:\n"
        "        before = {'keys': keys, 'values': values}\n" + _KEYS, _CAUSAL,
        "    return scaled_dot_product_attention(queries, before['keys'], before['values'], is_causal=causal)"],
          "does not see itself"),
    Wrong("68.1", "nothing is cached", [_KEYS, _VALUES, _ATTEND], [
        "    pass", "    pass", "    return scaled_dot_product_attention(queries, keys, values, is_causal=causal)"],
          "the shape of cache"),
    Wrong("68.1", "another dictionary", [_KEYS, _VALUES], [
        '    old, cache = cache, {}\n    cache["keys"] = torch.cat([old["keys"], keys], dim=2)',
        '    cache["values"] = torch.cat([old["values"], values], dim=2)'], "`cache` did not change"),
    Wrong("68.1", "values are keys", _ATTEND, _ATTEND.replace('cache["values"]', 'cache["keys"]'), "the attention"),
    Wrong("68.1", "no mask for two positions", _CAUSAL, "    causal = queries.shape[2] > 2", "must not see later ones"),
    Wrong("68.1", "a window of 128 positions", _ATTEND, _ATTEND.replace('"]', '"][:, :, -128:]'), "to all 200 positions"),
    Wrong("68.1", "the scale of another size", _ATTEND, _ATTEND.replace("=causal", "=causal, scale=0.5"), "root of `features`"),
    Wrong("68.1", "changes the queries", _ATTEND,
          "    queries /= queries.shape[3] ** 0.5\n" + _ATTEND.replace("=causal", "=causal, scale=1.0"), "was changed"),
    Wrong("68.1", "a cache in float32", [_KEYS, _VALUES, _ATTEND], [_KEYS + ".float()", _VALUES + ".float()",
          _ATTEND.replace("queries,", "queries.float(),") + ".to(queries.dtype)"], "the dtype of cache"),
    Wrong("68.1", "one cache for all layers", [_KEYS, _VALUES], [
        '    own = attend.__dict__.setdefault("own", {})\n    old = own if queries.shape[2] == 1 else cache',
        '    own.update({name: torch.cat([old[name], new], dim=2) for name, new in (("keys", keys), ("values", values))})\n'
        "    cache.update(own)"], "Tokens of a GPT"),
    Wrong("68.2", "a multiply-add is one", _FLOPS, _FLOPS.replace("2 * w", "w").replace("4 *", "2 *"),
          "counts as two"),
    Wrong("68.2", "no attention", _FLOPS, "    flops = 2 * weights * tokens", "attention are missing"),
    Wrong("68.2", "one token", _FLOPS, _FLOPS.replace("tokens", "sequences"), "Each new token does"),
    Wrong("68.2", "no cache", _BYTES, "    return flops, itemsize * weights", "The cache is missing"),
    Wrong("68.2", "only keys", _BYTES, "    return flops, itemsize * (weights + cache / 2)", "two tensors"),
    Wrong("68.2", "weights for each sequence", _BYTES,
          "    return flops, itemsize * (sequences * weights + cache)", "once for all"),
    Wrong("68.2", "weights for each token", _BYTES,
          "    return flops, itemsize * (new * weights + cache)", "Weights are read once for all"),
    Wrong("68.2", "tokens of one sequence", "    tokens = sequences * new", "    tokens = new",
          "very sequence does this work"),
    Wrong("68.2", "one cache for all", "    cache = sequences * 2", "    cache = 2", "Each sequence has a cache"),
    Wrong("68.2", "numbers, not bytes", _BYTES, "    return flops, weights + cache", "each number has `itemsize`"),
    Wrong("68.2", "bytes of weights, numbers of cache", _BYTES, "    return flops, itemsize * weights + cache",
          "A number in the cache has `itemsize` bytes"),
    Wrong("68.2", "one product in the attention", _FLOPS, _FLOPS.replace("4 * context", "2 * context"),
          "two products"),
    Wrong("68.2", "half of the attention in a prefill", _FLOPS,
          _FLOPS.replace("4 * context", "(2 if new > 1 else 4) * context"), "whose mask hides half"),
    Wrong("68.2", "squares of the context", _FLOPS,
          _FLOPS.replace("4 * context", "4 * (new if new > 1 else context)"), "attends to all `context` positions"),
    Wrong("68.2", "a cache of 2-byte numbers", _BYTES, "    return flops, itemsize * weights + 2 * cache",
          "A number in the cache has `itemsize` bytes"),
    Wrong("68.2", "only two sizes", _BYTES, "    return flops, (4 if itemsize == 4 else 2) * (weights + cache)", "bytes: expected"),
    Wrong("68.2", "attention in one layer", _FLOPS, _FLOPS.replace("4 * context * hidden * layers", "4 * context * hidden"),
          "Every layer has an attention"),
    Wrong("68.2", "attention to new positions", _FLOPS, _FLOPS.replace("4 * context", "4 * new"),
          "attends to all `context` positions"),
    Wrong("68.2", "a cache in one layer", "context * hidden * layers\n    flops", "context * hidden\n    flops",
          "Every layer has a cache"),
    Wrong("68.2", "a cache of new positions", "    cache = sequences * 2 * context", "    cache = sequences * 2 * new",
          "All `context` positions of the cache"),
    Wrong("68.2", "the intensity", _BYTES, "    return flops / (itemsize * (weights + cache))", "two numbers"),
    Wrong("68.3", "no allreduce for the attention", _MIDDLE,
          "    middle = entering + part.attention(part.norm1(entering)) + part.out_bias", "layer takes two"),
    Wrong("68.3", "no allreduce for the MLP", _LEAVING,
          "    return middle + part.mlp(part.norm2(middle)) + part.down_bias", "layer takes two"),
    Wrong("68.3", "biases inside", [_MIDDLE, _LEAVING], [
        "    middle = entering + added(comm, part.attention(part.norm1(entering)) + part.out_bias)",
        "    return middle + added(comm, part.mlp(part.norm2(middle)) + part.down_bias)"],
          "bias was added up"),
    Wrong("68.3", "everything is added up", [_MIDDLE, _LEAVING], [
        "    middle = added(comm, entering + part.attention(part.norm1(entering))) + part.out_bias",
        "    return added(comm, middle + part.mlp(part.norm2(middle))) + part.down_bias"],
          "What entered was added up"),
    Wrong("68.3", "the attention twice", _MIDDLE,
          "    middle = torch.zeros_like(part.attention(part.norm1(entering)))\n"
          "    middle += entering + added(comm, part.attention(part.norm1(entering))) + part.out_bias",
          "stores the positions once more"),
    Wrong("68.3", "what entered is added up in the attention", _MIDDLE,
          "    middle = added(comm, entering + part.attention(part.norm1(entering))) + part.out_bias",
          "n the attention, what entered was added up"),
    Wrong("68.3", "the MLP sees what entered", _LEAVING, _LEAVING.replace("norm2(middle)", "norm2(entering)"),
          "The MLP takes `middle`"),
    Wrong("68.3", "the first norm for both", _LEAVING, _LEAVING.replace("norm2", "norm1"), "a norm of its own"),
    Wrong("68.3", "no residual", _LEAVING, _LEAVING.replace("middle + added", "added"),
          "`middle` is missing"),
    Wrong("68.3", "no residual around the attention", _MIDDLE, _MIDDLE.replace("entering + added", "added"),
          "`entering` is missing"),
    Wrong("68.3", "the MLP is added to what entered", _LEAVING, _LEAVING.replace("middle + added", "entering + added"),
          "and not `middle` was added"),
    Wrong("68.3", "no second norm", _LEAVING, _LEAVING.replace("part.norm2(middle)", "middle"), "need `part.norm2`"),
    Wrong("68.3", "no bias of the MLP", _LEAVING, _LEAVING.replace(" + part.down_bias", ""),
          "`part.down_bias` is missing"),
    Wrong("68.3", "no bias of the attention", _MIDDLE, _MIDDLE.replace(" + part.out_bias", ""),
          "`part.out_bias` is missing"),
    Wrong("68.3", "no bias at all", [_MIDDLE, _LEAVING], [
        _MIDDLE.replace(" + part.out_bias", ""), _LEAVING.replace(" + part.down_bias", "")], "Both biases are missing"),
    Wrong("68.3", "each bias in the place of the other", [_MIDDLE, _LEAVING], [
        _MIDDLE.replace("out_bias", "down_bias"), _LEAVING.replace("down_bias", "out_bias")], "belongs to the attention"),
    Wrong("68.3", "the maximum", [_MIDDLE, _LEAVING], [
        "    from mpi4py import MPI\n\n    def added(comm, terms):\n        total = torch.empty_like(terms)\n"
        "        comm.Allreduce(terms.contiguous(), total, op=MPI.MAX)\n        return total\n\n" + _MIDDLE, _LEAVING],
          "This is their maximum"),
    Wrong("68.3", "reduce and broadcast", [_MIDDLE, _LEAVING], [
        "    def added(comm, terms):\n        total = torch.empty_like(terms)\n"
        "        comm.Reduce(terms.contiguous(), total)\n        comm.Bcast(total)\n        return total\n\n" + _MIDDLE,
        _LEAVING], "This one called 4: Reduce"),
    Wrong("68.3", "the second bias inside", _LEAVING,
          "    return middle + added(comm, part.mlp(part.norm2(middle)) + part.down_bias)", "Of the MLP, each rank's bias"),
    Wrong("68.3", "the second residual inside", _LEAVING,
          "    return added(comm, middle + part.mlp(part.norm2(middle))) + part.down_bias", "`middle` was added up"),
    Wrong("68.3", "the means", [_MIDDLE, _LEAVING], [
        _MIDDLE.replace("(entering)))", "(entering))) / comm.size"),
        _LEAVING.replace("(middle)))", "(middle))) / comm.size")], "This is their mean"),
    Wrong("68.3", "the mean", _MIDDLE, _MIDDLE.replace("(entering)))", "(entering))) / comm.size"), "what leaves"),
    Wrong("68.3", "the sum of entering, too", _MIDDLE,
          "    entering = added(comm, entering) / comm.size\n" + _MIDDLE, "layer takes two"),
    Wrong("68.3", "rank 0 alone", _MIDDLE,
          "    if comm.rank:\n        return entering\n" + _MIDDLE, "68.3", hangs=True),
    Wrong("68.4", "every replica serves all", "    replicas = step(requests / devices)",
          "    replicas = step(requests)", "requests / devices"),
    Wrong("68.4", "replicas share a step", "    replicas = step(requests / devices)",
          "    replicas = step(requests) / devices", "weights it reads alone"),
    Wrong("68.4", "one allreduce", _BOTH, _BOTH.replace("2 * layers", "layers"), "A layer has two"),
    Wrong("68.4", "no allreduce", _BOTH, "    return replicas, step(requests) / devices", "allreduces are missing"),
    Wrong("68.4", "the longer of both", _BOTH, _BOTH.replace("step(", "max(step(").replace("devices + 2", "devices, 2")
          + ")", "waits for the computation before it"),
    Wrong("68.4", "of one layer", _BOTH, _BOTH.replace("2 * layers", "2"), "Every layer has two"),
    Wrong("68.4", "one row", "    nbytes = requests * hidden", "    nbytes = hidden", "row in the allreduce"),
    Wrong("68.4", "tensor ranks have fewer requests", _BOTH,
          _BOTH.replace("step(requests) / devices", "step(requests / devices)"), "works on all requests"),
    Wrong("68.4", "numbers, not bytes", "hidden * itemsize", "hidden", "`allreduce` takes bytes"),
    Wrong("68.4", "the complete step on each device", _BOTH, _BOTH.replace("step(requests) / devices", "step(requests)"),
          "1 / devices of the weights"),
    Wrong("68.4", "a share of the array", "hidden * itemsize", "hidden * itemsize / devices", "the complete array"),
    Wrong("68.4", "allreduces are shared, too", _BOTH,
          "    return replicas, (step(requests) + 2 * layers * allreduce(nbytes)) / devices", "takes part in all allreduces"),
    Wrong("68.4", "tensor parallelism first", _BOTH,
          "    return step(requests) / devices + 2 * layers * allreduce(nbytes), replicas", "Replicas come first"),
    Wrong("68.5", "static", _RETIRED, "    if any(request.left for request in running):\n        return []\n"
          + _RETIRED, "is finished and still in the batch"),
    Wrong("68.5", "nobody leaves", _STAY, "    pass", "still in the batch"),
    Wrong("68.5", "as many as wait", "waiting and len(running) < slots", "waiting", "in the batch. There"),
    Wrong("68.5", "one at a time", "    while waiting", "    if waiting", "Requests in step 0"),
    Wrong("68.5", "the latest first", "waiting.popleft()", "waiting.pop()", "Requests in step 0"),
    Wrong("68.5", "one slot too few", "len(running) < slots", "len(running) < slots - 1", "Requests in step 0"),
    Wrong("68.5", "another list", _STAY, "    running = [request for request in running if request.left > 0]",
          "is not in `running`: change the list itself"),
    Wrong("68.5", "another deque", _ADMIT, "    free = slots - len(running)\n    running += list(waiting)[:free]\n"
          "    waiting = list(waiting)[free:]", "still in `waiting`: change the deque itself"),
    Wrong("68.5", "only when somebody leaves", _ADMIT, "    if retired or not running:\n"
          "        free = min(slots - len(running), len(waiting))\n"
          "        running.extend(waiting.popleft() for _ in range(free))", "whether or not a request leaves"),
    Wrong("68.5", "as many as left", _ADMIT, "    for _ in range(min(len(waiting), len(retired) if running else slots)):\n"
          "        running.append(waiting.popleft())", "whether or not a request leaves"),
    Wrong("68.5", "lowers `left`", _ADMIT, _ADMIT + "\n    for request in running:\n        request.left -= 1",
          "The server lowers `left`"),
    Wrong("68.5", "an iterator", "    return retired", "    return iter(retired)", "Return the list of requests"),
    Wrong("68.5", "nothing is returned", "    return retired", "    return running", "before step"),
    Wrong("68.5", "admits before it retires", [_ADMIT, _RETIRED], [
        "    pass", _ADMIT + "\n" + _RETIRED], "Requests in step"),
]

RIGHT = [
    Right("68.1", "a mask by hand, in place of the dictionary's entries", [_KEYS, _VALUES, _CAUSAL, _ATTEND], [
        '    cache.update(keys=torch.cat((cache["keys"], keys), -2))',
        '    cache.update(values=torch.cat((cache["values"], values), -2))',
        '    new, known = queries.shape[2], cache["keys"].shape[2]\n'
        "    seen = torch.ones(new, known, dtype=torch.bool, device=queries.device).tril(known - new)",
        '    return scaled_dot_product_attention(queries, cache["keys"], cache["values"], attn_mask=seen)']),
    Right("68.1", "softmax by hand", [_CAUSAL, _ATTEND], [
        '    scores = queries @ cache["keys"].transpose(-1, -2) / queries.shape[-1] ** 0.5\n'
        "    new, known = scores.shape[-2:]\n"
        "    hide = torch.ones(new, known, dtype=torch.bool, device=queries.device).triu(known - new + 1)",
        '    return scores.masked_fill(hide, float("-inf")).softmax(-1) @ cache["values"]']),
    Right("68.1", "an entry of its own", _KEYS, '    cache["known"] = cache["keys"].shape[2] + keys.shape[2]\n' + _KEYS),
    Right("68.2", "layer by layer, as an array", _BYTES,
          "    return np.array([flops, itemsize * weights + itemsize * cache])"),
    Right("68.2", "factored", _FLOPS, "    flops = 2 * tokens * layers * hidden * (12 * hidden + 2 * context)"),
    Right("68.3", "in place, in steps", [_MIDDLE, _LEAVING], [
        "    middle = added(comm, part.attention(part.norm1(entering)))\n    middle += entering\n"
        "    middle += part.out_bias",
        "    leaving = added(comm, part.mlp(part.norm2(middle)))\n    leaving += middle\n"
        "    leaving += part.down_bias\n    return leaving"]),
    Right("68.3", "in place of what entered", [_MIDDLE, _LEAVING], [
        "    entering += added(comm, part.attention(part.norm1(entering))) + part.out_bias",
        "    entering += added(comm, part.mlp(part.norm2(entering))) + part.down_bias\n    return entering"]),
    Right("68.3", "pickled", _MIDDLE,
          "    terms = part.attention(part.norm1(entering))\n"
          "    middle = entering + torch.as_tensor(comm.allreduce(terms.numpy())) + part.out_bias"),
    Right("68.4", "an array", _BOTH,
          "    tensor = step(requests) / devices\n    tensor += layers * (allreduce(nbytes) + allreduce(nbytes))\n"
          "    return np.array([replicas, tensor])"),
    Right("68.5", "a tuple of those that leave", _RETIRED,
          "    retired = tuple(request for request in running if request.left == 0)"),
    Right("68.5", "remove one by one", [_RETIRED, _STAY], [
        "    retired = []",
        "    for request in list(running):\n        if not request.left:\n"
        "            running.remove(request)\n            retired.append(request)"]),
    Right("68.5", "extend", _ADMIT,
          "    free = min(slots - len(running), len(waiting))\n"
          "    running.extend(waiting.popleft() for _ in range(free))"),
]
# fmt: on
