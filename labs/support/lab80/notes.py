"""The records of a study, written down as it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import numpy as np
import virtual
from labkit import launch, record, world
from labkit.timing import Measurement, human

from support.lab80 import records
from support.lab80.records import KINDS
from support.lab80.steps import Run, Setup, on_real_ranks, on_virtual_ranks, parts, share


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
        runs: dict[tuple[str, int], list[Run]] = {}
        for kind, ranks in plan:
            turns = runs.setdefault((kind, ranks), [])
            turns.append(self._run(kind, ranks, len(turns)))
        for (kind, ranks), turns in sorted(runs.items()):
            self._note(kind, ranks, turns)

    def _run(self, kind: str, ranks: int, turn: int) -> Run:
        images, steps = self.parameters["images"], self.parameters["steps"]
        if self.setup.where != "virtual":
            # Across ranks: a run of its own; under a launcher, the first ranks of the job.
            return launch.run(on_real_ranks, kind, images, steps, ranks=ranks, threads=1)[0]
        machine = self.setup.machine
        cluster = virtual.Cluster.of(ranks, machine.ranks_per_node, machine)
        shares = [share(kind, images, rank, ranks) * self.setup.per_image for rank in range(ranks)]
        seed = [self.parameters["seed"], turn, KINDS.index(kind), ranks]
        jitter = self.parameters["jitter"]
        sizes = virtual.by_rank(shares), self.setup.nbytes, steps
        results = cluster.run(on_virtual_ranks, *sizes, jitter, seed).results
        compute, allreduce = np.moveaxis(np.array(results), 1, 0)
        place = {"device": "virtual", "staged": "no", "library": "virtual"}
        return Run(compute, allreduce, self.setup.nodes(ranks), place, None, "")

    def _note(self, kind: str, ranks: int, runs: list[Run]) -> None:
        compute = np.concatenate([run.compute for run in runs], axis=1)
        allreduce = np.concatenate([run.allreduce for run in runs], axis=1)
        samples = (compute + allreduce).mean(axis=0)
        step = Measurement(samples)
        images = sum(share(kind, self.parameters["images"], rank, ranks) for rank in range(ranks))
        joules = [run.joules for run in runs]
        read = None not in joules
        why = "the nodes have no energy counter that this user can read"
        if self.setup.where == "virtual":
            why = "virtual ranks have no meter"
        self._add(
            kind,
            ranks=ranks,
            nodes=runs[0].nodes,
            images=images,
            seconds=step,
            samples=samples,
            **{name: part.mean() for name, part in parts(compute, allreduce).items()},
            joules=sum(joules) / len(samples) if read else None,
            meter=runs[0].meter if read else None,
            no_meter=None if read else why,
            **runs[0].place,
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
        return records.Study(self.name, [records.Entry(entry, "memory") for entry in self._entries])

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
        start = f"make run LAB=80 NP={world.size()}"
        if record.batch_job()["job"]:
            start = f"make submit LAB=80 NODES={nodes}"
        return f'{start} SET="{values}"'
