"""The records of a study, written down as it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import numpy as np
import virtual
from labkit import launch, paths, record, world
from labkit.timing import Measurement, human

from support.lab80 import records
from support.lab80.records import KINDS
from support.lab80.steps import WIDTH, OfRank, Setup, on_virtual_ranks, parts, real, share


class Notes:
    """Writes a study down as it goes on. `.study()` is what reports are checked against."""

    def __init__(
        self,
        setup: Setup,
        predicted: Mapping[tuple[str, int], float],
        parameters: Mapping[str, object],
    ):
        """predicted: (kind, ranks) -> seconds. parameters: the lab's, by name: images, rounds,
        question, …"""
        now = datetime.now(timezone.utc)
        self.setup = setup
        self.parameters = dict(parameters)
        self.name = f"{now:%Y-%m-%d %H:%M:%S.%f} {setup.where}"
        self._entries: list[dict] = []
        self._add(
            "study",
            **{
                name: parameters[name]
                for name in ("question", "enough", "images", "epoch", "rounds")
            },
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
        """Run what the plan says, in its order, and write down one record for each
        configuration."""
        seen: dict[tuple[str, int], list] = {}
        for kind, ranks in plan:
            run = self._virtual if self.setup.where == "virtual" else self._real
            seen.setdefault((kind, ranks), []).append(
                run(kind, ranks, len(seen.get((kind, ranks), [])))
            )
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
        place = {"device": "virtual", "staged": "no", "library": "virtual"}
        found = []
        for rank, seconds in enumerate(run.results):
            node = f"node {rank // machine.ranks_per_node}"
            found.append(
                OfRank(*np.array(seconds), node, place, None, "", "virtual ranks have no meter")
            )
        return found

    def _real(self, kind: str, ranks: int, turn: int) -> list[OfRank]:
        images = self.parameters["images"]
        # Across ranks: a run of its own; under a launcher, the first ranks of the job.
        return launch.run(
            real, kind, images, WIDTH, self.parameters["steps"], ranks=ranks, threads=1
        )

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
        """Write down a number that others have published, and where: {published_name},
        {source_name}."""
        self._add("published", name=name, value=value, unit=unit, source=source)

    def _add(self, result: str, **fields) -> None:
        about = {"study": self.name, "where": self.setup.where, "net": self.setup.net}
        about["machine"] = self.setup.machine.name if self.setup.where == "virtual" else "here"
        if self.setup.where == "virtual":
            fields = {"device": "virtual", **fields}
        self._entries.append(record.add(result, **about, **fields))

    def study(self) -> records.Study:
        """These records, each with its line. On ranks that write none, as they are in memory."""
        if world.is_root():
            return records.load(self.name)
        file = paths.shown(record.path(records.LAB))
        return records.Study(self.name, [records.Entry(file, 0, entry) for entry in self._entries])

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
        """What repeats the study; parameters of words with blanks in them are left to the
        notebook."""
        values = " ".join(
            f"{name}={value}" for name, value in self.parameters.items() if " " not in str(value)
        )
        nodes = os.environ.get("SLURM_JOB_NUM_NODES", "1")
        in_job = record.batch_job()["job"]
        start = (
            f"make submit LAB=80 NODES={nodes}" if in_job else f"make run LAB=80 NP={world.size()}"
        )
        return f'{start} SET="{values}"'


def _joules(runs: list[list[OfRank]], count: int) -> dict:
    """Joules of a step, of all nodes together, and what counted them; None and why where one could
    not."""
    all_ranks = [of_rank for run in runs for of_rank in run]
    reasons = sorted({of_rank.no_meter for of_rank in all_ranks if of_rank.joules is None})
    if reasons:
        return {"joules": None, "meter": None, "no_meter": "; ".join(reasons)}
    total = sum(of_rank.joules for of_rank in all_ranks)
    return {"joules": total / count, "meter": all_ranks[0].meter, "no_meter": None}
