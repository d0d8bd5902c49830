"""Mistakes of learners in lab 64: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"hidden": 16, "layers": 1, "places": 8, "texts": 2, "steps": 3, "read": 20_000, "most": 2}

_COLUMN = "    return tensor.chunk(ranks, dim=0)[rank]"
_ROW = "    return tensor.chunk(ranks, dim=1)[rank]"
_COPY = "        ctx.comm = comm\n        return tensor"
_COPY_BACK = "        return added(ctx.comm, gradient), None"
_ADD = "        return added(comm, tensor)"
_ADD_BACK = "        return gradient, None"
_HEADS = "    return torch.cat([column(third, rank, ranks) for third in tensor.chunk(3)])"
_SUMS = "    one += 6 * net.layers / pipeline * gpus.allreduce(tensor, 1, nbytes)"
_COLUMNS = '    columns = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}'
_ROWS = '    rows = {name: RowwiseParallel() for name in ("out", "down")}'
_RETURN = "    return (count + pipeline - 1) * one + gradients"

_MULTIPLY = "    busy = gpus.multiply(net, layout.micro) / layout.tensor"
_MOVE = "    busy += gpus.move(lab64.bytes_of_layer(net, layout))"
_ADDED = "    busy += 6 * gpus.allreduce(layout.tensor, 1, nbytes)"
_PASSES = "    return 2 * max(busy / 4, gpus.launches / 3) + max(busy / 2, gpus.launches / 3)"

# fmt: off
WRONG = [
    Wrong("64.1", "twelve outputs by heart", "return tensor.chunk(ranks, dim=1)[rank]",
          "return tensor.reshape(12, ranks, -1)[:, rank]", "row of a weight (5, 24)"),
    Wrong("64.1", "a NumPy array in place of a tensor", "return tensor.chunk(ranks, dim=0)[rank]",
          "return tensor.numpy().reshape(ranks, -1, *tensor.shape[1:])[rank]", "is of type ndarray, not a tensor"),
    Wrong("64.1", "columns are rows", _COLUMN, "    return tensor.chunk(ranks, dim=-1)[rank]",
          "is the other cut"),
    Wrong("64.1", "rows are columns", _ROW, "    return tensor.chunk(ranks, dim=0)[rank]",
          "is the other cut"),
    Wrong("64.1", "dealt out like cards", _COLUMN, "    return tensor[rank::ranks]", "column of a weight"),
    Wrong("64.1", "always the first part", _ROW, "    return tensor.chunk(ranks, dim=1)[0]",
          "row of a weight"),
    Wrong("64.1", "64 bits from 32", _COLUMN, _COLUMN + ".double()", "and the whole is torch.float32"),
    Wrong("64.1", "the list of parts", _COLUMN, "    return tensor.chunk(ranks, dim=0)",
          "column of a weight"),
    Wrong("64.1", "the bias is not cut", _COLUMN,
          "    return tensor.chunk(ranks, dim=0)[rank] if tensor.dim() > 1 else tensor", "column of a bias"),
    Wrong("64.2", "f adds nothing up", _COPY_BACK, "        return gradient, None", "was not added up"),
    Wrong("64.2", "f adds up forward, too", "        return tensor", "        return added(comm, tensor)",
          "his was added up"),
    Wrong("64.2", "g adds up on the way back, too", [_ADD, _ADD_BACK],
          ["        ctx.comm = comm\n        return added(comm, tensor)",
           "        return added(ctx.comm, gradient), None  # g"], "his was added up"),
    Wrong("64.2", "g adds nothing up", _ADD, "        return tensor", "was not added up"),
    Wrong("64.2", "the mean", _COPY_BACK, "        return added(ctx.comm, gradient) / ctx.comm.size, None",
          "the result"),
    Wrong("64.2", "added up in place", _ADD,
          "        from mpi4py import MPI\n        comm.Allreduce(MPI.IN_PLACE, tensor.detach().numpy())\n"
          "        return tensor.clone()", "what it was given was changed"),
    Wrong("64.2", "never waited for", _COPY_BACK,
          "        total = torch.zeros_like(gradient)\n"
          "        Copy.sent = ctx.comm.Iallreduce(gradient.contiguous(), total), gradient, total\n"
          "        return total, None", "comm.Iallreduce only starts"),
    Wrong("64.2", "the last comm, of all calls", [_COPY, _COPY_BACK],
          ["        Copy.comm = comm\n        return 1 * tensor",
           "        return added(Copy.comm, gradient), None"], "f's backward pass used another call's"),
    Wrong("64.2", "added up in 16 bits", _COPY_BACK,
          "        return added(ctx.comm, gradient.half()).to(gradient), None", "backward pass: the result"),
    Wrong("64.2", "added up in 32 bits", _ADD, "        return added(comm, tensor.float())",
          "float32, and it was given float64"),
    Wrong("64.2", "no gradient for comm is given", _COPY_BACK, "        return added(ctx.comm, gradient)",
          "gradient"),
    Wrong("64.2", "f adds up forward, and throws it away", "        return tensor\n",
          "        added(comm, tensor)\n        return tensor\n", "nothing has to be sent"),
    Wrong("64.3", "twelve heads by heart", "column(third, rank, ranks)",
          "third[12 * rank // ranks : 12 * (rank + 1) // ranks]", "8 heads of one row"),
    Wrong("64.3", "cut in one go", _HEADS, "    return column(tensor, rank, ranks)", "tears heads apart"),
    Wrong("64.3", "heads first", _HEADS,
          "    own = tensor.unflatten(0, (3, ranks, -1))[:, rank]\n"
          "    return own.transpose(0, 1).flatten(0, 1)", "in another order"),
    Wrong("64.3", "only the queries", _HEADS, "    return column(tensor.chunk(3)[0], rank, ranks)",
          "the bias's rows"),
    Wrong("64.3", "all keys and values", _HEADS,
          "    queries, keys, values = tensor.chunk(3)\n"
          "    return torch.cat([column(queries, rank, ranks), keys, values])", "the bias's rows"),
    Wrong("64.3", "joined by NumPy", _HEADS, _HEADS.replace("torch.cat", "np.concatenate"), "not a tensor"),
    Wrong("64.3", "every so many-th head", _HEADS,
          "    return torch.cat([third[rank::ranks] for third in tensor.chunk(3)])", "the bias's rows"),
    Wrong("64.4", "half of the peak, whatever the GPUs reach", "gpus.compute(net, micro)",
          "lab64.GPUs(0.5).compute(net, micro)", "(2, 4, 32, 4): seconds"),
    Wrong("64.4", "no bubble", _RETURN, "    return count * one + gradients", "bubble is missing"),
    Wrong("64.4", "no sum of the gradients", _RETURN, "    return (count + pipeline - 1) * one",
          "allreduce of the gradients is missing"),
    Wrong("64.4", "no sums of the tensor ranks", _SUMS, "    pass", "seconds"),
    Wrong("64.4", "gradients with every micro-batch", _RETURN,
          "    return (count + pipeline - 1) * (one + gradients)", "seconds"),
    Wrong("64.4", "all layers on each stage", _SUMS, _SUMS.replace(" / pipeline", ""), "seconds"),
    Wrong("64.4", "four sums", _SUMS, _SUMS.replace("6 *", "4 *"), "seconds"),
    Wrong("64.4", "the bubble of p stages", _RETURN, _RETURN.replace(" - 1", ""), "seconds"),
    Wrong("64.4", "data ranks are neighbours", "gpus.allreduce(data, tensor,", "gpus.allreduce(data, 1,",
          "`tensor` GPUs apart"),
    Wrong("64.4", "all gradients on each GPU", "2 * net.parameters / (tensor * pipeline)",
          "2 * net.parameters", "seconds"),
    Wrong("64.4", "the arithmetic is not shared", " / (tensor * pipeline)\n    one +=",
          " / tensor\n    one +=", "seconds"),
    Wrong("64.4", "the batch is not shared", "net.batch / (data * micro)", "net.batch / micro", "seconds"),
    Wrong("64.4", "bytes of one sequence", "2 * micro * net.sequence", "2 * net.sequence", "seconds"),
    Wrong("64.5", "all by columns", _ROWS, _ROWS.replace("Row", "Col"),
          "`out` is cut by rows in your layers, so RowwiseParallel is its style, not ColwiseParallel"),
    Wrong("64.5", "the other way round", [_COLUMNS, _ROWS],
          [_COLUMNS.replace("Col", "Row"), _ROWS.replace("Row", "Col")], "`q` is cut by columns"),
    Wrong("64.5", "values by rows, as they follow", [_COLUMNS, _ROWS],
          [_COLUMNS.replace('"v", ', ""), _ROWS.replace('"out"', '"v", "out"')], "`v` is cut by columns"),
    Wrong("64.5", "the MLP is forgotten", "    return columns | rows",
          '    del columns["up"], rows["down"]\n    return columns | rows', "says nothing about `up`"),
    Wrong("64.5", "classes, not styles", _COLUMNS, _COLUMNS.replace("()", ""), "has a class as its style. Call it"),
    Wrong("64.5", "results that stay cut", _ROWS,
          "    from torch.distributed.tensor import Shard\n"
          + _ROWS.replace("()", "(output_layouts=Shard(-1))"), "64.5"),
    Wrong("64.5", "nothing is returned", "    return columns | rows", "    columns | rows", "64.5"),
    Wrong("64.6", "launches are added", _PASSES, "    return busy + gpus.launches", "longer counts, not the sum"),
    Wrong("64.6", "one maximum", _PASSES, "    return max(busy, gpus.launches)", "found in each pass"),
    Wrong("64.6", "no launches", _PASSES, "    return busy", "The launches are missing"),
    Wrong("64.6", "whole matrices", _MULTIPLY, _MULTIPLY.replace(" / layout.tensor", ""), "ranks share the matrices"),
    Wrong("64.6", "bytes shared twice", _MOVE, _MOVE[:-1] + " / layout.tensor)", "bytes of one GPU already"),
    Wrong("64.6", "nothing is moved", _MOVE, "    pass", "bytes that are moved are missing"),
    Wrong("64.6", "no allreduces", _ADDED, "    pass", "allreduces of the tensor ranks are missing"),
    Wrong("64.6", "two passes", _PASSES, _PASSES.replace("2 * max", "max"), "seconds"),
    Wrong("64.6", "one sequence", _MULTIPLY, _MULTIPLY.replace("layout.micro", "1"), "seconds"),
    Wrong("64.6", "nothing is returned", _PASSES, _PASSES.replace("return", "seconds ="), "64.6"),
    Wrong("64.1", "the caller's weight is scaled", _ROW,
          "    tensor *= 2\n    return tensor.chunk(ranks, dim=1)[rank]", "given tensor was changed"),
    Wrong("64.4", "2,048 positions by heart", "net.sequence", "2048", "sequences of 1024"),
    Wrong("64.6", "tensor ranks on different nodes", _ADDED,
          _ADDED.replace("tensor, 1,", "tensor, layout.tensor,"), "(8, 1, 1, 8): seconds"),
]

RIGHT = [
    Right("64.1", "views and slices", [_COLUMN, _ROW], [
        "    return tensor.unflatten(0, (ranks, -1))[rank]",
        "    each = tensor.shape[1] // ranks\n    return tensor[:, rank * each : (rank + 1) * each]"]),
    Right("64.1", "split and narrow", [_COLUMN, _ROW], [
        "    return torch.split(tensor, len(tensor) // ranks)[rank]",
        "    each = tensor.size(1) // ranks\n    return tensor.narrow(1, rank * each, each)"]),
    Right("64.2", "one rank needs no sum", [_COPY_BACK, _ADD], [
        "        if ctx.comm.size == 1:\n            return gradient, None\n" + _COPY_BACK,
        "        return tensor.clone() if comm.size == 1 else added(comm, tensor)"]),
    Right("64.2", "Iallreduce", _COPY_BACK,
          "        total = torch.empty_like(gradient, memory_format=torch.contiguous_format)\n"
          "        ctx.comm.Iallreduce(gradient.contiguous().numpy(), total.numpy()).Wait()\n"
          "        return total, None"),
    Right("64.2", "pickled, views", [_ADD, "        return tensor\n"], [
        "        return torch.as_tensor(comm.allreduce(tensor.detach().numpy()))",
        "        return tensor.view_as(tensor)\n"]),
    Right("64.3", "by a view", _HEADS,
          "    return tensor.unflatten(0, (3, ranks, -1))[:, rank].flatten(0, 1)"),
    Right("64.3", "three slices", _HEADS,
          "    third = len(tensor) // 3\n    each = third // ranks\n"
          "    starts = [kind * third + rank * each for kind in range(3)]\n"
          "    return torch.concatenate([tensor[start : start + each] for start in starts], dim=0)"),
    Right("64.4", "parts, then a sum",
          _RETURN, "    bubble = (pipeline - 1) * one\n    return np.sum([count * one, bubble, gradients])"),
    Right("64.4", "keyword arguments, other names", [
        "gpus.allreduce(tensor, 1, nbytes)", "gpus.compute(net, micro)"], [
        "gpus.allreduce(ranks=tensor, apart=1, nbytes=nbytes)", "gpus.compute(net, sequences=layout.micro)"]),
    Right("64.5", "written out, layouts said", [_COLUMNS, _ROWS, "    return columns | rows"], [
        "    from torch.distributed.tensor import Replicate, Shard\n"
        "    by_columns = ColwiseParallel(input_layouts=Replicate())",
        "    by_rows = RowwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate())",
        '    return {"q": by_columns, "k": by_columns, "v": by_columns, "out": by_rows, '
        '"up": by_columns, "down": by_rows}']),
    Right("64.6", "a loop over the passes", _PASSES,
          "    seconds = 0\n    for work in (0.25, 0.25, 0.5):\n"
          "        seconds += np.maximum(work * busy, gpus.launches / 3)\n    return seconds"),
    Right("64.6", "unpacked, the larger by if", [_MULTIPLY, _PASSES], [
          "    tensor, _, _, micro = layout\n    busy = gpus.multiply(net, sequences=micro) / tensor",
          "    each = gpus.launches / 3\n    forward = busy / 4 if busy / 4 > each else each\n"
          "    return forward + forward + max(each, busy / 2)"]),
]
# fmt: on
