"""Which library carries out an operator: told by its name, and by what the framework was built with.

The CPU names of PyTorch 2.13 were checked against what oneDNN and MKL themselves print
(torch.backends.mkldnn.verbose, torch.backends.mkl.verbose). Those of GPU kernels were not run here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from labkit.profiling.spans import COMMUNICATION, COMPUTE, INPUT

# One matrix or vector product by the BLAS; half-precision ones go to oneDNN.
_BLAS = re.compile(
    r"aten::(mm|addmm|_addmm_activation|bmm|baddbmm|addbmm|mv|addmv_?|dot|vdot"
    r"|_slow_conv2d_(forward|backward)|_scaled_dot_product_flash_attention_for_cpu)$"
)
_ONEDNN = re.compile(r"mkldnn|onednn|^aten::convolution_backward$")
_COLLECTIVE = re.compile(r"^(c10d::|gloo:|nccl:|mpi:|ucc:)")
_LOADER = re.compile(r"^enumerate\(DataLoader\)#")
_KERNELS = (  # GPU kernels, first match
    (re.compile(r"nccl", re.IGNORECASE), "NCCL"),
    (re.compile(r"cudnn|winograd|implicit_(convolve|gemm)|(fprop|dgrad|wgrad)"), "cuDNN"),
    (re.compile(r"gemm|gemv|cublas|nvjet|splitKreduce|cutlass"), "cuBLAS"),
)
_HALF = ("c10::BFloat16", "c10::Half")
_FLOAT = ("float", "double", "c10::complex<float>", "c10::complex<double>")


def torch_operator(name: str, types: tuple[str, ...] = ()) -> tuple[str, bool, str]:
    """(kind, explicit?, library) of a CPU event of torch.profiler; kind "" says nothing on the time.

    types: of the inputs, as the trace names them.
    """
    if _LOADER.match(name):
        return INPUT, True, "PyTorch"
    if _COLLECTIVE.match(name):
        return COMMUNICATION, True, _backend(name)
    if "::" not in name and not name.endswith("Backward0"):
        return "", False, ""  # a note for people, such as ProfilerStep#3 or one's own record_function
    if _ONEDNN.search(name):
        return COMPUTE, False, "oneDNN"
    if _BLAS.match(name):
        kinds = {one for one in types if one in _HALF + _FLOAT}
        half = kinds and kinds <= set(_HALF)
        return COMPUTE, False, ("oneDNN" if _half_in_onednn() else "PyTorch") if half else torch_blas()
    return COMPUTE, False, "PyTorch"


def gpu_kernel(name: str, framework: str) -> tuple[str, str]:
    """(kind, library) of a kernel on a GPU."""
    library = next((library for words, library in _KERNELS if words.search(name)), framework)
    return (COMMUNICATION if library == "NCCL" else COMPUTE), library


def tensorflow_operator(kind: str) -> tuple[str, str]:
    """(kind, library) of a TensorFlow operation of that type on a CPU, such as _MklNativeFusedMatMul."""
    if re.match(r"Iterator\w*GetNext|OptionalGetValue", kind):
        return INPUT, "tf.data"
    if kind.startswith("Horovod"):
        return COMMUNICATION, "Horovod"
    if re.match(r"Nccl|Collective", kind):
        return COMMUNICATION, "NCCL" if kind.startswith("Nccl") else "TensorFlow"
    if "Mkl" in kind:
        return COMPUTE, "oneDNN"
    return COMPUTE, "Eigen" if re.search(r"MatMul|Conv\d", kind) else "TensorFlow"


def horovod_call(name: str) -> str:
    """The library of an activity in Horovod's timeline, such as MPI_ALLREDUCE or NCCL_ALLREDUCE."""
    words = {"MPI": "MPI", "GLOO": "Gloo", "NCCL": "NCCL", "CCL": "oneCCL", "DDL": "DDL"}
    return words.get(name.split("_")[0], "Horovod")


@lru_cache(maxsize=1)
def torch_blas() -> str:
    """The BLAS that PyTorch was built with, in the words of torch.__config__."""
    import torch

    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    names = {"mkl": "MKL", "open": "OpenBLAS", "accelerate": "Accelerate", "nvpl": "NVPL"}
    return names.get(found[1].lower(), found[1]) if found else "BLAS"


@lru_cache(maxsize=1)
def _half_in_onednn() -> bool:
    import torch

    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _backend(name: str) -> str:
    words = {"gloo:": "Gloo", "nccl:": "NCCL", "mpi:": "MPI", "ucc:": "UCC"}
    library = next((library for word, library in words.items() if name.startswith(word)), None)
    if library is None:  # c10d:: is the same for all of them
        import torch.distributed as dist

        library = words.get(f"{dist.get_backend()}:", "PyTorch") if dist.is_initialized() else "PyTorch"
    return library
