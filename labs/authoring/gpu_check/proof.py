"""Were the tensors on the device? What records and Horovod's timelines say of it.

A record names the device, whether the tensors were staged through host memory, and the library that carried
them; that is what the lab meant. A timeline names the operations that Horovod performed; that is what
happened. The rules for reading a timeline's rows are those that lab 42 teaches; they follow Horovod 0.28.1's
common/ops (nccl_operations.cc, mpi_gpu_operations.cc, adasum_gpu_operations.cc) and torch/mpi_ops_v2.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabError
from labkit.horovod import timeline
from labkit.placement import THROUGH_HOST

from authoring.gpu_check.plan import Lab

ON_DEVICE = "on the device"
STAGED = "staged"
CPU = "CPU"
CONTRADICTION = "contradiction"
NOT_SHOWN = "not shown"
FAILURES = (CPU, CONTRADICTION)

HOST_BUFFER = "MEMCPY_IN_HOST_BUFFER"
OWN = re.compile(r"(MPI|NCCL|GLOO|CCL)_\w+")  # operations of libraries, in a row
LIBRARIES = {"MPI": "MPI", "NCCL": "NCCL", "GLOO": "Gloo", "CCL": "CCL"}
CONTEXT_BYTES = 100 << 20  # CUDA's own part of a GPU's memory, for one process, is several times this
METRIC = "loss"  # in a tensor's name: a number that a training averages on the host


@dataclass(frozen=True)
class Finding:
    """What was found of one way in which a lab's tensors went. because: in a sentence."""

    lab: str
    what: str
    verdict: str
    because: str

    @property
    def failed(self) -> bool:
        return self.verdict in FAILURES


def of_row(activities: Sequence[str], device: str, build: str | None) -> tuple[str, str]:
    """(verdict, why) of a gradient, by the activities in its row of a timeline.

    device: where it was. build: of Horovod, "host", "nccl" or "mpi".
    """
    if not _is_gpu(device):
        return CPU, f"it was a tensor of {device!r}"
    if HOST_BUFFER in activities:
        return STAGED, f"{HOST_BUFFER} copied it to host memory, for MPI between the nodes"
    carried_by = _libraries(activities)
    if "NCCL" in carried_by:
        return ON_DEVICE, "NCCL carried it"
    if build == "mpi":
        return ON_DEVICE, "the build `mpi` handed GPU memory to MPI"
    return STAGED, f"the build {build!r} copied it to host memory for {_listed(carried_by)}"


def of_record(entry: Mapping[str, object]) -> tuple[str, str]:
    """(verdict, why) of a record, by its fields device, staged and library, and the operations it names."""
    device = str(entry.get("device"))
    if not _is_gpu(device):
        return CPU, f"the record's device is {device!r}"
    operations = operations_of(entry)
    carried_by = _libraries(operations)
    library = entry.get("library")
    if entry.get("staged") == THROUGH_HOST:
        if "NCCL" in carried_by:
            return CONTRADICTION, "the record says that it was staged, and the timeline names NCCL"
        return STAGED, f"on {device}, through host memory for {library}"
    if library is None:
        return ON_DEVICE, f"on {device}; nothing was sent"
    if HOST_BUFFER in operations:
        return STAGED, f"on {device}, and {HOST_BUFFER} copied it to host memory on its way"
    if carried_by and library == "NCCL" and "NCCL" not in carried_by:
        names = _listed(carried_by)
        return CONTRADICTION, f"the record says NCCL, and the timeline names {names} alone"
    proof = f"; the timeline names {', '.join(sorted(_of_libraries(operations)))}" if carried_by else ""
    return ON_DEVICE, f"on {device}, as it is to {library}{proof}"


def operations_of(entry: Mapping[str, object]) -> list[str]:
    """The activities of a timeline that a record names, in labs 42 to 46; [] in others."""
    calls = entry.get("calls")
    names = [str(name) for name in calls] if isinstance(calls, Mapping) else []
    for name in ("carried_by", "names"):
        value = entry.get(name)
        names += value.split() if isinstance(value, str) else list(value or ())
    return names


def of_lab(
    lab: Lab,
    entries: Sequence[Mapping[str, object]],
    timelines: Mapping[str, Sequence[dict]],
    *,
    gpus: int,
    builds: Sequence[str] = (),
    memory: int | None = None,
) -> list[Finding]:
    """What a lab's run shows. entries: its records. timelines: name of a file -> its events.

    gpus: of this machine. builds: of Horovod, that are here. memory: the most bytes of the GPU that were in
    use while the lab ran, beyond those before; None where nobody could say.
    """
    told = [entry for entry in entries if str(entry["result"]).split(",")[0].split()[0] in lab.on_device]
    told = [entry for entry in told if not _on_host_on_purpose(lab, entry)]
    findings: dict[tuple[str, str, str], Finding] = {}
    for entry in told:
        finding = Finding(lab.stem, way_of(entry), *_doubted(of_record(entry), memory))
        findings.setdefault((finding.what, finding.verdict, finding.because), finding)
    shown = list(findings.values())
    if not told:
        kinds = " or ".join(lab.on_device)
        shown.append(Finding(lab.stem, "records", NOT_SHOWN, f"the run left no record of a {kinds}"))
    for name, events in timelines.items():
        shown += of_timeline(lab, name, events, told)
    return shown + _not_here(lab, gpus, builds)


def of_timeline(
    lab: Lab, name: str, events: Sequence[dict], told: Sequence[Mapping[str, object]]
) -> list[Finding]:
    """What the rows of a timeline say, beside the records of the run that wrote it."""
    what = f"timeline {name}"
    found: dict[tuple[str, str], None] = {}
    for activities in gradients(events).values():
        writers = _writers(name, activities, told)
        if not writers:
            said = " or ".join(sorted({str(entry.get("library")) for entry in told})) or "none"
            because = f"it names {_listed(_libraries(activities))}, and the records' library is {said}"
            found.setdefault((CONTRADICTION if told else NOT_SHOWN, because))
        for device, build, staged in writers:
            # What the lab copied to the host itself went as a CPU's tensor, whatever the build.
            found.setdefault(of_row(activities, device, "host" if staged == THROUGH_HOST else build))
    if not found:
        found.setdefault((NOT_SHOWN, "it holds no allreduce: one rank alone may have none"))
    return [Finding(lab.stem, what, *each) for each in found]


def gradients(events: Sequence[dict]) -> dict[str, list[str]]:
    """Tensor -> its activities, in order, of those that a library averaged; a loss is the host's."""
    rows: dict[str, list[str]] = {}
    for activity in timeline.activities(list(events)):
        rows.setdefault(activity.tensor, []).append(activity.name)
    averaged = {tensor: names for tensor, names in rows.items() if "ALLREDUCE" in names}
    return {tensor: names for tensor, names in averaged.items() if METRIC not in tensor and _libraries(names)}


def _writers(name: str, activities: Sequence[str], told: Sequence[Mapping[str, object]]) -> list[tuple]:
    """(device, build, staged) of the records that may be of this timeline, each once.

    They have a library that the timeline names; of several, those whose way is in the file's name.
    """
    libraries = {LIBRARIES[library] for library in _libraries(activities)}
    fitting = [entry for entry in told if entry.get("library") in libraries or entry.get("library") is None]
    named = [entry for entry in fitting if _slug(entry.get("way")) and _slug(entry.get("way")) in name]
    fields = ("device", "horovod_build", "staged")
    writers = [
        tuple(entry.get(key) or (entry.get("build") if key == "horovod_build" else None) for key in fields)
        for entry in named or fitting
    ]
    return list(dict.fromkeys((str(device), build, staged) for device, build, staged in writers))


def read_timelines(folder: Path) -> dict[str, list[dict]]:
    """Name -> events of the timelines in a folder; one that cannot be read is left out."""
    timelines = {}
    for file in sorted(folder.glob("timeline*.json")):
        try:
            timelines[file.stem] = timeline.read(file)
        except LabError:  # empty, say: Horovod was started, and nothing was sent
            continue
    return timelines


def way_of(entry: Mapping[str, object]) -> str:
    """What a record is of, in short: its result, and the way, backend or build that it names."""
    named = [str(entry[name]) for name in ("way", "backend", "build", "step", "layer") if name in entry]
    readable = [name for name in named if not re.fullmatch(r"[\d.e+-]+", name)]
    return " ".join([str(entry["result"]), *readable[:1]])


def _doubted(judged: tuple[str, str], memory: int | None) -> tuple[str, str]:
    """A record's device is what the lab meant: not where tensors were, if the GPU's memory was not in use."""
    verdict, because = judged
    if verdict in FAILURES or memory is None or memory >= CONTEXT_BYTES:
        return judged
    return CPU, f"{because}; but the GPU's memory grew by {memory / 2**20:.0f} MiB only while the lab ran"


def _not_here(lab: Lab, gpus: int, builds: Sequence[str]) -> list[Finding]:
    findings = []
    if gpus == 1 and lab.one_gpu:
        findings.append(Finding(lab.stem, "one GPU", NOT_SHOWN, lab.one_gpu))
    if lab.number in ("43", "46") and "nccl" not in builds:
        because = "NCCL: this environment has no build of Horovod with it"
        findings.append(Finding(lab.stem, "NCCL", NOT_SHOWN, because))
    return findings


def _on_host_on_purpose(lab: Lab, entry: Mapping[str, object]) -> bool:
    return any(entry.get(name) in values for name, values in lab.on_host.items())


def _is_gpu(device: str) -> bool:
    return device.startswith(("cuda", "GPU", "/GPU"))


def _libraries(activities: Sequence[str]) -> set[str]:
    """Prefixes of the operations among them, "MPI" or "NCCL"; Gloo's name alone counts as well."""
    return {name.split("_")[0].upper() for name in _of_libraries(activities)}


def _of_libraries(activities: Sequence[str]) -> set[str]:
    known = {name for name in activities if OWN.fullmatch(name)}
    return known | {name for name in activities if name.upper() in LIBRARIES}


def _listed(libraries: set[str]) -> str:
    return " and ".join(sorted(LIBRARIES[library] for library in libraries)) or "no library"


def _slug(way: object) -> str:
    """A way's name as lab 46 puts it into a file's name."""
    return "_".join(re.findall(r"\w+", str(way))) if way else ""
