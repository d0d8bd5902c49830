"""Mistakes of learners in lab 02: exercise, mistake, what is replaced, by what, a phrase of the
rejection."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"images": 1, "repeat": 5}

_FLOPS = "return 3 * table.flops.sum() * pictures * epochs"
_NUMBERS = "numbers = 4 * table.parameters.sum() + batch * table.activations.sum()"
_STEP = "return devices * compute / max(compute, exchange)"

# fmt: off
WRONG = [
    Wrong("02.1", "forward alone", _FLOPS, "return table.flops.sum() * pictures * epochs",
          "only the forward pass; the backward pass takes twice as many"),
    Wrong("02.1", "back alone", _FLOPS, "return 2 * table.flops.sum() * pictures * epochs",
          "only the backward pass; the forward pass comes on top"),
    Wrong("02.1", "one epoch", _FLOPS, "return 3 * table.flops.sum() * pictures", "is one epoch"),
    Wrong("02.1", "64-bit integers", _FLOPS, "return int(3 * torch.tensor(table.flops.sum()).long() * pictures * epochs)",
          "64-bit integers cannot hold this number"),
    Wrong("02.1", "convolutions alone", _FLOPS,
          'return 3 * table[table.kind == "conv"].flops.sum() * pictures * epochs', "650 forward"),
    Wrong("02.1", "the operations of both ways written into the table", _FLOPS,
          'table["flops"] *= 3\n    return table.flops.sum() * pictures * epochs', "`table` was changed"),
    Wrong("02.1", "a string", _FLOPS, "return f'{3 * table.flops.sum() * pictures * epochs}'",
          "expected numbers, got '585000.0'"),
    Wrong("02.2", "a column of bytes put into the table", [_NUMBERS, "return 4 * numbers"],
          ['table["bytes"] = 16 * table.parameters + 4 * batch * table.activations',
           "return table.bytes.sum()"], "`table` was changed"),
    Wrong("02.2", "numbers, not bytes", "return 4 * numbers", "return numbers", "each has 4 bytes"),
    Wrong("02.2", "parameters for each picture", _NUMBERS,
          "numbers = batch * (4 * table.parameters.sum() + table.activations.sum())",
          "The parameters exist once, however many images there are"),
    Wrong("02.2", "one picture's activations", _NUMBERS,
          "numbers = 4 * table.parameters.sum() + table.activations.sum()", "has its own activations"),
    Wrong("02.2", "no averages", _NUMBERS,
          "numbers = 2 * table.parameters.sum() + batch * table.activations.sum()", "Adam's two averages"),
    Wrong("02.3", "one after the other", _STEP, "return devices * compute / (compute + exchange)",
          "not the sum"),
    Wrong("02.2", "at least one image", _NUMBERS,
          "numbers = 4 * table.parameters.sum() + (batch or 1) * table.activations.sum()",
          "0 images have no activations"),
    Wrong("02.3", "no exchange", _STEP, "return devices", "leaves out the communication"),
    Wrong("02.3", "at most 64", _STEP, "return min(64, devices * compute / max(compute, exchange))",
          "expected 100, got 64"),
    Wrong("02.3", "batches per second", _STEP, "return devices / max(compute, exchange)",
          "batches per second; divide"),
    Wrong("02.3", "the shorter", _STEP, "return devices * compute / min(compute, exchange or compute)",
          "at least `compute` seconds"),
    Wrong("02.3", "a step's time", _STEP, "return max(compute, exchange)", "the step's time, not"),
    Wrong("02.3", "efficiency", _STEP, "return compute / max(compute, exchange)", "This is the efficiency; multiplied by the number of devices"),
    Wrong("02.3", "a shared batch", _STEP, "return compute / max(compute / devices, exchange)",
          "computes a whole batch"),
    Wrong("02.3", "one link for all", "* gradient / link", "* gradient / 1e9", "expected"),
    Wrong("02.3", "sent once", "exchange = 2 * (devices", "exchange = (devices", "hence the factor 2"),
    Wrong("02.3", "one device exchanges", "2 * (devices - 1) / devices * gradient", "2 * gradient",
          "single device sends nothing"),
    Wrong("02.3", "whole vectors", "2 * (devices - 1) / devices * gradient", "2 * (devices > 1) * gradient",
          "only the part (p − 1) / p"),
]
# fmt: on

RIGHT = [
    Right(
        "02.1",
        "a loop over the rows",
        _FLOPS,
        """\
forward = 0
    for operations in table["flops"]:
        forward += operations
    return (forward + 2 * forward) * epochs * pictures""",
    ),
    Right(
        "02.1",
        "NumPy's sum, as an int",
        _FLOPS,
        "return int(np.sum(table.flops.to_numpy()) * 3 * pictures * epochs)",
    ),
    Right(
        "02.1",
        "the kinds of layers that compute",
        _FLOPS,
        """\
computing = table[table.kind.isin(["conv", "linear"])]
    return 3 * computing.flops.sum() * pictures * epochs""",
    ),
    Right(
        "02.2",
        "bytes from the start",
        [_NUMBERS, "return 4 * numbers"],
        [
            'of_parameters = 16 * table["parameters"].sum()',
            'return of_parameters + 4 * int(table["activations"].sum()) * batch',
        ],
    ),
    Right(
        "02.2",
        "a table of its own, with a column of bytes",
        [_NUMBERS, "return 4 * numbers"],
        [
            "own = table.assign(bytes=16 * table.parameters + 4 * batch * table.activations)",
            "return own.bytes.sum()",
        ],
    ),
    Right("02.2", "in floating point", "return 4 * numbers", "return np.float64(4) * numbers"),
    Right(
        "02.3",
        "by if",
        _STEP,
        """\
step = compute
    if exchange > compute:
        step = exchange
    return devices / (step / compute)""",
    ),
    Right(
        "02.3",
        "NumPy's minimum of both bounds",
        _STEP,
        'with np.errstate(divide="ignore"):\n'
        "        return devices * np.minimum(1, np.divide(compute, exchange))",
    ),
]
# fmt: on
