"""Which library carries out an operator: told by its name, and by what PyTorch was built with.

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
    """(kind, explicit?, library) of a CPU event of torch.profiler; kind "" says nothing on the
    time.

    types: of the inputs, as the trace names them.
    """
    if _LOADER.match(name):
        return INPUT, True, "PyTorch"
    if _COLLECTIVE.match(name):
        return COMMUNICATION, True, _backend(name)
    if "::" not in name and not name.endswith("Backward0"):
        # A note for people, such as ProfilerStep#3 or one's own record_function.
        return "", False, ""
    if _ONEDNN.search(name):
        return COMPUTE, False, "oneDNN"
    if _BLAS.match(name):
        numbers = {type_ for type_ in types if type_ in _HALF + _FLOAT}
        if numbers and numbers <= set(_HALF):
            return COMPUTE, False, "oneDNN" if _half_in_onednn() else "PyTorch"
        return COMPUTE, False, torch_blas()
    return COMPUTE, False, "PyTorch"


def gpu_kernel(name: str) -> tuple[str, str]:
    """(kind, library) of a kernel on a GPU."""
    library = next((library for pattern, library in _KERNELS if pattern.search(name)), "PyTorch")
    return (COMMUNICATION if library == "NCCL" else COMPUTE), library


@lru_cache(maxsize=1)
def torch_blas() -> str:
    """The BLAS that PyTorch was built with, in the words of torch.__config__."""
    import torch

    stated = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    if stated is None:
        return "BLAS"
    names = {"mkl": "MKL", "open": "OpenBLAS", "accelerate": "Accelerate", "nvpl": "NVPL"}
    return names.get(stated[1].lower(), stated[1])


@lru_cache(maxsize=1)
def _half_in_onednn() -> bool:
    import torch

    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _backend(name: str) -> str:
    libraries = {"gloo": "Gloo", "nccl": "NCCL", "mpi": "MPI", "ucc": "UCC"}
    backend = name.split(":")[0]
    if backend not in libraries:  # c10d:: is the same for all of them
        import torch.distributed as dist

        backend = dist.get_backend() if dist.is_initialized() else ""
    return libraries.get(backend, "PyTorch")
