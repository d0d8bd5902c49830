"""The labs that put tensors on a GPU: which of their records tell of it, and how each is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit import labfile


@dataclass(frozen=True)
class Lab:
    """A lab that runs solved, with `settings` beside the parameters of the other tests.

    on_device: first words of the `result` of records that tell of tensors on the GPU; others tell
    of the host, of files or of virtual ranks. on_host: ways that stay in host memory on purpose, as
    a control. timeline: the lab writes none by itself, and one is asked for. gpus: without so many
    its ranks stay in host memory, by its own words.
    """

    stem: str
    on_device: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    on_host: tuple[str, ...] = ()
    timeline: bool = False
    gpus: int = 1


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
MIXED = ("convolution", "checkpoints", "workload")
IN_HOST = ("mpi", "torch-gloo", "torch-mpi", "horovod-mpi", "horovod-gloo")
LABS = (
    Lab("01_time_it_properly", ("convolution",)),
    Lab("02_why_parallel", ("convolution",)),
    Lab("10_train_on_one_device", ("step", "workload"), {"epochs": 4}),
    Lab("11_same_net_in_tensorflow", ("eager_over_graph",)),
    Lab("12_find_the_bottleneck", ("roofs", "layer", "step"), ROOFS),
    Lab("14_mixed_precision_and_memory", MIXED, {"images": 16}),
    Lab("15_input_pipeline", ("step",)),
    Lab("27_cuda_aware_mpi", ("exchange",), {"longest": 1 << 22}),
    Lab("30_average_gradients", ("step", "workload")),
    Lab("40_horovod_pytorch", ("training", "workload"), timeline=True),
    Lab("41_horovod_tensorflow", ("weak",), timeline=True),
    Lab("42_horovod_mvapich2_gdr", ("step",), {"steps": 10, "layers": 12, "width": 256}),
    Lab("43_horovod_nccl2", ("carried",)),
    Lab("44_timeline_and_fusion", ("step",)),
    Lab("46_three_libraries", ("weak", "strong"), {"images": 16, "repeat": 6}),
    Lab("50_strong_and_weak_scaling", ("strong", "weak", "workload"), {"images": 64}),
    Lab("51_mpi_against_nccl", ("allreduce", "step"), {"asked": WAYS, "longest": 1 << 22}, IN_HOST),
    Lab("60_ddp_and_fsdp", ("weak", "sharded", "workload")),
    Lab("62_model_parallel", ("model",), gpus=4),
    Lab("63_pipeline_parallel", ("memory",), gpus=4),
    Lab("64_tensor_parallel", ("trained",), gpus=2),
    Lab("66_expert_parallel", ("trained", "bytes", "layer"), gpus=4),
    Lab("67_context_parallel", ("compared",), gpus=4),
    Lab("68_inference_over_ranks", ("tokens",), gpus=2),
    Lab("69_fsdp_from_inside", ("traced", "memory")),
)
# What a lab calls that puts tensors on a GPU.
_CALLS = re.compile(
    r"world\.device\(|take_device\(|placement\.of_(mpi|horovod)\(|steps\.begin\(|\bbegin\(gpus"
)
# Labs that call such a thing and have no record of tensors on a GPU: why.
ELSEWHERE = {
    "80_scaling_report": "it asks for the energy of a GPU and steps of its own; records: scores",
}


def touching(root: Path) -> set[str]:
    """The labs whose own files, the source and what supports it, may put tensors on a GPU."""
    found = set()
    for stem in labfile.headers(root):
        support = root / "labs" / "support" / f"lab{stem[:2]}"
        files = [root / "solutions" / f"{stem}.py", support.with_suffix(".py")]
        files += sorted(support.rglob("*.py"))
        text = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
        if _CALLS.search(text):
            found.add(stem)
    return found
