"""Lab 46's tables, its records, and its picture of bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from labkit import plots, record
from labkit.timing import Measurement, digits

from support.lab46.ranks import Run

PROOF_COLUMNS = ["carried by", "calls a step", "ms in them", "staged", "as asked?"]
RESULT_COLUMNS = ["weak: images/s", "share", "strong: images/s", "share"]
Results = Mapping[str, tuple[float, float]]  # "weak", "strong" -> images per second, share


class Bounds(NamedTuple):
    """A step between its bounds, all three as times the same step without communication."""

    hidden: float  # all communication behind the computing
    added: float  # none of it
    step: float  # as it was measured


def print_table(columns: list[str], rows: Mapping[str, list[str] | str]) -> None:
    """Print a table: name -> its cells, or one sentence for all of them (what could not be run)."""
    widths = [
        max([len(column), *(len(cells[place]) for cells in rows.values() if not isinstance(cells, str))])
        for place, column in enumerate(columns)
    ]
    first = max(len(name) for name in rows)
    heads = "  ".join(column.rjust(width) for column, width in zip(columns, widths, strict=True))
    print(f"{'':{first}}  {heads}")
    for name, cells in rows.items():
        if isinstance(cells, str):
            print(f"{name:{first}}  {cells}")
        else:
            line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            print(f"{name:{first}}  {line}")


def listed(libraries: Iterable[str]) -> str:
    """ "MPI and NCCL"; "none"."""
    return " and ".join(sorted(libraries)) or "none"


def as_asked(library: str, carried: Iterable[str], staged: bool) -> bool:
    """Did the job do what was asked? library: as in the lab's table. carried: "MPI", "GLOO", "NCCL".

    That library alone has carried; and what reads GPU memory itself was not staged.
    """
    wanted = {"NCCL": "NCCL", "Gloo": "GLOO"}.get(library, "MPI")
    reads_gpus = library in ("NCCL", "CUDA-aware MPI")
    return set(carried) == {wanted} and not (reads_gpus and staged)


def proof_cells(library: str, proof: Mapping[str, tuple[float, float]], staged: str, ranks: int) -> list[str]:
    """Cells under PROOF_COLUMNS. library: that was asked for. proof: library -> (calls, seconds) a step."""
    calls = sum(count for count, _ in proof.values())
    milliseconds = 1e3 * sum(seconds for _, seconds in proof.values())
    said = "yes" if as_asked(library, proof, staged != "no") else "NO"
    if ranks == 1:
        said = "one rank: nothing to carry"
    return [listed(proof), f"{calls:.1f}", f"{milliseconds:.1f}", staged, said]


def result_cells(results: Results) -> list[str]:
    """Cells under RESULT_COLUMNS."""
    cells = []
    for kind in ("weak", "strong"):
        rate, share = results[kind]
        cells += [f"{rate:.0f}", f"{share:.0%}"]
    return cells


def print_results(results: Mapping[str, Results], ran: Mapping[str, Run], shut: Mapping[str, str]) -> None:
    """Print images per second and shares by way; of a way that could not run (shut), its sentence.

    A line is marked where its runs differ too much for their median to be quoted.
    """
    rows = {}
    doubts = {}
    for name, result in results.items():
        steps = [times["step"] for times in ran[name].times.values()]
        unsteady = [step.verdict for step in steps if not step.steady]
        rows[f"{name} *" if unsteady else name] = result_cells(result)
        if unsteady:
            doubts[name] = unsteady[0]
    print_table(RESULT_COLUMNS, rows | {name: f"cannot run here: {why}" for name, why in shut.items()})
    for name, verdict in doubts.items():
        print(f"* {name}: {verdict}")


def keep(
    name: str, run: Run, results: Results, proof: Mapping[str, tuple[float, float]], images: int, **more
) -> None:
    """Add the records "weak NAME" and "strong NAME": a step, its control, and what was made of them.

    images: as the parameter of the lab. more: what else the records hold.
    """
    for kind, (rate, share) in results.items():
        record.add(
            f"{kind} {name}",
            seconds=run.times[kind]["step"],
            **{name.replace(" ", "_"): took for name, took in run.times[kind].items() if name != "step"},
            images_per_second=rate,
            share=share,
            images=images * run.ranks if kind == "weak" else images,
            ranks=run.ranks,
            nodes=run.nodes,
            way=name,
            carried_by=sorted(proof),
            calls_a_step=sum(calls for calls, _ in proof.values()),
            gradient_bytes=run.nbytes,
            **more,
            **run.place,
        )


@plots.styled
def show_bounds(rows: Mapping[str, Bounds], title: str):
    """For each name a bar from all hidden to nothing hidden, and a mark at the measured step."""
    figure, axes = plots.one_axes(
        title, "step, in times a step without communication", "", height=1.6 + 0.42 * len(rows)
    )
    figure.set_figwidth(9.5)
    for place, bound in enumerate(rows.values()):
        width = bound.added - bound.hidden
        first = place == 0
        axes.barh(
            place,
            width,
            0.5,
            left=bound.hidden,
            color=plots.COLORS[3],
            label="between all hidden and nothing hidden" if first else None,
        )
        axes.plot(
            [bound.step],
            [place],
            linestyle="",
            marker="D",
            color=plots.INK,
            label="measured" if first else None,
        )
        right = max(bound.added, bound.step)
        axes.annotate(
            digits(bound.step),
            (right, place),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=10.5,
        )
    axes.axvline(1, color=plots.FAINT, linewidth=1.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    longest = max(max(bound.added, bound.step) for bound in rows.values())
    axes.set_xlim(0, 1.12 * longest)
    figure.legend(loc="outside lower center", ncols=2)
    return plots.done(figure, title)


def parts(times: Mapping[str, Measurement]) -> dict[str, np.ndarray]:
    """The parts of a step for plots.bars, in ms: computing, and what Horovod's thread and communication add.

    times: of "step" and "alone", in pairs, and of "no Horovod". A part that came out below 0 is nothing.
    """
    step = 1e3 * times["step"].samples
    alone = 1e3 * times["alone"].samples
    bare = 1e3 * times["no Horovod"].samples
    return {
        "computing": bare,
        "Horovod's thread": np.maximum(0.0, alone - np.median(bare)),
        "communication": np.maximum(0.0, step - alone),
    }
