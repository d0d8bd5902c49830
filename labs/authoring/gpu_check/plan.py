"""What runs, with which settings, and its share of the time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

MINUTES = 10.0
RESNET, GPT = "ResNet-like", "GPT-like"
AIMS = {RESNET: 0.60, GPT: 0.80}  # share of the measured product of matrices
SHORTEST = 5.0  # seconds under which a part is not begun


@dataclass(frozen=True)
class Lab:
    """A lab that runs solved.

    weight: its share of the time, beside those of all other parts. settings: parameters on a GPU, beside
    those of the tests' runs; elsewhere the tests' hold. on_device: results (the first words of a record's
    `result`) that tell where the tensors of a training or a message are; others tell of the host, of files
    or of virtual ranks. on_host: field -> values of records whose arrays are in host memory on purpose, as a
    control. timeline: it writes none by itself; one is asked for by a variable. by_nccl: it takes the build
    of Horovod that it is given: that with NCCL where there are MANY GPUs, one for each of its ranks.
    one_gpu: what a single GPU cannot show.
    """

    stem: str
    weight: float
    settings: Mapping[str, object] = field(default_factory=dict)
    on_device: tuple[str, ...] = ()
    on_host: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    timeline: bool = False
    by_nccl: bool = False
    one_gpu: str = ""

    @property
    def number(self) -> str:
        return self.stem.split("_")[0]


MANY = 4
ALONE = "NCCL between two ranks: it wants a GPU for each"
# In the order in which they run. Those with Horovod come last: it may still be compiled.
LABS = (
    Lab("10_train_on_one_device", 15, {"epochs": 4}, ("step",)),
    Lab(
        "12_find_the_bottleneck",
        30,
        {"rows": 1024, "megabytes": 128, "side": 4096, "pictures": 2048, "batch": 32, "seconds": 0.5},
        ("roofs", "layer", "step"),
    ),
    Lab(
        "14_mixed_precision_and_memory",
        30,
        {"images": 16, "matrix": 384},
        ("convolution", "checkpoints"),
    ),
    Lab("15_input_pipeline", 30, {}, ("step",)),
    Lab(
        "27_cuda_aware_mpi",
        25,
        {"longest": 1 << 22},
        ("exchange",),
        one_gpu="messages between two GPUs: both ranks had the same one",
    ),
    Lab("11_same_net_in_tensorflow", 30, {}, ("eager_over_graph",)),
    Lab("51_mpi_against_nccl", 40,
        {"asked": ("mpi", "mpi-gpu", "torch-gloo", "torch-gloo-gpu", "torch-nccl", "horovod-mpi",
                   "horovod-mpi-gpu", "horovod-nccl"), "longest": 1 << 22},
        ("allreduce", "step"),
        {"backend": ("mpi", "torch-gloo", "torch-mpi", "horovod-mpi", "horovod-gloo")},
        one_gpu=ALONE),
    Lab("40_horovod_pytorch", 30, {}, ("training",), timeline=True, by_nccl=True, one_gpu=ALONE),
    Lab("41_horovod_tensorflow", 40, {}, ("weak",), timeline=True, by_nccl=True, one_gpu=ALONE),
    Lab("42_horovod_mvapich2_gdr", 40, {"steps": 10, "layers": 12, "width": 256}, ("step",)),
    Lab("43_horovod_nccl2", 25, {}, ("carried",), one_gpu=ALONE),
    Lab("44_timeline_and_fusion", 40, {}, ("step",), by_nccl=True, one_gpu=ALONE),
    Lab("46_three_libraries", 55, {"images": 16, "repeat": 6}, ("weak", "strong"), one_gpu=ALONE),
)  # fmt: skip

# The other parts: name -> weight. "horovod" is the waiting for its compilation, where it comes from a bundle.
PARTS = {"machine": 20, "peak": 80, "tests": 45, "horovod": 150, "report": 10}


def needs_horovod(lab: Lab) -> bool:
    """Whether a lab cannot run without Horovod: 40 to 46."""
    return "40" <= lab.number < "50"


def needs_tensorflow(lab: Lab) -> bool:
    """Whether it is about TensorFlow: 11 and 41."""
    return lab.number in ("11", "41")


def order(labs: tuple[Lab, ...], *, compiling: bool, without_tensorflow: bool) -> dict[str, float]:
    """Part -> its weight, in the order in which the parts run. Labs go by their stems.

    What needs Horovod comes after it is compiled: the tests, too. Labs that cannot run have no weight.
    """
    parts = {"machine": PARTS["machine"], "peak": PARTS["peak"]}
    weights = {
        lab.stem: 0.0 if without_tensorflow and needs_tensorflow(lab) else float(lab.weight) for lab in labs
    }
    later = {lab.stem: weights[lab.stem] for lab in labs if needs_horovod(lab) or lab.number == "51"}
    parts |= {stem: weight for stem, weight in weights.items() if stem not in later}
    if compiling:
        parts["horovod"] = PARTS["horovod"]
    return parts | {"tests": PARTS["tests"]} | later | {"report": PARTS["report"]}


class Clock:
    """Deals out the time: a part has its share, and what the parts before it have left.

    parts: name -> weight, in their order. seconds: for all of them. begun: time.time() when they began.
    """

    def __init__(self, parts: Mapping[str, float], seconds: float, begun: float | None = None):
        whole = sum(parts.values())
        self.shares = {name: seconds * weight / whole for name, weight in parts.items()}
        self.end = (time.time() if begun is None else begun) + seconds

    def left(self) -> float:
        """Seconds until the end; below 0 after it."""
        return self.end - time.time()

    def limit(self, part: str) -> float:
        """Seconds that a part may take if it begins now: all but the shares of the parts behind it."""
        names = list(self.shares)
        behind = names[names.index(part) + 1 :]
        return self.left() - sum(self.shares[name] for name in behind)

    def too_late(self, part: str) -> str:
        """Why a part is not begun, in a sentence; "" if it is."""
        limit = self.limit(part)
        if limit >= SHORTEST:
            return ""
        share = self.shares[part]
        return f"The time was over: of its share of {share:.0f} s, {max(0.0, limit):.0f} s were left."
