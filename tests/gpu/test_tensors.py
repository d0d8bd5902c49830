"""Solved labs on a GPU: their tensors are on it, and what carried them is what their records say.

A record says what the lab meant: its device, its library, staged or not. Horovod's timeline says
what happened, and the memory in use says whether anybody was on the GPU at all.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from authoring import tour, wrong_answers
from labkit import builds, files, paths, record, world
from labkit.horovod import timeline
from labkit.placement import THROUGH_HOST

from tests import emulated_gpu
from tests.gpu import kept
from tests.gpu.labs import ELSEWHERE, LABS, Lab, touching

# CUDA's own part of a GPU's memory, for one process, is several times this.
CONTEXT_BYTES = 100 << 20


def told(lab: Lab, entries: Sequence[Mapping]) -> list[Mapping]:
    """The records that tell of tensors on the GPU. A `result` may go on: "step, 4 ranks"."""
    chosen = [
        entry for entry in entries if re.match(r"[^\s,]*", entry["result"])[0] in lab.on_device
    ]
    return [entry for entry in chosen if entry.get("backend") not in lab.on_host]


def libraries(operations: Sequence[str]) -> set[str]:
    """Those that activities of a timeline name: {"MPI", "NCCL"}."""
    first = {name.split("_")[0].upper() for name in operations}
    return first & {"MPI", "NCCL", "GLOO"}


def operations_of(entry: Mapping) -> list[str]:
    """The activities that a record itself names, in labs 42 to 46."""
    values = [entry.get(name) or () for name in ("calls", "carried_by", "names")]
    split = [value.split() if isinstance(value, str) else value for value in values]
    return [name for names in split for name in names]


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
        device = entry.get("trained_on", entry.get("device"))
        if not str(device).startswith(("cuda", "GPU", "/GPU")):
            found.append(f"{what}: tensors of {device!r}")
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
    """The largest rise of the memory in use on the labs' first GPU, while it is looked at."""

    def __init__(self):
        import pynvml

        pynvml.nvmlInit()
        # NVML counts all GPUs, whatever CUDA shows.
        first = (world.shown_gpus() or ["0"])[0]
        if first.startswith("GPU-"):
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(first)
        else:
            index = int(first) if first.isdigit() else 0  # of a part of a GPU (MIG) nobody says it
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)
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


def check_on_gpu(lab: Lab, folder: Path, look: Callable) -> kept.Row:
    """Run a lab solved; what its records, its timelines and the memory say of its tensors.

    look(): called while the lab runs. The records are kept, whatever they say.
    """
    out = tour.fresh_folder(folder)
    small = wrong_answers.read(paths.root(), lab.stem)["SMALL"]
    outcome = tour.run(paths.root(), out, lab.stem, {**small, **lab.settings}, look)
    file = out / "home" / "records" / f"{lab.stem}.jsonl"
    kept.keep(file)
    entries = told(lab, record.entries(file))
    written = [path for path in (out / "home").glob("timeline*.json") if path.stat().st_size > 2]
    timelines = {path.stem: timeline.read(path) for path in written}
    problems = [] if outcome.status == tour.RAN else [outcome.sentence]
    if not entries:
        problems.append(f"no record of {lab.on_device}")
    return kept.row(lab.stem, entries, [*problems, *contradictions(entries, timelines)])


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("lab", kept.unseen_first(LABS), ids=lambda lab: lab.stem)
def test_a_solved_lab_has_its_tensors_on_the_gpu(lab, tmp_path, monkeypatch):
    import torch

    if torch.cuda.device_count() < lab.gpus:
        pytest.skip(f"it needs {lab.gpus} GPUs, one for each rank")
    if lab.stem[:2] in ("11", "41") and files.version("tensorflow") is None:
        pytest.skip("tensorflow-cpu is installed: `make setup GPU_OPERATIONS=NCCL` has the other")
    # NCCL wants a GPU for each rank, and these labs start up to four.
    several = torch.cuda.device_count() >= 4 and "nccl" in builds.horovod_builds()
    if lab.stem[:2] in ("40", "41", "44") and several:
        for name, value in builds.variables("nccl").items():
            monkeypatch.setenv(name, value)
    out = tmp_path / "report"
    if lab.timeline:
        monkeypatch.setenv("HOROVOD_TIMELINE", str(out / "home" / "timeline.json"))
    witness = Witness()
    row = check_on_gpu(lab, out, witness.look)
    if witness.rise < CONTEXT_BYTES:
        row.problems.append("its records name a GPU, and nobody was on it")
    kept.remember(row)
    assert row.problems == []


# --- without one


@pytest.mark.parametrize(
    ("shown", "first"), [(None, 0), ("3,1", 3), ("GPU-7f", "GPU-7f"), ("MIG-7f", 0)]
)
def test_the_witness_looks_at_the_first_gpu_that_cuda_shows(shown, first, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=0),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert Witness().handle == first


def test_each_lab_that_touches_a_gpu_is_run_on_one():
    run_on_one = {lab.stem for lab in LABS}
    missing = touching(paths.root()) - run_on_one - ELSEWHERE.keys()
    assert not missing, "add them to LABS in tests/gpu/labs.py, or say why not in ELSEWHERE"
    assert ELSEWHERE.keys() <= touching(paths.root()), "no longer an exception"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """What is kept here is no row of this session's table."""
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(kept, "REMEMBERED", [])
    monkeypatch.setattr(kept, "peak", lambda: 800e12)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_lab_on_an_emulated_gpu_gets_its_row(fresh, tmp_path, monkeypatch):
    """The whole way to the table, but for the memory's witness and the speed."""
    for name, value in emulated_gpu.environment(1).items():
        monkeypatch.setenv(name, value)
    (lab,) = (lab for lab in LABS if lab.stem.startswith("02"))
    row = check_on_gpu(lab, tmp_path / "report", lambda *_: None)
    assert (row.problems, row.devices) == ([], ["cuda:0"])
    kept.remember(row)
    (entry,) = record.entries(tmp_path / "kept" / "records" / f"{lab.stem}.jsonl")[:1]
    assert entry["device"] == "cuda:0"
    assert kept.unseen_first(LABS)[-1] == lab


def test_the_table_says_where_who_and_how_fast_and_what_failed_comes_first(fresh):
    on_gpu = {"device": "cuda:0", "library": "NCCL", "staged": "no", "seconds": 0.01}
    staged = {"library": "MPI", "staged": "through the host"}
    entries = [{**on_gpu, "flops": 4e12}, {**on_gpu, **staged, "flops": 1e12}]
    kept.remember(kept.row(LABS[0].stem, entries, []))
    kept.remember(kept.row(LABS[1].stem, [], ["no record"]))
    cells = [re.split("  +", line) for line in kept.table(kept.REMEMBERED).splitlines()]
    passed = [LABS[0].stem, "cuda:0", "NCCL; MPI, through the host", "400", "50%", "passed"]
    assert cells[1:] == [passed, [LABS[1].stem, "-", "-", "-", "-", "no record"]]
    assert kept.unseen_first(LABS[:3]) == [LABS[1], LABS[2], LABS[0]]


def test_the_kits_own_records_were_measured_on_cpus():
    """Real records, of runs on a machine without GPUs: none may pass for one of a GPU."""
    for lab in LABS:
        file = paths.root() / "solutions" / "results" / f"{lab.stem}.jsonl"
        entries = told(lab, record.entries(file))
        assert len(contradictions(entries, {})) >= len(entries)
