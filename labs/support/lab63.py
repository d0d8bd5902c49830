"""Lab 63: checks; schedules of a pipeline on paper and on real ranks, and drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from labkit import check, expect, launch, nets, plots, profiling, world
from labkit.counting import CallLog, on_every_size
from labkit.errors import LabError
from torch.nn import functional


@check.exercise("63.1")
def all_forwards_then_back(gpipe):
    """Schedules that can be run, with all forward passes before all backward passes."""
    for size, micro in ((2, 3), (4, 2), (1, 1)):
        schedules = gpipe(size, micro)
        where = f"ranks: {size}, micro-batches: {micro}"
        wrong = shortcoming(schedules, size, micro)
        expect(not wrong, f"{where}: {wrong}")
        want = [(kind, number) for kind in "FB" for number in range(micro)]
        for rank, schedule in enumerate(schedules):
            what = f"{where}, rank {rank}: first all F, then all B, each in order"
            expect.equal(text(schedule), text(want), what)


@check.exercise("63.2")
def one_forward_one_back(one_f_one_b):
    """Schedules that can be run, in the order of the text."""
    for size, micro in ((3, 5), (4, 2), (1, 3)):
        schedules = one_f_one_b(size, micro)
        where = f"ranks: {size}, micro-batches: {micro}"
        wrong = shortcoming(schedules, size, micro)
        expect(not wrong, f"{where}: {wrong}")
        for rank, schedule in enumerate(schedules):
            warm = min(micro, size - 1 - rank)
            want = [("F", number) for number in range(warm)]
            for number in range(micro):
                want += [("F", warm + number)] if warm + number < micro else []
                want += [("B", number)]
            first, right = (
                next(place for place, (kind, _) in enumerate(one) if kind == "B")
                for one in (schedule, want)
            )
            told = f"{first} F before the first B, where {right} is right (warm-up: {warm})"
            expect(first == right, f"{where}, rank {rank}: its schedule has {told}.")
            expect.equal(text(schedule), text(want), f"{where}, rank {rank}: its schedule")


@check.exercise("63.3")
def schedules_on_ranks(run_schedule, one_f_one_b, patience, ranks, width):
    """The gradients and the loss of one process, for GPipe with short messages and for 1F1B with
    long ones."""
    trials = {  # schedule, micro-batches, numbers between two stages, pictures
        "GPipe with 3 micro-batches, B in reverse order, short messages": (_papers_gpipe, 3, 8, 9),
        "1F1B with 4 micro-batches, long messages": (one_f_one_b, 4, width, 512),
    }

    def try_schedules(comm):
        results = {}
        for trial, (schedule_of, *sizes) in trials.items():
            with launch.case(trial):
                schedules = schedule_of(comm.size, sizes[0])
                results[trial] = try_schedule(comm, run_schedule, schedules, *sizes)
                results[trial]["left"] = text(schedules[comm.rank])
        return results

    most = min(ranks, 4)
    by_rank = launch.run(on_every_size, try_schedules, ranks=most, threads=1, timeout=patience)
    for size in range(1, most + 1):
        for trial, (schedule_of, micro, wide, batch) in trials.items():
            loss, gradients = one_process(wide, batch)
            where = f"ranks: {size}, {trial}"
            schedules = schedule_of(size, micro)
            tried = [of_sizes[size][trial] for of_sizes in by_rank[:size]]
            expect.close(tried[-1]["loss"], loss, f"{where}: the loss on the last rank", rtol=1e-4)
            ours = [gradient for result in tried for gradient in result["gradients"]]
            for place, (got, want) in enumerate(zip(ours, gradients, strict=True)):
                expect(
                    got is not None,
                    f"{where}: parameter {place} has no gradient. Was every B done?",
                )
                expect.close(
                    got, want, f"{where}: gradient of parameter {place}", rtol=1e-3, atol=1e-6
                )
            for rank, result in enumerate(tried):
                did = f"{where}, rank {rank}: what it did, in order"
                expect.equal(text(result["done"]), text(schedules[rank]), did)
                given = f"{where}, rank {rank}: the list `schedule`"
                expect.unchanged(text(schedules[rank]), result["left"], given)
                left = result["under_way"]
                expect(
                    not left, f"{where}, rank {rank}: requests that were not waited for: {left}."
                )
                small = [
                    call for call in result["calls"] if call in ("send", "isend", "recv", "irecv")
                ]
                expect(
                    not small,
                    f"{where}: {small} pack any object. Send arrays as they are: Isend, Recv.",
                )
                others = [call for call in result["calls"] if call not in ONE_TO_ONE]
                wait = "make all ranks wait for each other. A schedule needs Isend and Recv only."
                expect(not others, f"{where}: {others} {wait}")


def _papers_gpipe(ranks: int, micro: int) -> list[list[Action]]:
    """GPipe as in its paper's figure: the last F is the first B."""
    forwards = [("F", number) for number in range(micro)]
    return [forwards + [("B", number) for _, number in reversed(forwards)] for _ in range(ranks)]


ONE_TO_ONE = ("Send", "Ssend", "Isend", "Issend", "Recv", "Irecv", "Probe", "Iprobe")

# -- schedules on paper


Action = tuple  # ("F" or "B", micro-batch) or ("F" or "B", micro-batch, piece)


class Span(NamedTuple):
    """One action of a rank: "F" or "B", its micro-batch and piece, begin and end."""

    kind: str
    micro: int
    piece: int
    begin: float
    end: float


class Played(NamedTuple):
    """A schedule with times. spans: of each rank. time: until all is done. idle: share of all
    ranks' time."""

    spans: list[list[Span]]
    time: float
    idle: float


def _parts(action: Action) -> tuple[str, int, int]:
    kind, micro, *piece = action
    return kind, micro, piece[0] if piece else 0


def play(
    schedules: Sequence[Sequence[Action]], forward: float = 1.0, backward: float = 2.0
) -> Played:
    """Let each rank do its schedule in order, each action as soon as what it needs is there.

    F of a piece needs F of the piece before it in the net, B the piece's own F and B of the piece
    behind it. Piece c of rank r of p is number c p + r in the net. Messages take no time. forward,
    backward: seconds of an action. Raises LabError when the ranks wait for each other forever.
    """
    ranks = len(schedules)
    pieces = 1 + max(
        (_parts(action)[2] for schedule in schedules for action in schedule), default=0
    )
    last = ranks * pieces - 1
    ended: dict[tuple[str, int, int], float] = {}  # (kind, micro, number in the net) -> end
    spans: list[list[Span]] = [[] for _ in schedules]
    free = [0.0] * ranks
    places = [0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, schedule in enumerate(schedules):
            while places[rank] < len(schedule):
                kind, micro, piece = _parts(schedule[places[rank]])
                number = piece * ranks + rank
                needs = []
                if kind == "F" and number > 0:
                    needs.append(("F", micro, number - 1))
                if kind == "B":
                    needs.append(("F", micro, number))
                    if number < last:
                        needs.append(("B", micro, number + 1))
                if any(need not in ended for need in needs):
                    break
                begin = max([free[rank], *(ended[need] for need in needs)])
                end = begin + (forward if kind == "F" else backward)
                ended[kind, micro, number] = end
                spans[rank].append(Span(kind, micro, piece, begin, end))
                free[rank] = end
                places[rank] += 1
                moved = True
    waiting = [rank for rank in range(ranks) if places[rank] < len(schedules[rank])]
    if waiting:
        rank = waiting[0]
        kind, micro, _ = _parts(schedules[rank][places[rank]])
        raise LabError(
            f"Rank {rank} waits forever before {kind}{micro}: what it needs never comes."
        )
    time = max(free, default=0.0)
    busy = sum(span.end - span.begin for own in spans for span in own)
    return Played(spans, time, 1 - busy / (ranks * time) if time else 0.0)


def text(schedule: Sequence[Action]) -> str:
    """A schedule in one line, as "F0 F1 B0 B1"."""
    return " ".join(f"{action[0]}{action[1]}" for action in schedule)


def shortcoming(schedules: object, ranks: int, micro: int) -> str:
    """What is wrong with schedules of `ranks` ranks for `micro` micro-batches, in a sentence; "" if
    nothing."""
    if not isinstance(schedules, (list, tuple)) or len(schedules) != ranks:
        return f"Return a list that holds a schedule for each of the ranks, {ranks} in all."
    for rank, schedule in enumerate(schedules):
        if not isinstance(schedule, (list, tuple)):
            return f"The schedule of rank {rank} is not a list, but a {type(schedule).__name__}."
        for action in schedule:
            pair = isinstance(action, (list, tuple)) and len(action) == 2
            if not pair or action[0] not in ("F", "B"):
                return f'Rank {rank} has {action!r}; an action is ("F", number) or ("B", number).'
        for kind in "FB":
            own = sorted(action[1] for action in schedule if action[0] == kind)
            if own != list(range(micro)):
                asked = f"must have {kind} of 0 to {micro - 1}, once each"
                return f"Rank {rank} has {kind} of micro-batches {own}, but {asked}."
        done = set()
        for kind, number in schedule:
            if kind == "B" and number not in done:
                return (
                    f"Rank {rank} has B of micro-batch {number} before F of the same micro-batch."
                )
            done.add(number)
    try:
        play(schedules)
    except LabError as error:
        return str(error)
    return ""


def interleaved(ranks: int, micro: int, pieces: int) -> list[list[Action]]:
    """1F1B with `pieces` pieces of the net on each rank, as in Megatron-LM (Narayanan and others,
    2021).

    Piece c of rank r is number c p + r in the net. micro must be a multiple of ranks.
    """
    if micro % ranks:
        raise LabError(
            f"Interleaved chunks need micro-batches in multiples of the ranks; {micro} is none of"
            f" {ranks}."
        )
    total = micro * pieces
    group = ranks * pieces

    def at(place: int, kind: str) -> Action:
        piece = place % group // ranks
        number = place // group * ranks + place % ranks
        return kind, number, piece if kind == "F" else pieces - 1 - piece

    schedules = []
    for rank in range(ranks):
        warm = min(total, 2 * (ranks - 1 - rank) + (pieces - 1) * ranks)
        schedule = [at(place, "F") for place in range(warm)]
        for place in range(total - warm):
            schedule += [at(warm + place, "F"), at(place, "B")]
        schedule += [at(place, "B") for place in range(total - warm, total)]
        schedules.append(schedule)
    return schedules


# -- schedules on real ranks


class Work:
    """One stage's part of a step. Tensors go in and come out, on the device of the pictures; who
    sends them where is not its affair.

    stage: the blocks of this rank. pictures (n, …), labels (n,): of the whole batch. micro: how
    many micro-batches the batch is cut into. first, last: whether the net begins, ends here. done:
    what was done, in order: ("F", number), ("B", number). most_bytes: the most that the way back
    needed at any time, of all micro-batches under way.
    """

    def __init__(
        self, stage: torch.nn.Sequential, pictures, labels, micro: int, *, first: bool, last: bool
    ):
        self.stage = stage
        self.first = first
        self.last = last
        self.pictures = torch.tensor_split(pictures, micro)
        self.labels = torch.tensor_split(labels, micro)
        self.count = len(pictures)
        self.losses: list[float] = []
        self.done: list[tuple[str, int]] = []
        self.most_bytes = 0
        self._under_way: dict[int, tuple] = {}  # micro-batch -> (entering, leaving, bytes)

    def room_for_entering(self, number: int) -> torch.Tensor:
        """A float32 tensor, full of NaN, for what enters this stage with that micro-batch."""
        return self._room(number, self.stage[0][0].in_features)

    def room_for_gradient(self, number: int) -> torch.Tensor:
        """A float32 tensor, full of NaN, for the gradient of what left this stage with that
        micro-batch."""
        return self._room(number, self.stage[-1][0].out_features)

    def _room(self, number: int, features: int) -> torch.Tensor:
        pictures = self.pictures[number]
        return pictures.new_full((len(pictures), features), torch.nan)

    def _given(self, call: str, tensor: torch.Tensor | None, none: bool, peer: str):
        """The tensor that a call got. none: whether this stage has to pass None."""
        if none:
            if tensor is not None:
                raise LabError(f"work.{call}: there is no {peer} rank here, so pass None.")
            return None
        if tensor is None:
            raise LabError(f"work.{call} got None: receive it from the {peer} rank first.")
        tensor = torch.as_tensor(tensor)
        if tensor.isnan().any():
            raise LabError(
                f"work.{call} got a tensor that the {peer} rank's message has not filled: wait for"
                " an Irecv before you use its tensor."
            )
        return tensor

    def forward(self, number: int, entering: torch.Tensor | None) -> torch.Tensor | None:
        """The way forward. entering: None on the first stage. Returns what leaves; None on the last
        stage."""
        self.done.append(("F", number))
        entering = self._given("forward", entering, self.first, "previous")
        inputs = self.pictures[number] if self.first else entering.detach().requires_grad_()
        for other, (kept_inputs, *_) in self._under_way.items():
            if other != number and kept_inputs.data_ptr() == inputs.data_ptr():
                raise LabError(
                    f"work.forward of micro-batch {number} got the tensor that B of micro-batch"
                    f" {other} still needs: receive each micro-batch into a new tensor."
                )
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs = self.stage(inputs)
            if self.last:
                outputs = functional.cross_entropy(outputs, self.labels[number], reduction="sum")
                outputs = outputs / self.count  # micro-batches may differ by a picture
                self.losses.append(outputs.item())
        parameters = {weights.data_ptr() for weights in self.stage.parameters()}
        size = sum(nbytes for address, nbytes in kept.items() if address not in parameters)
        self._under_way[number] = (inputs, outputs, size)
        self.most_bytes = max(self.most_bytes, sum(held for *_, held in self._under_way.values()))
        return None if self.last else outputs.detach()

    def backward(self, number: int, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """The way back; gradients add up in the parameters. gradient: of what left; None on the
        last stage.

        Returns the gradient of what entered; None on the first stage.
        """
        self.done.append(("B", number))
        gradient = self._given("backward", gradient, self.last, "next")
        if number not in self._under_way:
            raise LabError(f"work.backward of micro-batch {number} comes before its work.forward.")
        inputs, outputs, _ = self._under_way.pop(number)
        outputs.backward(gradient)
        return None if self.first else inputs.grad


BLOCKS = 5


def _net(width: int) -> list[torch.nn.Sequential]:
    return nets.torch_blocks((12, *[width] * (BLOCKS - 1), 5))


def _batch(pictures: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(pictures, 12, generator=generator)
    return inputs.to(device), torch.arange(pictures, device=device) % 5


def _stage(rank: int, ranks: int, width: int) -> torch.nn.Sequential:
    edges = [place * BLOCKS // ranks for place in range(ranks + 1)]
    return torch.nn.Sequential(*_net(width)[edges[rank] : edges[rank + 1]])


def one_process(width: int, pictures: int) -> tuple[float, list[np.ndarray]]:
    """Loss of the batch, and the gradients of all parameters in order, of the whole net in one
    process."""
    inputs, labels = _batch(pictures)
    blocks = _net(width)
    loss = functional.cross_entropy(torch.nn.Sequential(*blocks)(inputs), labels)
    loss.backward()
    return loss.item(), [weights.grad.numpy() for block in blocks for weights in block.parameters()]


@launch.on_devices()
def train_schedule(
    comm, run_schedule: Callable, schedules: Sequence, micro: int, width: int, pictures: int
) -> dict:
    """Run this rank's schedule with real arithmetic on its device.

    Returns bytes: the most that was held for the backward pass, and the device.
    """
    work = _work(comm, micro, width, pictures, world.device())
    run_schedule(comm, schedules[comm.rank], work)
    return {"bytes": work.most_bytes, "device": world.device()}


def _work(comm, micro: int, width: int, pictures: int, device: str) -> Work:
    stage = _stage(comm.rank, comm.size, width).to(device)
    last = comm.rank == comm.size - 1
    return Work(stage, *_batch(pictures, device), micro, first=comm.rank == 0, last=last)


def try_schedule(
    comm, run_schedule: Callable, schedules: Sequence, micro: int, width: int, pictures: int
) -> dict:
    """Run this rank's schedule in host memory. Returns what came of it.

    gradients: of this stage. loss: of the batch, on the last rank; else 0. under_way: requests that
    nobody waited for. done: the actions, in order. calls: names of the communicator's calls.
    """
    work = _work(comm, micro, width, pictures, "cpu")
    log = CallLog(comm)
    try:
        run_schedule(log, schedules[comm.rank], work)
    except Exception as error:
        # So MPI says that the memory of the rank that sends is not there any more.
        if "process_vm_readv" not in str(error):
            raise
        text = (
            "An array was gone before this rank had read it: the sender's requests were not waited"
            " for."
        )
        raise LabError(text) from None
    parameters = work.stage.parameters()
    return {
        "gradients": [
            None if weights.grad is None else weights.grad.numpy() for weights in parameters
        ],
        "loss": sum(work.losses),
        "under_way": log.under_way(),
        "done": work.done,
        "calls": sorted(set(log.calls)),
    }


class _Sleeper:
    """In place of Work: a device that computes without this machine's cores. It sleeps."""

    def __init__(self, rank: int, ranks: int, forward: float, backward: float):
        self.seconds = {"F": forward, "B": backward}
        self.first = rank == 0
        self.last = rank == ranks - 1
        self.spans: list[Span] = []

    def room_for_entering(self, number: int) -> torch.Tensor:
        return torch.empty(1)

    room_for_gradient = room_for_entering

    def _sleep(self, kind: str, number: int) -> torch.Tensor:
        begin = time.perf_counter()
        time.sleep(self.seconds[kind])
        self.spans.append(Span(kind, number, 0, begin, time.perf_counter()))
        return torch.zeros(1)

    def forward(self, number: int, entering: torch.Tensor | None) -> torch.Tensor | None:
        leaving = self._sleep("F", number)
        return None if self.last else leaving

    def backward(self, number: int, gradient: torch.Tensor | None) -> torch.Tensor | None:
        back = self._sleep("B", number)
        return None if self.first else back


def sleep_through(
    comm, run_schedule: Callable, schedules: Sequence, forward: float, backward: float
) -> Played:
    """Run the schedule with stages that sleep `forward` and `backward` seconds. Returns it with
    measured times.

    Messages are real. The time, the same on every rank, is from the first rank's begin to the last
    one's end. All is on rank 0's clock: each node has its own.
    """
    sleeper = _Sleeper(comm.rank, comm.size, forward, backward)
    ahead, _ = profiling.clock.offset(comm)
    comm.Barrier()
    begin = time.perf_counter() - ahead
    run_schedule(comm, schedules[comm.rank], sleeper)
    end = time.perf_counter() - ahead
    first = min(comm.allgather(begin))
    total = max(comm.allgather(end)) - first
    zero = first + ahead  # on this rank's own clock
    own = [span._replace(begin=span.begin - zero, end=span.end - zero) for span in sleeper.spans]
    spans = comm.allgather(own)
    busy = sum(span.end - span.begin for rank in spans for span in rank)
    return Played(spans, total, 1 - busy / (comm.size * total))


# -- schedules drawn


@plots.styled
def draw(
    played: Mapping[str, Played],
    *,
    unit: str = "time (1 = one forward pass)",
    name: str = "schedules",
    idle: bool = True,
):
    """Pictures one above the other, a row for each rank, on one axis of time. Returns the figure.

    played: title -> what play, or sleep_through of all ranks, gave. The number in a box is its
    micro-batch. idle: whether titles say which share of the time is idle.
    """
    longest = max(result.time for result in played.values())
    rows = sum(len(result.spans) for result in played.values())
    figure = plots.new_figure(9.0, 0.9 * len(played) + 0.36 * rows + 0.4)
    heights = [len(result.spans) for result in played.values()]
    panels = figure.subplots(len(played), 1, sharex=True, squeeze=False, height_ratios=heights)[
        :, 0
    ]
    for axes, (title, result) in zip(panels, played.items(), strict=True):
        shown = f"{title}: {100 * result.idle:.0f} % idle" if idle else title
        axes.set_title(shown, loc="left", fontsize=11)
        for rank, spans in enumerate(result.spans):
            for span in spans:
                back = span.kind == "B"
                axes.barh(
                    rank,
                    span.end - span.begin,
                    left=span.begin,
                    height=0.8,
                    color=plots.COLORS[1] if back else plots.COLORS[0],
                    hatch="//" if back else "",
                    alpha=1.0 if span.piece % 2 == 0 else 0.55,
                    edgecolor="white",
                )
                if span.end - span.begin > longest / (90 if span.micro < 10 else 60):
                    middle = (span.begin + span.end) / 2
                    color = plots.INK if back or span.piece % 2 else "white"
                    axes.text(
                        middle,
                        rank,
                        str(span.micro),
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=color,
                    )
        axes.set_yticks(range(len(result.spans)))
        axes.invert_yaxis()
        axes.set_ylabel("rank")
        axes.grid(visible=False)
        axes.set_xlim(0, 1.01 * longest)
    pieces = any(
        span.piece for result in played.values() for spans in result.spans for span in spans
    )
    paler = "; paler: the second chunk" if pieces else ""
    panels[-1].set_xlabel(f"{unit}; plain: forward, hatched: backward{paler}")
    return plots.done(figure, name)
