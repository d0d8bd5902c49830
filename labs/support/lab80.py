"""Lab 80: checks; a study's setup, its steps, its records, and the report about it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import virtual
from labkit import check, energy, expect, launch, nets, paths, placement, record, reporting, scaling, world
from labkit.collectives import ring_allreduce
from labkit.timing import Measurement, human

# -- the checks


@check.exercise("80.1")
def step_by_the_model(foretell):
    """Both kinds, one rank and many, even shares and others."""
    per_image, nbytes, latency, beta = 2e-3, 1e8, 5e-6, 0.4e-9
    for ranks, images in ((1, 32), (4, 32), (4, 10), (32, 100), (7, 256), (128, 257)):
        ring = scaling.costs.ring_allreduce_time(nbytes, ranks, latency, beta)
        shared = -(-images // ranks)
        for kind, own in (("strong", shared), ("weak", images)):
            want = own * per_image + ring
            slips = {"the ring is missing": own * per_image}
            if kind == "weak":
                slips["in weak scaling each rank has all of `images`"] = shared * per_image + ring
            else:
                slips["in strong scaling the ranks share `images`"] = images * per_image + ring
                even = images / ranks * per_image + ring
                slips["all wait for the rank with the most images: a share is rounded up"] = even
            slips = {sentence: value for sentence, value in slips.items() if abs(value / want - 1) > 1e-6}
            got = foretell(kind, ranks, images, per_image, nbytes, latency, beta)
            what = f"{kind}, ranks: {ranks}, {images} images: seconds of a step"
            expect.close(got, want, what, rtol=1e-6, slips=slips)


@check.exercise("80.2")
def runs_in_turns(plan, notes):
    """Each configuration once a round, each round with another one first, the given list untouched."""
    runs_are_planned(plan, [("strong", 1), ("strong", 2), ("weak", 1)], 3)
    runs_are_planned(plan, [("strong", 1), ("strong", 2), ("strong", 4), ("weak", 1)], 2)
    runs_are_planned(plan, [("strong", 1), ("weak", 1)], 5)
    runs_are_planned(plan, notes.configurations(), 1)


def runs_are_planned(plan, configurations, rounds):
    """Round by round, each configuration once a round, and each round begins with another."""
    given = list(configurations)
    got = plan(given, rounds)
    count = len(configurations)
    what = f"{count} configurations, rounds: {rounds}"
    expect(got is not None, f"{what}: plan returns None. Does it return its list?")
    expect(given == configurations, f"{what}: the list of configurations was changed; it is the caller's.")
    got = [tuple(item) for item in got]
    expect.equal(len(got), count * rounds, f"{what}: runs in the plan")
    for number in range(rounds):
        part = got[number * count : (number + 1) * count]
        expect(
            sorted(part) == sorted(configurations),
            f"{what}: round {number} does not hold each configuration once. If all runs of one configuration "
            "come together, a busy minute hits it alone.",
        )
    firsts = [got[number * count] for number in range(rounds)]
    expect(
        len(set(firsts)) == min(rounds, count),
        f"{what}: the rounds begin with {firsts}. What comes first is always the same: "
        "what only the first run meets (cold caches, clocks that rise) then looks like a property of it.",
    )


@check.exercise("80.3")
def losses_and_node_hours(losses, node_hours):
    """The example; weak scaling; computing that got faster; nodes that are full, or not quite."""
    example = {"compute": 11.0, "wait": 2.0, "communicate": 3.0}
    for kind, ranks, alone in (
        ("strong", 4, 40.0),
        ("weak", 4, 10.0),
        ("strong", 2, 30.0),
        ("weak", 1, 11.0),
    ):
        shares_are_lost(losses, kind, ranks, alone, example)
    shares_are_lost(losses, "strong", 8, 0.8, {"compute": 0.1, "wait": 0.0, "communicate": 0.3})
    for ranks, per_node, seconds in (
        (32, 8, 1.8),
        (6, 4, 0.3),
        (5, 4, 2.0),
        (4, 4, 1.0),
        (1, 4, 4.0),
        (3, 1, 0.9),
        (129, 128, 1.0),
    ):
        steps = int(500 * seconds)
        hours = seconds * steps / 3600
        want = -(-ranks // per_node) * hours
        slips = {
            "these are rank-hours: whole nodes are paid for": ranks * hours,
            "a node of which a part is used is paid for as a whole": ranks / per_node * hours,
            "rounded down, a node is missing": ranks // per_node * hours,
        }
        slips = {sentence: value for sentence, value in slips.items() if abs(value - want) > 1e-9 * want}
        got = node_hours(seconds, ranks, per_node, steps)
        what = f"{steps} steps of {seconds} s, ranks: {ranks}, {per_node} to a node: node-hours"
        expect.close(got, want, what, rtol=1e-6, slips=slips)


def shares_are_lost(losses, kind, ranks, alone, parts):
    """Shares of a step that are lost; together they are 1 - efficiency."""
    step = sum(parts.values())
    ideal, other = (alone / ranks, alone) if kind == "strong" else (alone, alone / ranks)
    want = {name: parts[name] / step for name in ("communicate", "wait")}
    want["slower"] = (parts["compute"] - ideal) / step
    given = dict(parts)
    got = losses(kind, ranks, alone, given)
    what = f"{kind}, ranks: {ranks}, alone {alone} s, parts {parts}"
    expect(isinstance(got, dict), f"{what}: losses returns a dict; it returned {got!r}.")
    expect.equal(sorted(got), sorted(want), f"{what}: names of the losses")
    expect.equal(given, parts, f"{what}: `parts`, which is the caller's, afterwards")
    slips = {
        "this is the share of computing, not of its loss": {**want, "slower": parts["compute"] / step},
        f"in {kind} scaling another time is ideal": {**want, "slower": (parts["compute"] - other) / step},
        "a loss below zero is a gain: leave it": {**want, "slower": max(0.0, want["slower"])},
    }
    slips = {sentence: slip for sentence, slip in slips.items() if slip != want}
    expect.close(got, want, what, rtol=1e-6, slips=slips)


@check.exercise("80.4")
def words_with_records(own_words, given, study):
    """All ten sections, every number by its name, nothing that no record supports."""
    words = own_words()
    expect(isinstance(words, dict), f"own_words returns a dict of texts; it returned {words!r}.")
    found = reporting.problems(assemble("A scaling study", given | words, study), study)
    lines = "".join(f"\n        - {sentence}" for sentence in found[:8])
    more = f"\n        … and {len(found) - 8} more." if len(found) > 8 else ""
    expect(not found, f"The report is refused:{lines}{more}")


# -- what is studied


WIDTH = 32  # channels of the real ranks' net, as in lab 50
CALIBRATION = 6  # steps of one rank alone


@dataclass(frozen=True)
class Setup:
    """counts: numbers of ranks. per_image: seconds of an image on one rank. nbytes: of the gradients.

    per_node: ranks of a node. machine: of the virtual cluster; for real ranks the links of lab 22's records.
    """

    where: str
    machine: virtual.Machine
    net: str
    counts: tuple[int, ...]
    per_image: float
    nbytes: float
    per_node: int

    def link(self, ranks: int) -> tuple[float, float]:
        """(seconds of a message, seconds of a byte) of the slowest link that a ring of so many ranks uses."""
        inside = self.machine.inside
        between = self.machine.between
        if self.nodes(ranks) == 1 or inside.bandwidth < between.bandwidth:
            return inside.latency, 1 / inside.bandwidth
        return between.latency, 1 / between.bandwidth

    def nodes(self, ranks: int) -> int:
        """Nodes that so many ranks take, node by node."""
        return -(-ranks // self.per_node)

    def __str__(self) -> str:
        latency, beta = self.link(max(self.counts))
        return (
            f"{self.where}: {', '.join(map(str, self.counts))} ranks; "
            f"an image takes {1e3 * self.per_image:.2f} ms on one rank; "
            f"{self.nbytes / 1e6:.2f} MB of gradients; the slowest link of {max(self.counts)} ranks: "
            f"{1e6 * latency:.2f} µs a message, {1e-9 / beta:.2f} GB/s"
        )


def begin(where: str, machine: str, net: str, speed: float, images: int, most: int) -> Setup:
    """The setup of a study. On real ranks one rank is timed first, alone."""
    if where == "virtual":
        nbytes = 4 * int(nets.layer_table(net).parameters.sum())
        chosen = virtual.machine(machine)
        return Setup(where, chosen, net, doubled(most), 1 / speed, nbytes, chosen.ranks_per_node)
    there = launch.ranks_here(world.cores())
    (alone,) = launch.run(real, "weak", images, WIDTH, CALIBRATION, ranks=1, threads=1)
    per_image = float(mean_step([alone])) / images
    counts = doubled(min(most, there))
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) if world.launcher() else 1
    per_node = -(-there // nodes)
    return Setup(where, virtual.machine("here"), "small conv", counts, per_image, alone.nbytes, per_node)


def doubled(most: int) -> tuple[int, ...]:
    """1, 2, 4, … up to `most`, which is among them."""
    counts = [2**power for power in range(most.bit_length()) if 2**power < most]
    return (*counts, most)


# -- steps on virtual and on real ranks


WARMUP = 2  # steps before the first that counts


@dataclass(frozen=True)
class OfRank:
    """What a rank saw: compute and allreduce, seconds by step; its host; place: fields of a record.

    joules: of its node during these steps, on the first rank of each node, else 0; None where it cannot be
    read. meter: what counted them; no_meter: why nothing did.
    """

    compute: np.ndarray
    allreduce: np.ndarray
    host: str
    place: dict
    nbytes: int
    joules: float | None
    meter: str
    no_meter: str


def on_virtual_ranks(comm, seconds: float, nbytes: float, steps: int, jitter: float, seed: Sequence[int]):
    """(compute, allreduce) of a virtual rank: (steps,) seconds each.

    seconds: of its computing, which varies from step to step by normal numbers; jitter: their standard
    deviation, as a share.
    """
    chance = np.random.default_rng([*seed, comm.rank])
    compute = []
    allreduce = []
    for _ in range(steps):
        begin = comm.Wtime()
        comm.compute(seconds * max(0.1, 1 + jitter * chance.standard_normal()))
        arrived = comm.Wtime()
        # Across ranks: the sum of all gradients; a number for each rank stands for them.
        ring_allreduce(comm, virtual.vector(np.ones(comm.size), stands_for=nbytes))
        compute.append(arrived - begin)
        allreduce.append(comm.Wtime() - arrived)
    return compute, allreduce


def real(comm, kind: str, images: int, width: int, steps: int) -> OfRank:
    """The step of labs 30 and 50 on a real rank. images: of the whole job (strong), of each rank (weak)."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    place = placement.of_mpi()
    net = nets.torch_conv(width).to(place.device)
    own = share(kind, images, comm.rank, comm.size)
    total = comm.allreduce(own)
    pictures = torch.rand(own, 3, 32, 32).to(world.device())
    labels = (torch.arange(own) % 10).to(world.device())
    hosts = comm.allgather(socket.gethostname())
    counts = hosts.index(hosts[comm.rank]) == comm.rank  # one rank of each node reads its meter
    meter = energy.Meter()
    stamps = []
    before = None
    for step in range(WARMUP + steps):
        if step == WARMUP:
            comm.Barrier()
            before = meter.read() if counts else None
        stamps.append(
            _step(comm, place, net, pictures, labels, total, stamps[-1][2] if step > WARMUP else None)
        )
    joules = meter.joules(before) if counts else 0.0
    seconds = np.array([stamp[:2] for stamp in stamps[WARMUP:]])
    nbytes = 4 * sum(weights.numel() for weights in net.parameters())
    return OfRank(
        seconds[:, 0], seconds[:, 1], hosts[comm.rank], place.fields(), nbytes, joules, meter.name, meter.why
    )


def _step(comm, place, net, pictures, labels, total: int, begin: float | None) -> tuple[float, float, float]:
    """(seconds of compute, of allreduce, when it ended)."""
    import torch
    from labkit.timing import device_sync

    begin = time.perf_counter() if begin is None else begin
    net.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(pictures), labels, reduction="sum") / total
    loss.backward()
    gradient = torch.cat([weights.grad.flatten() for weights in net.parameters()])
    device_sync(place.device)
    arrived = time.perf_counter()
    # Across ranks: the sum of all ranks' gradients, in place.
    place.allreduce(comm, gradient)
    end = time.perf_counter()
    with torch.no_grad():
        vector = torch.nn.utils.parameters_to_vector(net.parameters()) - 0.01 * gradient
        torch.nn.utils.vector_to_parameters(vector, net.parameters())
    return arrived - begin, end - arrived, end


def share(kind: str, images: int, rank: int, ranks: int) -> int:
    """Images of one rank: as even as can be (strong), all of them (weak)."""
    if kind == "weak":
        return images
    return images // ranks + (1 if rank < images % ranks else 0)


def mean_step(ranks: Sequence[OfRank]) -> float:
    """Seconds of a step, the mean of all."""
    return float(np.mean([of_rank.compute + of_rank.allreduce for of_rank in ranks]))


def parts(compute: np.ndarray, allreduce: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of compute, wait and communicate by step, of (ranks, steps): lab 50's split."""
    sending = allreduce.min(axis=0)
    return {"compute": compute.mean(axis=0), "wait": allreduce.mean(axis=0) - sending, "communicate": sending}


# -- the study's records


KINDS = ("strong", "weak")


class Notes:
    """Writes a study down as it goes on. `.study()` is what reports are checked against."""

    def __init__(
        self,
        setup: Setup,
        predicted: Mapping[tuple[str, int], float],
        parameters: Mapping[str, object],
    ):
        """predicted: (kind, ranks) -> seconds. parameters: the lab's, by name: images, rounds, question, …"""
        now = datetime.now(timezone.utc)
        self.setup = setup
        self.parameters = dict(parameters)
        self.name = f"{now:%Y-%m-%d %H:%M:%S.%f} {setup.where}"
        self._entries: list[dict] = []
        self._add(
            "study",
            **{name: parameters[name] for name in ("question", "enough", "images", "epoch", "rounds")},
            counts=list(setup.counts),
            per_image=setup.per_image,
            nbytes=setup.nbytes,
            method=self._method(),
            command=self._command(),
        )
        for (kind, ranks), seconds in predicted.items():
            self._add("prediction", kind=kind, ranks=ranks, predicted=float(seconds))

    def configurations(self) -> list[tuple[str, int]]:
        """All that is to be measured: (kind, ranks)."""
        return [(kind, ranks) for kind in KINDS for ranks in self.setup.counts]

    def measure(self, plan: Sequence[tuple[str, int]]) -> None:
        """Run what the plan says, in its order, and write down one record for each configuration."""
        seen: dict[tuple[str, int], list] = {}
        for kind, ranks in plan:
            run = self._virtual if self.setup.where == "virtual" else self._real
            seen.setdefault((kind, ranks), []).append(run(kind, ranks, len(seen.get((kind, ranks), []))))
        for (kind, ranks), runs in sorted(seen.items()):
            self._note(kind, ranks, runs)

    def _virtual(self, kind: str, ranks: int, turn: int) -> list[OfRank]:
        machine = self.setup.machine
        cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
        images = self.parameters["images"]
        shares = [share(kind, images, rank, ranks) * self.setup.per_image for rank in range(ranks)]
        seed = [self.parameters["seed"], turn, KINDS.index(kind), ranks]
        run = cluster.run(
            on_virtual_ranks,
            virtual.by_rank(shares),
            self.setup.nbytes,
            self.parameters["steps"],
            self.parameters["jitter"],
            seed,
        )
        why = "virtual ranks have no meter"
        place = {"device": "virtual", "staged": "no", "library": "virtual"}
        nodes = [rank // machine.ranks_per_node for rank in range(ranks)]
        return [
            OfRank(
                np.array(compute),
                np.array(allreduce),
                f"node {node}",
                place,
                int(self.setup.nbytes),
                None,
                "",
                why,
            )
            for node, (compute, allreduce) in zip(nodes, run.results, strict=True)
        ]

    def _real(self, kind: str, ranks: int, turn: int) -> list[OfRank]:
        images = self.parameters["images"]
        # Across ranks: a run of its own; under a launcher, the first ranks of the job.
        return launch.run(real, kind, images, WIDTH, self.parameters["steps"], ranks=ranks, threads=1)

    def _note(self, kind: str, ranks: int, runs: list[list[OfRank]]) -> None:
        compute = np.concatenate([[of_rank.compute for of_rank in run] for run in runs], axis=1)
        allreduce = np.concatenate([[of_rank.allreduce for of_rank in run] for run in runs], axis=1)
        samples = compute.mean(axis=0) + allreduce.mean(axis=0)
        step = Measurement(samples)
        first = runs[0][0]
        images = sum(share(kind, self.parameters["images"], rank, ranks) for rank in range(ranks))
        self._add(
            kind,
            ranks=ranks,
            nodes=len({of_rank.host for of_rank in runs[0]}),
            images=images,
            seconds=step,
            samples=samples,
            **{name: part.mean() for name, part in parts(compute, allreduce).items()},
            **_joules(runs, len(samples)),
            **first.place,
        )
        print(f"{kind:6} {ranks:3} ranks: a step takes {human(step.median)}; {step.verdict}")

    def cite(self, name: str, value: float, unit: str, source: str) -> None:
        """Write down a number that others have published, and where: {published_name}, {source_name}."""
        self._add("published", name=name, value=value, unit=unit, source=source)

    def _add(self, result: str, **fields) -> None:
        about = {"study": self.name, "where": self.setup.where, "net": self.setup.net}
        about["machine"] = self.setup.machine.name if self.setup.where == "virtual" else "here"
        if self.setup.where == "virtual":
            fields = {"device": "virtual", **fields}
        self._entries.append(record.add(result, **about, **fields))

    def study(self) -> reporting.Study:
        """These records, each with its line. On ranks that write none, as they are in memory."""
        if world.is_root():
            return reporting.load(self.name)
        file = paths.shown(record.path(reporting.LAB))
        return reporting.Study(self.name, [reporting.Entry(file, 0, entry) for entry in self._entries])

    def _method(self) -> str:
        steps_each = f"{self.parameters['steps']} timed steps"
        rounds = self.parameters["rounds"]
        often = "once" if rounds == 1 else f"in {rounds} rounds, in turns"
        if self.setup.where == "virtual":
            what = (
                f"Simulated on {self.setup.machine.name}: a step of {self.setup.net} computes "
                f"{1e3 * self.setup.per_image:.2f} ms an image, with normal jitter of "
                f"{100 * self.parameters['jitter']:g} %, then sums its gradients in a ring"
            )
        else:
            what = "Measured on real ranks of one thread each: the step of lab 50, MPI's allreduce"
        return f"{what}. Each number of ranks: {steps_each}, {often}."

    def _command(self) -> str:
        """What repeats the study; parameters of words with blanks in them are left to the notebook."""
        values = " ".join(
            f"{name}={value}" for name, value in self.parameters.items() if " " not in str(value)
        )
        nodes = os.environ.get("SLURM_JOB_NUM_NODES", "1")
        in_job = record.batch_job()["job"]
        start = f"make submit LAB=80 NODES={nodes}" if in_job else f"make run LAB=80 NP={world.size()}"
        return f'{start} SET="{values}"'


def _joules(runs: list[list[OfRank]], count: int) -> dict:
    """Joules of a step, of all nodes together, and what counted them; None and why where one could not."""
    all_ranks = [of_rank for run in runs for of_rank in run]
    reasons = sorted({of_rank.no_meter for of_rank in all_ranks if of_rank.joules is None})
    if reasons:
        return {"joules": None, "meter": None, "no_meter": "; ".join(reasons)}
    total = sum(of_rank.joules for of_rank in all_ranks)
    return {"joules": total / count, "meter": all_ranks[0].meter, "no_meter": None}


# -- the report


def assemble(title: str, sections: Mapping[str, str], study: reporting.Study) -> str:
    """The text of report.md: which study it is about, the title, and the sections in their order."""
    parts = [f"---\nstudy: {study.name}\n---\n", f"# {title}\n"]
    for heading in reporting.SECTIONS:
        if heading in sections:
            parts.append(f"## {heading}\n\n{_without_indent(sections[heading])}\n")
    for heading, text in sections.items():
        if heading not in reporting.SECTIONS:
            parts.append(f"## {heading}\n\n{_without_indent(text)}\n")
    return "\n".join(parts)


def _without_indent(text: str) -> str:
    return "\n".join(line.strip() for line in str(text).strip().splitlines())


def publish(text: str, study: reporting.Study) -> None:
    """Write report.md and its page into home()/report, and say where; on rank 0 alone.

    A report.md that somebody has edited is kept beside it.
    """
    if not world.is_root():
        return
    folder = paths.home() / "report"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "report.md"
    written = folder / ".written.md"  # what the lab wrote last
    if file.exists() and (not written.exists() or written.read_text() != file.read_text()):
        kept = _free_name(folder)
        file.rename(kept)
        print(f"You had edited {paths.shown(file)}; it is kept as {paths.shown(kept)}.")
    file.write_text(text, encoding="utf-8")
    written.write_text(text, encoding="utf-8")
    page = reporting.write(text, study, folder)
    print(
        f"Report: {paths.shown(file)}, page: {paths.shown(page)}. `make report` checks and renders it again."
    )


def _free_name(folder: Path) -> Path:
    number = 1
    while (folder / f"report-{number}.md").exists():
        number += 1
    return folder / f"report-{number}.md"


def print_figures(study: reporting.Study, ranks: int) -> None:
    """Names and values of what a report may hold; of the figures by ranks those of so many."""
    for name, figure in reporting.all_of(study).items():
        of_ranks = name.split("_")[-1].isdigit() or name.endswith(("strong_most", "weak_most"))
        if not of_ranks or name.endswith(f"_{ranks}"):
            print(f"{{{name}}}".ljust(38), figure.text)
    for name, words in reporting.sentences(study).items():
        print(f"{{{name}}}".ljust(38), words if len(words) < 70 else f"{words[:69]}…")
    print("on lines of their own:", ", ".join(f"{{{name}}}" for name in reporting.BLOCKS))
