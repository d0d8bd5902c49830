"""What the doctor reports: each fact's key, its label, and what it would enable where it is missing.

`doctor.report()["mpi"]["version"]` is the value of the fact "mpi.version", None where it was not found.
The keys are kept from release to release; lab 00 and the report of `make tour` read them.
"""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """`key`: GROUP.NAME in the report. `enables`: the words in "not found (for …)"."""

    key: str
    label: str
    enables: str


GROUPS = {
    "machine": "This machine",
    "threads": "Threads in use",
    "gpu": "GPUs",
    "libraries": "Libraries under the frameworks",
    "mpi": "MPI",
    "network": "Network",
    "slurm": "Slurm",
    "horovod": "Horovod",
    "versions": "Versions",
}

FACTS = (
    Fact("machine.host", "host", ""),
    Fact("machine.system", "system", ""),
    Fact("machine.cpu", "processor", ""),
    Fact("machine.cores", "cores you may use", ""),  # int: affinity and container limits respected
    Fact("machine.cores_in_all", "cores in all", ""),  # int
    Fact("machine.numa_nodes", "NUMA nodes", "binding ranks to the memory next to their cores"),  # int
    Fact("machine.memory_gib", "memory (GiB)", ""),  # float
    Fact("machine.memory_free_gib", "memory free (GiB)", ""),  # float
    Fact(
        "threads.blas", "BLAS under NumPy", "seeing how many threads a product of matrices takes"
    ),  # list of str
    Fact("threads.torch", "PyTorch", "labs that need torch"),  # int
    Fact("threads.tensorflow", "TensorFlow", "labs that need tensorflow"),  # int
    Fact("threads.variables", "set by variables", ""),  # dict, empty where nothing is set
    Fact("gpu.devices", "devices", "training on a GPU; without one, labs use the processor"),  # list of dict
    Fact("gpu.links", "links between them", "GPUs that talk without the host between them"),  # str
    Fact("gpu.driver", "driver", "any use of an NVIDIA GPU"),
    Fact("libraries.cuda_driver", "CUDA, most the driver can", "any use of an NVIDIA GPU"),
    Fact("libraries.cuda_toolkit", "CUDA toolkit (nvcc)", "building Horovod with GPU operations"),
    Fact("libraries.cuda_torch", "CUDA of PyTorch", "PyTorch on a GPU; this build is for the processor"),
    Fact(
        "libraries.cuda_tensorflow",
        "CUDA of TensorFlow",
        "TensorFlow on a GPU; this build is for the processor",
    ),
    Fact("libraries.cudnn", "cuDNN", "quick convolutions on a GPU"),
    Fact("libraries.nccl", "NCCL", "collectives between GPUs at the speed of their links"),
    Fact("libraries.onednn", "oneDNN", "quick convolutions and bf16 on the processor"),
    Fact("mpi.family", "family", "several ranks: `make setup` installs MPICH, or load the site's MPI module"),
    Fact("mpi.version", "version", "several ranks"),
    Fact("mpi.banner", "in its own words", "several ranks"),  # first line of MPI_Get_library_version
    Fact("mpi.files", "library loaded", "several ranks"),  # list of str; more than one is a mistake
    Fact("mpi.launcher", "launcher", "starting ranks: mpiexec comes with an MPI"),
    Fact("mpi.threads", "threads it allows", "Horovod, which wants MPI_THREAD_MULTIPLE"),
    Fact("mpi.cuda_built", "CUDA-aware by build", "handing GPU memory to MPI"),  # bool
    Fact("mpi.cuda_switch", "CUDA-aware by switch", "handing GPU memory to MPI"),  # str
    Fact("mpi.builds", "to choose from (MPI=…)", "several ranks"),  # list of str
    Fact("mpi.gpu_tensors", "tensors on a GPU", "training on a GPU; here all tensors are in host memory"),
    Fact("network.infiniband", "InfiniBand, RoCE", "fast messages between nodes"),  # list of str
    Fact("network.gpudirect_rdma", "GPUDirect RDMA module", "a network card that reads GPU memory itself"),
    Fact("network.gdrcopy", "GDRCopy", "small messages to and from GPU memory with low latency"),
    Fact("slurm.version", "version", "jobs on a cluster: sbatch and srun"),
    Fact("slurm.job", "this job", "several nodes; this process belongs to no job"),
    Fact("slurm.controller", "controller", "submitting jobs from here"),
    Fact("horovod.version", "version", "labs that need horovod: `make setup` builds it"),
    Fact("horovod.frameworks", "for", "hvd in PyTorch and in TensorFlow"),  # list of str
    Fact("horovod.controllers", "controllers", "starting Horovod's ranks"),  # list of str
    Fact("horovod.operations", "operations", "Horovod's collectives"),  # list of str
    Fact("horovod.builds", "to choose from (HOROVOD=…)", "labs that need horovod"),  # list of str
    Fact("horovod.gpu_tensors", "tensors on a GPU", "training on a GPU; here all tensors are in host memory"),
    Fact("versions.python", "Python", ""),
    Fact("versions.torch", "PyTorch", "labs that need torch"),
    Fact("versions.tensorflow", "TensorFlow", "labs that need tensorflow"),
    Fact("versions.keras", "Keras", "Horovod in Keras"),
    Fact("versions.numpy", "NumPy", "every lab"),
    Fact("versions.mpi4py", "mpi4py", "labs that need mpi"),
    Fact("versions.jupyterlab", "JupyterLab", "working in notebooks; the scripts run without it"),
)


def empty() -> dict:
    """A report with every group and every fact None."""
    report: dict = {group: {} for group in GROUPS}
    for fact in FACTS:
        group, name = fact.key.split(".")
        report[group][name] = None
    return report


def get(report: dict, key: str):
    """The value of a fact such as "mpi.version"."""
    group, name = key.split(".")
    return report[group][name]


def put(report: dict, key: str, value) -> None:
    """Set a fact; a key that FACTS does not list is a mistake in a probe."""
    group, name = key.split(".")
    if name not in report[group]:
        raise KeyError(key)
    report[group][name] = value
