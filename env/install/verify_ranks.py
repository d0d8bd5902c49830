"""What each rank of the set-up's verification does:
`verify_ranks.py mpi4py|torch|tensorflow [BUILD]`.

Rank 0 prints one JSON line: the sum over the ranks, who carried it, the libraries of MPI, CUDA and
NCCL in the process, and what came of a tensor on a GPU. BUILD is the build of Horovod that is
meant: host, nccl, mpi.
"""

import ctypes
import json
import os
import re
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# There may be only one of each in a process. Beside an MPI's main library there are others that do
# not count: C++'s and Fortran's bindings (libmpicxx, libmpi_mpifh), Cray's for GPUs
# (libmpi_gtl_cuda).
SINGLE = {
    "MPI": r"lib(mpi|mpi_abi|mpi_cray|mpi_gnu_\w+|mpi_nvidia|mpich)\.so[.\d]*",
    "CUDA runtime": r"libcudart\.so[.\d]*",
    "NCCL": r"libnccl\.so[.\d]*",
}


def libraries(maps="/proc/self/maps") -> dict:
    """Files of these libraries that are mapped into this process, by their real paths."""
    with open(maps) as lines:
        paths = {os.path.realpath(line.split()[-1]) for line in lines if "/lib" in line}
    return {
        name: sorted(path for path in paths if re.fullmatch(pattern, os.path.basename(path)))
        for name, pattern in SINGLE.items()
    }


def needed_by(library) -> set:
    """The files that a library brings along, as the loader finds them."""
    answer = subprocess.run(["ldd", library], capture_output=True, text=True)
    return {os.path.realpath(path) for path in re.findall(r"=> (/\S+)", answer.stdout)}


def doubled(found) -> tuple:
    """(an error, a warning) about libraries of which a process holds two; empty where all is well.

    An MPI for GPUs may have been compiled with another CUDA than PyTorch, and bring its own runtime
    along. Their names carry the major version, so both can be in a process: that is not an error.
    """
    for name, files in found.items():
        if len(files) < 2:
            continue
        if name == "CUDA runtime" and found["MPI"]:
            brought = needed_by(found["MPI"][0])
            if len([file for file in files if file not in brought]) < 2:
                names = " and ".join(map(os.path.basename, files))
                return "", f"MPI brings a CUDA runtime of its own, so a process holds {names}"
        return f"holds {len(files)} libraries of {name}: {', '.join(files)}", ""
    return "", ""


def takes_gpu_memory():
    """What the MPI of this process says of CUDA memory: True, False, or None where it has no such
    function.

    MPIX_GPU_query_support first: in some old MPICHs the other function ends the program.
    """
    library = ctypes.CDLL(libraries()["MPI"][0])
    if hasattr(library, "MPIX_GPU_query_support"):
        answer = ctypes.c_int(0)
        library.MPIX_GPU_query_support(0, ctypes.byref(answer))
        return bool(answer.value)
    if hasattr(library, "MPIX_Query_cuda_support"):
        return bool(library.MPIX_Query_cuda_support())
    return None


def reason_against_gpu(hvd, flavour, gpus) -> str:
    """Why this build is not handed a GPU's tensor here; empty where it is."""
    if not gpus:
        return "no GPU is visible"
    if flavour == "nccl" and gpus < hvd.local_size():
        return f"{hvd.local_size()} ranks, and {gpus} GPU: NCCL wants one each"
    if flavour == "mpi" and not takes_gpu_memory():
        return "this MPI does not take GPU memory"
    return ""


def with_mpi4py(flavour) -> dict:
    """Sum over the ranks with mpi4py."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    facts = {
        "by": MPI.Get_library_version().splitlines()[0],
        "takes_gpu_memory": takes_gpu_memory(),
    }
    return facts | {
        "sum": world.allreduce(float(world.rank + 1)),
        "rank": world.rank,
        "size": world.size,
    }


def with_torch(flavour) -> dict:
    """Sum over the ranks with Horovod in PyTorch; also on the GPU, where this build may be handed
    that."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    facts = horovods_own(hvd)
    facts["sum"] = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()
    reason = reason_against_gpu(hvd, flavour, torch.cuda.device_count())
    if not reason and not hvd.cuda_built():
        reason = "Horovod is compiled without CUDA"
    if reason:
        return facts | {"gpu": reason}
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0], device=device), op=hvd.Sum)
    return facts | {"gpu": str(total.device), "gpu_sum": total.item()}


def with_tensorflow(flavour) -> dict:
    """The same with Horovod in TensorFlow."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        # Or the first rank takes all of a shared GPU.
        tf.config.experimental.set_memory_growth(gpu, True)
    facts = horovods_own(hvd)
    with tf.device("/CPU:0"):
        facts["sum"] = float(hvd.allreduce(tf.constant([hvd.rank() + 1.0]), op=hvd.Sum)[0])
    reason = reason_against_gpu(hvd, flavour, len(gpus))
    if reason:
        return facts | {"gpu": reason}
    with tf.device(f"/GPU:{hvd.local_rank() % len(gpus)}"):
        total = hvd.allreduce(tf.constant([hvd.rank() + 1.0]), op=hvd.Sum)
    return facts | {"gpu": total.device, "gpu_sum": float(total[0])}


def horovods_own(hvd) -> dict:
    """What Horovod says of itself."""
    import horovod

    return {
        "by": "Gloo" if hvd.gloo_enabled() else "MPI",
        "rank": hvd.rank(),
        "size": hvd.size(),
        "nccl_built": int(hvd.nccl_built()),
        "horovod": os.path.dirname(os.path.dirname(os.path.abspath(horovod.__file__))),
    }


def main(what, flavour="host") -> None:
    """Run one check; ends with a sentence when its sum is wrong or a library is there twice."""
    check = {"mpi4py": with_mpi4py, "torch": with_torch, "tensorflow": with_tensorflow}[what]
    facts = check(flavour)
    facts["libraries"] = libraries()
    subject = f"error: {what} on rank {facts['rank']}"
    size = facts["size"]
    expected = size * (size + 1) / 2  # rank r gives r + 1
    if facts["sum"] != expected:
        sys.exit(f"{subject}: {size} ranks and a sum of {facts['sum']}, expected {expected}")
    if facts.get("gpu_sum", expected) != expected:
        sys.exit(f"{subject}: on {facts['gpu']} a sum of {facts['gpu_sum']}, expected {expected}")
    error, facts["warning"] = doubled(facts["libraries"])
    if error:
        sys.exit(f"{subject} {error}")
    if facts["rank"] == 0:
        print(json.dumps({"what": what, "flavour": flavour, **facts}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
