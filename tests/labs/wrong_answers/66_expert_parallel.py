"""Mistakes of learners in lab 66: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {
    "count": 8,
    "steps": 3,
    "tokens": 16,
    "many": 16,
    "wide": 16,
    "seconds": 0.2,
    "ranks_of_map": 16,
    "rows_of_map": (8, 64),
    "most": 2,
}

_BEST = "    best, experts = scores.softmax(dim=1).topk(k, dim=1)"
_WEIGHTS = "    weights = best / best.sum(dim=1, keepdim=True)"
_SHARE = (
    "    share = torch.bincount(experts.flatten(), minlength=scores.shape[1]) / experts.numel()"
)
_PROBABILITY = "    probability = scores.softmax(dim=1).mean(dim=0)"
_LOSS = "    return scores.shape[1] * (share * probability).sum()"
_CAPACITY = "    return math.ceil(factor * k * tokens / count)"
_PLACES = "    places = one_hot(experts, count).cumsum(dim=0)"
_OWN = "    own = places.gather(1, experts[:, None])[:, 0]"
_FITS = "    return own <= capacity"
_OUTGOING = "    outgoing = [width * number for number in sent]"
_INCOMING = "    incoming = [width * number for number in received]"
_CALL = "    comm.Alltoallv([rows, outgoing], [arrived, incoming])"
_GRADIENT = "        return exchange(ctx.comm, gradient, ctx.received, ctx.sent), None, None, None"
_ORDER = "    order = experts.argsort()"
_COUNTS = "    comm.Alltoall(counts, arriving)"
_SENT = "    sent = counts.sum(dim=1).tolist()"
_ARRIVED = "    arrived = Exchange.apply(rows[order], comm, sent, received)"
_BACK = "    back = Exchange.apply(done, comm, received, sent)"
_ROWS = "    rows = back[order.argsort()] * weights[:, None]"
_SUM = "    return result.index_add(0, token, rows)"
_NODES = "    nodes = max(1, ranks / 8)"
_BETWEEN = "    between = net.nodes_of_a_token(nodes) * (nodes - 1) / nodes"
_IN = "    inside = net.groups_of_a_token(layout) * tensor * (g - 1) / g"
_BYTES = "    nbytes = 2 * (1 + 2) * net.hidden * net.tokens"
_SLOWER = "    return nbytes * max(between / gpus.between, inside / gpus.inside)"

# fmt: off
WRONG = [
    Wrong("66.1", "weights do not add up to 1", _WEIGHTS, "    weights = best", "divide them by their sum"),
    Wrong("66.1", "softmax over tokens", _BEST, _BEST.replace("softmax(dim=1)", "softmax(dim=0)"), "of token"),
    Wrong("66.1", "the smallest", _BEST, _BEST.replace("topk(k, dim=1)", "topk(k, dim=1, largest=False)"),
          "experts of token 0"),
    Wrong("66.1", "always the first experts", _BEST,
          "    best = scores.softmax(dim=1)[:, :k]\n    experts = torch.arange(k).expand(len(scores), k)",
          "experts of token"),
    Wrong("66.1", "no gradient", _WEIGHTS, "    weights = (best / best.sum(dim=1, keepdim=True)).detach()",
          "no gradient flows from the weights"),
    Wrong("66.1", "all experts", "    return weights, experts", "    return scores.softmax(dim=1), experts",
          "shape of the weights"),
    Wrong("66.1", "no factor E", _LOSS, "    return (share * probability).sum()", "factor E is missing"),
    Wrong("66.1", "a mean at the end", _LOSS, _LOSS.replace(".sum()", ".mean()"), "a mean in place of the sum"),
    Wrong("66.1", "no minlength", _SHARE, "    share = torch.bincount(experts.flatten()) / experts.numel()",
          "minlength"),
    Wrong("66.1", "shares of tokens", _SHARE, _SHARE.replace("experts.numel()", "len(experts)"),
          "of all k choices of all tokens"),
    Wrong("66.1", "probabilities alone", _LOSS, "    return scores.shape[1] * (probability**2).sum()",
          "share of choices, not of probability"),
    Wrong("66.1", "the loss is a number", _LOSS, _LOSS + ".item()", "no gradient flows from balance_loss"),
    Wrong("66.1", "softmax of the probabilities", _WEIGHTS, "    weights = best.softmax(dim=1)",
          "the softmax of probabilities"),
    Wrong("66.1", "the sum is detached", _WEIGHTS, _WEIGHTS + ".detach()", "a part of them is detached"),
    Wrong("66.1", "one weight is detached", _WEIGHTS,
          _WEIGHTS + "\n    weights = torch.cat([weights[:, :1], weights[:, 1:].detach()], 1)", "a part of them is detached"),
    Wrong("66.1", "experts come first", "    return weights, experts", "    return experts, weights",
          "returns the weights first"),
    Wrong("66.1", "the scores are changed", _BEST,
          "    with torch.no_grad():\n        scores -= scores.max()\n" + _BEST, "`scores` was changed"),
    Wrong("66.1", "the loss counts the best experts", _SHARE,
          "    experts = scores.topk(experts.shape[1], dim=1)[1]\n" + _SHARE, "Count the choices in `experts`"),
    Wrong("66.1", "the loss is not added up", _LOSS, "    return scores.shape[1] * share * probability",
          "add up over the experts"),
    Wrong("66.2", "counts of rows", [_OUTGOING, _INCOMING],
          ["    outgoing = sent", "    incoming = received"], "MPI counts numbers"),
    Wrong("66.2", "nothing is sent", _CALL, "    arrived[:] = 0", "rows that arrive"),
    Wrong("66.2", "equal parts", _CALL,
          "    comm.Alltoall(rows[: len(rows) // comm.size * comm.size], torch.empty_like(rows))", "66.2"),
    Wrong("66.2", "backward with the counts of forward", _GRADIENT,
          _GRADIENT.replace("ctx.received, ctx.sent", "ctx.sent, ctx.received"), "Are `sent` and `received` exchanged"),
    Wrong("66.2", "counts in exchanged roles", _CALL,
          "    comm.Alltoallv([rows, incoming], [arrived, outgoing])", "Are `sent` and `received` exchanged"),
    Wrong("66.2", "no counts", _CALL, "    comm.Alltoallv(rows, arrived)", "takes [tensor, counts]"),
    Wrong("66.2", "parts of one length", _CALL, "    comm.Alltoall(rows, arrived)", "use Alltoallv"),
    Wrong("66.2", "numbers are sent, rows received", _INCOMING, "    incoming = received", "MPI counts numbers"),
    Wrong("66.2", "receives as many as it sends", _CALL,
          "    arrived = rows.new_empty(sum(sent), width)\n    comm.Alltoallv([rows, outgoing], [arrived, outgoing])",
          "The counts of the two sides differ"),
    Wrong("66.2", "the gradient stays where it is", _GRADIENT,
          "        return gradient.new_zeros(sum(ctx.sent), gradient.shape[1]), None, None, None",
          "gradient of the rows"),
    Wrong("66.2", "one value is returned", _GRADIENT,
          "        return exchange(ctx.comm, gradient, ctx.received, ctx.sent)", "gradient"),
    Wrong("66.2", "rows of a rank's own are left out", [_OUTGOING, _INCOMING],
          [_OUTGOING + "\n    outgoing[comm.rank] = 0", _INCOMING + "\n    incoming[comm.rank] = 0"],
          "also those that a rank sends to itself"),
    Wrong("66.2", "a rank without rows to send does not call", _CALL,
          "    if len(rows) == 0:\n        return arrived\n" + _CALL, "All ranks must take part"),
    Wrong("66.2", "a rank to which nothing comes does not call", _CALL,
          "    if len(arrived) == 0:\n        return arrived\n" + _CALL, "All ranks must take part"),
    Wrong("66.2", "a rank without any rows does not call", _CALL,
          "    if len(rows) == 0 and len(arrived) == 0:\n        return arrived\n" + _CALL, "All ranks must take part"),
    Wrong("66.2", "a rank without gradients does not call", _GRADIENT,
          "        if len(gradient) == 0:\n"
          "            return gradient.new_zeros(sum(ctx.sent), gradient.shape[1]), None, None, None\n" + _GRADIENT,
          "All ranks must take part"),
    Wrong("66.2", "nobody waits for what is sent", _CALL,
          "    for r, part in enumerate(rows.split(sent)):\n        comm.Isend(part, dest=r)\n"
          "    for r, part in enumerate(arrived.split(received)):\n        comm.Recv(part, source=r)", "call Wait"),
    Wrong("66.2", "nobody waits for the exchange", _CALL,
          "    comm.Ialltoallv([rows, outgoing], [arrived, incoming])", "call Wait"),
    Wrong("66.2", "all rows go to all ranks", _CALL,
          "    everything = comm.allgather((rows, sent))\n"
          "    arrived = torch.cat([each.split(numbers)[comm.rank] for each, numbers in everything])",
          "Send each row only to its own rank"),
    Wrong("66.3", "no graph on a rank without choices", _SUM,
          "    sums = list(result)\n    for row, its in zip(rows, token.tolist()):\n        sums[its] = sums[its] + row\n"
          "    return torch.stack(sums)", "backward pass: Rank 1 calls Alltoallv, and rank 0 does not"),
    Wrong("66.3", "not sorted", _ORDER, "    order = torch.arange(len(experts))", "They are not sorted by expert"),
    Wrong("66.3", "sorted, rows are not", _ARRIVED, _ARRIVED.replace("rows[order]", "rows"),
          "They are not sorted by expert"),
    Wrong("66.3", "the counts of this rank", _COUNTS, "    arriving.copy_(counts)",
          "before the ranks have told each other"),
    Wrong("66.3", "counts are not exchanged", _COUNTS, "    pass", "before the ranks have told each other"),
    Wrong("66.3", "receives as many as it sends", _ARRIVED,
          "    received = sent\n" + _ARRIVED, "The counts of the two sides differ"),
    Wrong("66.3", "back with the counts of the way there", _BACK, _BACK.replace("received, sent", "sent, received"),
          "Are `sent` and `received` exchanged"),
    Wrong("66.3", "exchange without a gradient", _ARRIVED,
          "    arrived = exchange(comm, rows[order], sent, received)", "Does the exchange go through Exchange.apply"),
    Wrong("66.3", "back without a gradient", _BACK, "    back = exchange(comm, done, received, sent)",
          "Does the exchange go through Exchange.apply"),
    Wrong("66.3", "the order of sending", _ROWS, "    rows = back * weights[:, None]", "in the order of sending"),
    Wrong("66.3", "sorted once more", _ROWS, "    rows = back[order] * weights[:, None]", "sorts once more"),
    Wrong("66.3", "no weights", _ROWS, "    rows = back[order.argsort()]", "not multiplied by their weights"),
    Wrong("66.3", "weights without a gradient", _ROWS, "    rows = back[order.argsort()] * weights.detach()[:, None]",
          "nothing detached"),
    Wrong("66.3", "the last choice counts", _SUM, "    result[token] = rows\n    return result",
          "the sum for each token"),
    Wrong("66.3", "the sum is thrown away", _SUM, "    result.index_add(0, token, rows)\n    return result",
          "the sum for each token"),
    Wrong("66.3", "equal parts", _ARRIVED, "    sent = [len(rows) // comm.size] * comm.size\n" + _ARRIVED,
          "The counts"),
    Wrong("66.3", "weights in the order of sending", _ROWS, "    rows = back[order.argsort()] * weights[order][:, None]",
          "The weights are in the order of sending"),
    Wrong("66.3", "two choices of each token", _SUM, "    return rows[::2] + rows[1::2]", "rows[::2]"),
    Wrong("66.3", "tokens in order", _SUM, "    return rows.reshape(tokens, -1, done.shape[1]).sum(dim=1)",
          "says to which token a row belongs"),
    Wrong("66.3", "a token vector of one's own", _SUM,
          "    token = torch.arange(tokens).repeat_interleave(len(weights) // tokens)\n" + _SUM,
          "says to which token a row belongs"),
    Wrong("66.3", "as many tokens as the last that is named", _SUM,
          "    result = done.new_zeros(int(token.max()) + 1, done.shape[1])\n" + _SUM, "token.max()"),
    Wrong("66.3", "a rank without rows tells no counts", _COUNTS,
          "    if len(rows) == 0:\n        return rows, arriving, (order, [0] * comm.size, [0] * comm.size)\n" + _COUNTS,
          "All ranks must take part"),
    Wrong("66.3", "a rank without rows does not combine", _BACK,
          "    if len(weights) == 0:\n        return result\n" + _BACK, "All ranks must take part"),
    Wrong("66.3", "nobody waits for the counts", _COUNTS, "    comm.Ialltoall(counts, arriving)", "call Wait"),
    Wrong("66.4", "rounded down", _CAPACITY, "    return int(factor * k * tokens / count)", "Round up"),
    Wrong("66.4", "k is forgotten", _CAPACITY, "    return math.ceil(factor * tokens / count)",
          "Each token makes k choices"),
    Wrong("66.4", "rounded up twice", _CAPACITY, "    return math.ceil(factor * math.ceil(k * tokens / count))",
          "Round up once, at the end"),
    Wrong("66.4", "rounded before dividing", _CAPACITY, "    return -(-int(factor * k * tokens) // count)",
          "Round once, at the end"),
    Wrong("66.4", "never more than there are tokens", _CAPACITY,
          "    return min(tokens, math.ceil(factor * k * tokens / count))", "no other limit"),
    Wrong("66.4", "never 0", _CAPACITY, "    return max(1, math.ceil(factor * k * tokens / count))", "no other limit"),
    Wrong("66.4", "numbers for true and false", _FITS, "    return (own <= capacity).float()", "True or False"),
    Wrong("66.4", "one too few", _FITS, "    return own < capacity", "One choice too few"),
    Wrong("66.4", "one queue for all", _FITS, "    return torch.arange(len(experts)) < capacity",
          "Each expert has a queue of its own"),
    Wrong("66.4", "the last ones", _PLACES,
          "    places = one_hot(experts, count).flip(0).cumsum(dim=0).flip(0)", "These are the last choices"),
    Wrong("66.4", "nothing is dropped", _FITS, "    return own > 0", "kept"),
    Wrong("66.4", "the dropped ones", _FITS, "    return own > capacity", "kept"),
    Wrong("66.5", "both hops after each other", _SLOWER,
          "    return nbytes * (between / gpus.between + inside / gpus.inside)", "not the sum of both"),
    Wrong("66.5", "the faster hop", _SLOWER, _SLOWER.replace("max(", "min("), "seconds"),
    Wrong("66.5", "one GPU of each group", _IN, "    inside = net.groups_of_a_token(layout) * (g - 1) / g",
          "All `tensor` GPUs of a group need a row"),
    Wrong("66.5", "all nodes are other nodes", _BETWEEN,
          "    between = net.nodes_of_a_token(nodes) * (nodes > 1)", "stays on the own node"),
    Wrong("66.5", "the row is nowhere yet", _IN, "    inside = net.groups_of_a_token(layout) * tensor",
          "One GPU has a row already"),
    Wrong("66.5", "forward pass alone", _BYTES, "    nbytes = (1 + 2) * net.hidden * net.tokens",
          "Forward and backward pass"),
    Wrong("66.5", "nodes of groups alone", _NODES, "    nodes = max(1, expert / 8)", "has tensor · expert GPUs"),
    Wrong("66.5", "nodes of all ranks", _BETWEEN, _BETWEEN.replace("token(nodes)", "token(ranks)"),
          "takes the number of nodes"),
    Wrong("66.5", "less than a node is less than one node", _NODES, "    nodes = ranks / 8", "seconds"),
]

RIGHT = [
    Right("66.1", "softmax of the best scores", [_BEST, _WEIGHTS], [
        "    best, experts = scores.topk(k, dim=1)", "    weights = best.softmax(dim=1)"]),
    Right("66.1", "one-hot rows and einsum", [_SHARE, _LOSS], [
        "    share = one_hot(experts, scores.shape[1]).float().mean(dim=(0, 1))",
        '    return torch.einsum("e,e->", share, probability) * scores.size(1)']),
    Right("66.2", "NumPy's counts", [_OUTGOING, _INCOMING], [
        "    outgoing = np.multiply(sent, width)", "    incoming = np.multiply(received, width)"]),
    Right("66.2", "with displacements", _CALL,
          "    give, take = ([0, *np.cumsum(each)[:-1].tolist()] for each in (outgoing, incoming))\n"
          "    comm.Alltoallv([rows, (outgoing, give)], [arrived, (incoming, take)])"),
    Right("66.2", "messages by hand", _CALL,
          "    flat, box = rows.flatten().numpy(), arrived.view(-1).numpy()\n"
          "    begins = np.cumsum([0, *outgoing])\n    places = np.cumsum([0, *incoming])\n"
          "    requests = [comm.Isend(flat[begins[r] : begins[r + 1]], r) for r in range(comm.size)]\n"
          "    for r in range(comm.size):\n        comm.Recv(box[places[r] : places[r + 1]], r)\n"
          "    for request in requests:\n        request.Wait()"),
    Right("66.2", "with MPI's type", _CALL,
          "    from mpi4py import MPI\n\n"
          "    comm.Alltoallv([rows, outgoing, MPI.FLOAT], [arrived, incoming, MPI.FLOAT])"),
    Right("66.2", "a call that only starts", _CALL,
          "    comm.Ialltoallv([rows, outgoing], [arrived, incoming]).Wait()"),
    Right("66.2", "requests for both sides", _CALL,
          "    from mpi4py import MPI\n\n"
          "    calls = [comm.Irecv(part, source=r) for r, part in enumerate(arrived.split(received))]\n"
          "    calls += [comm.Isend(part, dest=r) for r, part in enumerate(rows.split(sent))]\n"
          "    MPI.Request.Waitall(calls)"),
    Right("66.2", "objects", _CALL, "    arrived = torch.cat(comm.alltoall(list(rows.split(sent))))"),
    Right("66.3", "counts by objects", _COUNTS,
          "    arriving = torch.tensor(comm.alltoall(counts.tolist()))"),
    Right("66.3", "counts of all ranks", _COUNTS,
          "    arriving = torch.stack([each[comm.rank] for each in comm.allgather(counts)])"),
    Right("66.3", "counts that arrive meanwhile", [_COUNTS, _SENT], [
        "    request = comm.Ialltoall(counts, arriving)", _SENT + "\n    request.Wait()"]),
    Right("66.3", "the last choices of an expert first", _ORDER,
          "    order = len(experts) - 1 - experts.flip(0).argsort(stable=True)"),
    Right("66.3", "a matrix of tokens and choices", _SUM,
          "    return one_hot(token, tokens).T.to(rows.dtype) @ rows"),
    Right("66.3", "sort, and an inverse by assignment", [_ORDER, _ROWS], [
        "    order = torch.sort(experts, stable=True).indices",
        "    inverse = torch.empty_like(order)\n    inverse[order] = torch.arange(len(order))\n"
        "    rows = weights.unsqueeze(1) * back[inverse]"]),
    Right("66.3", "without undoing the order", [_ROWS, _SUM], [
        "    rows = back * weights[order].unsqueeze(-1)", "    return result.index_add(0, token[order], rows)"]),
    Right("66.4", "a loop, negative floor division", [_CAPACITY, _PLACES, _OWN, _FITS], [
        "    return int(-(-factor * k * tokens // count))",
        "    seen = [0] * count", "    stays = []",
        "    for expert in experts.tolist():\n        stays.append(seen[expert] < capacity)\n"
        "        seen[expert] += 1\n    return torch.tensor(stays, dtype=torch.bool)"]),
    Right("66.4", "a list", [_PLACES, _OWN, _FITS], [
        "    seen = [0] * count", "    stays = []",
        "    for expert in experts.tolist():\n        seen[expert] += 1\n        stays.append(seen[expert] <= capacity)\n"
        "    return stays"]),
    Right("66.4", "by indices", _OWN, "    own = places[range(len(experts)), experts]"),
    Right("66.5", "step by step", [_NODES, _SLOWER], [
        "    nodes = ranks / 8 if ranks > 8 else 1",
        "    times = np.array([between / gpus.between, inside / gpus.inside])\n    return nbytes * times.max()"]),
]
# fmt: on
