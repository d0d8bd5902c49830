"""Published scaling points as rows of a table, and how a table is read.

The kit's own table is published.csv beside this module; a learner's has the same columns.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from labkit import nets, paths
from labkit.errors import LabError

# The systems whose rows the fit may see. Each network of the table is in one of them.
SEEN = ("Horovod 25 Gb/s RoCE", "DGX-1 P100")

NEEDED = ("system", "gpus", "gpus_per_node", "network", "gbit", "net", "batch", "images_at_1")
MORE = ("images", "inside", "algorithm", "servers", "senders", "input", "source")
COLUMNS = (*NEEDED, *MORE)
ALGORITHMS = ("ring", "tree", "halving", "server")

PCIE = 11.0  # GB/s between GPUs of a node, where a table does not say: virtual.machines has the source


@dataclass(frozen=True)
class Row:
    """One run of a training: what is known of it before, and what it reached, if that is known.

    system: of whom and where. gpus, per_node: GPUs in all, and in each node. network: which software carries
    gradients between nodes. algorithm: "ring", "tree", "halving" or "server". line: seconds that a byte takes
    on a node's card. inside: seconds that a byte takes from a GPU to the next one of its node. batch: images
    of each GPU in a step. alone: seconds of a step of a single GPU. step: seconds of this run's step, None
    where nobody measured it. senders, servers: of "server", who sends, and how many servers there are.
    input: seconds that a node needs at least to read its images of a step. source: where it was published.
    """

    system: str
    net: str
    gpus: int
    per_node: int
    network: str
    algorithm: str
    line: float
    inside: float
    batch: int
    alone: float
    step: float | None = None
    senders: int = 1
    servers: int = 1
    input: float = 0.0
    source: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes hold the GPUs."""
        return -(-self.gpus // self.per_node)

    @property
    def busiest(self) -> float:
        """The share of the gradients' bytes that the busiest server has: a tensor is never cut in two."""
        return max(1 / self.servers, largest_share(self.net))

    def images(self, seconds: float) -> float:
        """Images per second of all GPUs when a step takes so many seconds."""
        return self.gpus * self.batch / seconds

    def __str__(self) -> str:
        return f"{self.system}, {self.network}, {self.net}, {self.gpus} GPUs"


@cache
def largest_share(net: str) -> float:
    """The largest tensor's share of a net's parameters."""
    parameters = nets.layer_table(net)["parameters"]
    return float(parameters.max() / parameters.sum())


def at(row: Row, gpus: int, algorithm: str | None = None) -> Row:
    """The row's system with so many GPUs, by this algorithm (None: its own). Nobody has measured it.

    Senders and servers grow with the GPUs.
    """
    grown = gpus / row.gpus
    return replace(
        row,
        gpus=gpus,
        algorithm=algorithm or row.algorithm,
        step=None,
        senders=max(1, round(grown * row.senders)),
        servers=max(1, round(grown * row.servers)),
    )


def published() -> list[Row]:
    """The rows of the kit's table: verified, of nets whose layers the kit has, on networks that are known."""
    return read(Path(__file__).with_name("published.csv"))


def read(file: str | Path) -> list[Row]:
    """The rows of a CSV file with COLUMNS; those of MORE may be missing or empty.

    Relative paths are looked for here and in the checkout. LabError, in a sentence, for a file that is not
    there or cannot be read so.
    """
    path = Path(file).expanduser()
    if not path.is_absolute() and not path.exists():
        path = paths.root() / path
    if not path.is_file():
        raise LabError(f"There is no file {file}: give table= the path of a CSV file.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            columns = reader.fieldnames or []
            records = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabError(f"{file} is not a CSV file of text: {error}.") from None
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise LabError(
            f"{file} lacks the columns {', '.join(missing)}. Its first line has to name: "
            f"{', '.join(NEEDED)}; and it may name {', '.join(MORE)}."
        )
    if not records:
        raise LabError(f"{file} has a first line, but no row below it.")
    return [_row(record, f"{file}, line {line}") for line, record in enumerate(records, start=2)]


def _row(record: Mapping[str, str], where: str) -> Row:
    """One line of a file. where: for the sentences of its errors."""
    cells = {name: (record.get(name) or "").strip() for name in COLUMNS}
    if None in record or None in record.values():
        raise LabError(f"{where}: it has not as many cells as the first line has names.")
    empty = [name for name in ("system", "network", "net") if not cells[name]]
    if empty:
        raise LabError(f"{where}: {empty[0]} is empty.")
    try:
        nets.layer_table(cells["net"])
    except LabError as error:
        raise LabError(f"{where}: {error}") from None
    gpus = _whole(cells, "gpus", where)
    per_node = min(gpus, _whole(cells, "gpus_per_node", where))
    batch = _whole(cells, "batch", where)
    algorithm = cells["algorithm"] or "ring"
    if algorithm not in ALGORITHMS:
        raise LabError(f"{where}: algorithm is one of {', '.join(ALGORITHMS)}, not {algorithm!r}.")
    nodes = -(-gpus // per_node)
    images = _number(cells, "images", where)
    input_rate = _number(cells, "input", where)
    return Row(
        system=cells["system"],
        net=cells["net"],
        gpus=gpus,
        per_node=per_node,
        network=cells["network"],
        algorithm=algorithm,
        line=8e-9 / _needed(cells, "gbit", where) if nodes > 1 else 0.0,
        inside=1e-9 / (_number(cells, "inside", where) or PCIE),
        batch=batch,
        alone=batch / _needed(cells, "images_at_1", where),
        step=gpus * batch / images if images else None,
        senders=_whole(cells, "senders", where) if cells["senders"] else gpus,
        servers=_whole(cells, "servers", where) if cells["servers"] else nodes,
        input=per_node * batch / input_rate if input_rate else 0.0,
        source=cells["source"],
    )


def _number(cells: Mapping[str, str], name: str, where: str) -> float | None:
    """The number in this column, None when it is empty. LabError for what is no number above 0."""
    if not cells[name]:
        return None
    try:
        value = float(cells[name])
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise LabError(f"{where}: {name} has to be a number above 0, not {cells[name]!r}.")
    return value


def _needed(cells: Mapping[str, str], name: str, where: str) -> float:
    value = _number(cells, name, where)
    if value is None:
        raise LabError(f"{where}: {name} is empty; the model needs it.")
    return value


def _whole(cells: Mapping[str, str], name: str, where: str) -> int:
    value = _needed(cells, name, where)
    if value != int(value):
        raise LabError(f"{where}: {name} has to be a whole number, not {cells[name]!r}.")
    return int(value)
