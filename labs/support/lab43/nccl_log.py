"""Read what NCCL prints with NCCL_DEBUG=INFO: network, transports, rings, trees, choices, errors.

    log = read("nccl.node1.4711.log", "nccl.node2.815.log")  # or one file of all ranks, or a folder
    print(log.summary());  log.transports();  log.gdrdma;  log.missing();  log.choices

NCCL 2.10 to 2.30 (see nccl_lines). Labels, times and lines that are not NCCL's are passed over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from labkit.errors import LabError

from support.lab43 import nccl_warnings
from support.lab43.nccl_facts import collect

EXAMPLES = Path(__file__).with_name("logs")


class Rank(NamedTuple):
    """Where a rank is. host, pid: None where lines lack them. device: CUDA's number of its GPU; bus: PCI."""

    host: str | None
    pid: int | None
    device: int
    bus: str
    complete: bool


class Link(NamedTuple):
    """A line about a connection. via: NCCL's own words, "P2P/CUMEM/read"; size: ranks of its communicator."""

    channel: int
    source: int
    dest: int
    via: str
    size: int | None

    @property
    def transport(self) -> str:
        """ "P2P", "SHM" or "NET"."""
        return "SHM" if self.via == "direct shared memory" else self.via.split("/")[0]

    @property
    def kind(self) -> str:
        """The transport without device and suffixes: "P2P/CUMEM", "P2P/direct pointer", "SHM", "NET/IB"."""
        return "SHM" if self.transport == "SHM" else "/".join(self.via.split("/")[:2])

    @property
    def short_kind(self) -> str:
        """The transport, and whether the network card reads the GPU's memory: "P2P", "NET", "NET+GDRDMA"."""
        return f"{self.transport}+GDRDMA" if self.gdrdma else self.transport

    @property
    def gdrdma(self) -> bool:
        """Whether the network card reads or writes the GPU's memory itself."""
        return self.transport == "NET" and "/GDRDMA" in self.via


class Choice(NamedTuple):
    """What NCCL chose for a call. function: None before 2.23; seconds: its estimate; channels: how many."""

    function: str | None
    bytes: int
    algorithm: str
    protocol: str
    seconds: float | None = None
    channels: int | None = None


@dataclass
class Log:
    """What a log tells; None, or nothing, where it is silent.

    size, ranks, links, rings, trees: of the largest communicator. rings: channel -> ranks in order (NCCL
    prints at most 20 of them). trees: channel -> {rank: (up, [down, …])}, up None at the root.
    """

    version: str | None = None
    networks: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    nic_gdrdma: dict[int, bool] = field(default_factory=dict)
    size: int | None = None
    ranks: dict[int, Rank] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    rings: dict[int, list[int]] = field(default_factory=dict)
    trees: dict[int, dict[int, tuple[int | None, list[int]]]] = field(default_factory=dict)
    channels: int | None = None
    nvls: bool | None = None
    choices: list[Choice] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def transports(self, short: bool = False) -> dict[tuple[int, int], set[str]]:
        """(source, dest) -> connections: {"P2P/CUMEM"}, {"NET/IB"}; short: {"P2P"}, {"NET+GDRDMA"}."""
        pairs: dict[tuple[int, int], set[str]] = {}
        for link in self.links:
            kind = link.short_kind if short else link.kind
            pairs.setdefault((link.source, link.dest), set()).add(kind)
        return pairs

    @property
    def gdrdma(self) -> str | None:
        """GPUDirect RDMA on "all", "some" or "none" of the connections over the network; None: none seen."""
        used = {link.gdrdma for link in self.links if link.transport == "NET"}
        if not used:
            return None
        if len(used) > 1:
            return "some"
        return "all" if True in used else "none"

    def chosen(self, function: str | None = None) -> dict[int, str]:
        """bytes -> "Tree/LL", algorithm and protocol, by size; of one function, "AllReduce", or of all."""
        choices = [choice for choice in self.choices if function in (None, choice.function)]
        choices.sort(key=lambda choice: choice.bytes)
        return {choice.bytes: f"{choice.algorithm}/{choice.protocol}" for choice in choices}

    def missing(self) -> list[int]:
        """Ranks that have not told that their initialisation is complete; [] if the log names no ranks."""
        complete = {number for number, rank in self.ranks.items() if rank.complete}
        return [number for number in range(self.size or 0) if number not in complete]

    def problems(self) -> list[str]:
        """Each warning or error once, in plain words."""
        return list(dict.fromkeys(self.warnings))

    def summary(self) -> str:
        """The log in a few lines."""
        pairs = Counter(kind for kinds in self.transports().values() for kind in kinds)
        parts = {
            "version": self.version,
            "network": ", ".join([*self.networks, *self.devices]),
            "pairs of ranks": ", ".join(f"{kind} {count}" for kind, count in sorted(pairs.items())),
            "over the network": self.gdrdma and f"GPUDirect RDMA on {self.gdrdma} of them",
            "channels": self.channels,
            "ranks": self.size and f"{self.size}, complete: {self.size - len(self.missing())}",
            "chosen": ", ".join(dict.fromkeys(self.chosen().values())),
            "problems": " ".join(self.problems()),
        }
        return "\n".join(f"{name}: {value}" for name, value in parts.items() if value)


def read(*paths: str | Path) -> Log:
    """The log in these files, of one rank or many, in any order; a folder stands for all files in it.

    Raises LabError when a file is missing or there is nothing of NCCL in any.
    """
    files = [file for path in paths for file in _files(Path(path))]
    if not files:
        raise LabError("lab43.read wants at least one file: NCCL's output with NCCL_DEBUG=INFO.")
    return parse("\n".join(_text(file) for file in files), " and ".join(str(path) for path in paths))


def parse(text: str, named: str = "This text") -> Log:
    """As `read`, from the text itself."""
    facts = collect(text)
    if not facts.lines:
        raise LabError(
            f"{named}: no line of NCCL in it. Run the job with NCCL_DEBUG=INFO (and, to see the choice of "
            "algorithms, NCCL_DEBUG_SUBSYS=INIT,NET,TUNING) and give its whole output."
        )
    return Log(
        facts.version,
        tuple(facts.networks),
        tuple(facts.devices),
        facts.nic_gdrdma,
        facts.size,
        {number: Rank(**where) for number, where in sorted(facts.ranks().items())},
        [Link(**link) for link in facts.links()],
        facts.rings(),
        facts.trees(),
        facts.channels(),
        facts.nvls,
        [Choice(**choice) for choice in facts.choices],
        [nccl_warnings.of_warning(text) for text in facts.warnings] + facts.errors,
    )


def examples() -> list[str]:
    """Names of the real logs that come with the kit; the first lines of each tell its source."""
    return sorted(path.stem for path in EXAMPLES.glob("*.log"))


def example(name: str) -> Path:
    """The file of one of `examples()`."""
    path = EXAMPLES / f"{name}.log"
    if not path.exists():
        raise LabError(f"There is no example {name!r}. There are: {', '.join(examples())}.")
    return path


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LabError(f"Cannot read the log {file} ({error.strerror}).") from error
