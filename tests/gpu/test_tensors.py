"""Solved labs on a GPU: their tensors are on it, and what carried them is what their records say.

A record says what the lab meant: its device, its library, staged or not. Horovod's timeline says
what happened, and the memory in use says whether anybody was on the GPU at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from authoring import wrong_answers
from authoring.tour import fresh_folder, run
from labkit import builds, paths, record
from labkit.horovod import timeline
from labkit.placement import THROUGH_HOST

# CUDA's own part of a GPU's memory, for one process, is several times this.
CONTEXT_BYTES = 100 << 20


@dataclass(frozen=True)
class Lab:
    """A lab that runs solved, with `settings` beside the parameters of the other tests.

    on_device: first words of the `result` of records that tell of tensors on the GPU; others tell
    of the host, of files or of virtual ranks. on_host: ways that stay in host memory on purpose, as
    a control. timeline: the lab writes none by itself, and one is asked for.
    """

    stem: str
    on_device: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    on_host: tuple[str, ...] = ()
    timeline: bool = False


WAYS = ("mpi", "mpi-gpu", "torch-gloo", "torch-gloo-gpu", "torch-nccl", "horovod-mpi", "horovod-mpi-gpu",
        "horovod-nccl")  # fmt: skip
ROOFS = {
    "rows": 1024,
    "megabytes": 128,
    "side": 4096,
    "pictures": 2048,
    "batch": 32,
    "seconds": 0.5,
}
LABS = (
    Lab("10_train_on_one_device", ("step", "workload"), {"epochs": 4, "workload": "auto"}),
    Lab("11_same_net_in_tensorflow", ("eager_over_graph",)),
    Lab("12_find_the_bottleneck", ("roofs", "layer", "step"), ROOFS),
    Lab(
        "14_mixed_precision_and_memory",
        ("convolution", "checkpoints", "workload"),
        {"images": 16, "matrix": 384, "workload": "auto"},
    ),
    Lab("15_input_pipeline", ("step",)),
    Lab("27_cuda_aware_mpi", ("exchange",), {"longest": 1 << 22}),
    Lab("30_average_gradients", ("workload",), {"workload": "auto"}),
    Lab("40_horovod_pytorch", ("training",), timeline=True),
    Lab("41_horovod_tensorflow", ("weak",), timeline=True),
    Lab("42_horovod_mvapich2_gdr", ("step",), {"steps": 10, "layers": 12, "width": 256}),
    Lab("43_horovod_nccl2", ("carried",)),
    Lab("44_timeline_and_fusion", ("step",)),
    Lab("46_three_libraries", ("weak", "strong"), {"images": 16, "repeat": 6}),
    Lab(
        "51_mpi_against_nccl",
        ("allreduce", "step"),
        {"asked": WAYS, "longest": 1 << 22},
        on_host=("mpi", "torch-gloo", "torch-mpi", "horovod-mpi", "horovod-gloo"),
    ),
    Lab("60_ddp_and_fsdp", ("workload",), {"workload": "auto"}),
)


def told(lab: Lab, entries: Sequence[Mapping]) -> list[Mapping]:
    """The records that tell of tensors on the GPU. A `result` may go on: "step, 4 ranks"."""
    chosen = [
        entry for entry in entries if str(entry["result"]).split(",")[0].split()[0] in lab.on_device
    ]
    return [entry for entry in chosen if entry.get("backend") not in lab.on_host]


def libraries(operations: Sequence[str]) -> set[str]:
    """Those that activities of a timeline name: {"MPI", "NCCL"}."""
    first = {name.split("_")[0].upper() for name in operations}
    return first & {"MPI", "NCCL", "GLOO"}


def operations_of(entry: Mapping) -> list[str]:
    """The activities that a record itself names, in labs 42 to 46."""
    values = [entry.get(name) or () for name in ("calls", "carried_by", "names")]
    return [
        name for value in values for name in (value.split() if isinstance(value, str) else value)
    ]


def contradictions(
    entries: Sequence[Mapping], timelines: Mapping[str, Sequence[dict]]
) -> list[str]:
    """What speaks against tensors on the GPU, carried by whom the records name. timelines: name ->
    events."""
    found = []
    for entry in entries:
        what = f"{entry['result']} {entry.get('way') or entry.get('backend') or ''}".strip()
        library = str(entry.get("library")).upper()
        carried_by = libraries(operations_of(entry))
        if not str(entry.get("device")).startswith(("cuda", "GPU", "/GPU")):
            found.append(f"{what}: tensors of {entry.get('device')!r}")
        if entry.get("staged") == THROUGH_HOST and "NCCL" in carried_by:
            found.append(f"{what}: staged through the host, and carried by NCCL")
        if carried_by and library not in ({"NONE"} | carried_by):
            found.append(f"{what}: {library} by the record, {carried_by} by its timeline")
    said = {str(entry.get("library")).upper() for entry in entries}
    for name, events in timelines.items():
        for tensor, operations in gradients(events).items():
            carried_by = libraries(operations)
            if not carried_by & said and "NONE" not in said:
                found.append(f"{name}: {carried_by} carried {tensor}, and the records say {said}")
    return found


def gradients(events: Sequence[dict]) -> dict[str, list[str]]:
    """Tensor -> its activities, of those that a library averaged. A loss is a number of the
    host's."""
    rows = defaultdict(list)
    for activity in timeline.activities(list(events)):
        rows[activity.tensor].append(activity.name)
    return {
        tensor: names
        for tensor, names in rows.items()
        if "ALLREDUCE" in names and libraries(names) and "loss" not in tensor
    }


# --- on a GPU


class Witness:
    """The largest rise of the memory in use on the first GPU, while it is looked at."""

    def __init__(self):
        import pynvml

        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.least = self.used()
        self.rise = 0

    def used(self) -> int:
        """Bytes, by all processes."""
        import pynvml

        return int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).used)

    def look(self, *_) -> None:
        """Called a few times a second while a lab runs."""
        used = self.used()
        self.least = min(self.least, used)
        self.rise = max(self.rise, used - self.least)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.stem)
def test_a_solved_lab_has_its_tensors_on_the_gpu(lab, tmp_path, monkeypatch):
    import torch

    out = fresh_folder(tmp_path / "report")
    # NCCL wants a GPU for each rank, and these labs start up to four.
    if lab.stem[:2] in ("40", "41", "44") and torch.cuda.device_count() >= 4:
        for name, value in (
            builds.variables("nccl").items() if "nccl" in builds.horovod_builds() else ()
        ):
            monkeypatch.setenv(name, value)
    if lab.timeline:
        monkeypatch.setenv("HOROVOD_TIMELINE", str(out / "home" / "timeline.json"))
    small = wrong_answers.read(paths.root(), lab.stem)["SMALL"]
    witness = Witness()
    outcome = run.run(paths.root(), out, lab.stem, {**small, **lab.settings}, "", witness.look)
    assert outcome.status == run.RAN, outcome.sentence
    entries = told(lab, record.entries(out / "home" / "records" / f"{lab.stem}.jsonl"))
    assert entries, f"no record of {lab.on_device}"
    files = [file for file in (out / "home").glob("timeline*.json") if file.stat().st_size > 2]
    assert contradictions(entries, {file.stem: timeline.read(file) for file in files}) == []
    assert witness.rise >= CONTEXT_BYTES, "records name a GPU, and nobody was on it"


# --- without one


def test_the_kits_own_records_were_measured_on_cpus():
    """Real records, of runs on a machine without GPUs: none may pass for one of a GPU."""
    for lab in LABS:
        entries = told(
            lab, record.entries(paths.root() / "solutions" / "results" / f"{lab.stem}.jsonl")
        )
        assert len(contradictions(entries, {})) >= len(entries)
