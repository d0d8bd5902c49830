"""Edits that make Horovod 0.28.1 compile against today's compilers, CMake, Python, PyTorch and TensorFlow."""

from __future__ import annotations

from env.horovod.edit import Edit

TOP = "CMakeLists.txt"
TORCH = "horovod/torch/CMakeLists.txt"
TENSORFLOW = "horovod/tensorflow/CMakeLists.txt"
FIND_TORCH = "cmake/Modules/FindPytorch.cmake"

STREAM_OLD = """// Forward declaration of AsGpuStreamValue
namespace stream_executor {
namespace gpu {
GpuStreamHandle AsGpuStreamValue(Stream* stream);
} // namespace stream_executor
} // namespace gpu
#if TENSORFLOW_VERSION >= 2011000000
#include "tensorflow/compiler/xla/stream_executor/stream.h"
#else
#include "tensorflow/stream_executor/stream.h"
#endif // TENSORFLOW_VERSION >= 2011000000
"""

STREAM_NEW = """#include "xla/stream_executor/stream.h"
namespace stream_executor {
namespace gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
} // namespace gpu
} // namespace stream_executor
"""

BUILD = (
    Edit(
        "cxx20",
        TOP,
        "PyTorch's headers need a newer standard than C++14.",
        "set(CMAKE_CXX_STANDARD 14)",
        "set(CMAKE_CXX_STANDARD 20)",
    ),
    Edit(
        "cxx20-torch",
        TORCH,
        "The same for the PyTorch extension, which sets it again.",
        "set(CMAKE_CXX_STANDARD 14)",
        "set(CMAKE_CXX_STANDARD 20)",
    ),
    Edit(
        "no-xla-ops",
        TENSORFLOW,
        "xla_mpi_ops.cc includes a header of XLA (xla_builder.h) that TensorFlow's wheel no longer ships.",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
    ),
    Edit(
        "no-debug-information",
        TOP,
        "Debug information makes the wheel twenty times larger and the build slower.",
        'string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO',
        'string(REPLACE "-O2 -g" "-O3 -g0" CMAKE_CXX_FLAGS_RELWITHDEBINFO',
    ),
    Edit(
        "cmake4",
        "third_party/gloo/CMakeLists.txt",
        "CMake 4 refuses projects that ask for a version before 3.5.",
        "cmake_minimum_required(VERSION 2.8.12 FATAL_ERROR)",
        "cmake_minimum_required(VERSION 3.13 FATAL_ERROR)",
    ),
    Edit(
        "include-path-without-distutils",
        TORCH,
        "Python 3.12 has no distutils.",
        '"from distutils.sysconfig import get_python_inc; print(get_python_inc())"',
        "\"import sysconfig; print(sysconfig.get_path('include'))\"",
    ),
    Edit(
        "relocatable",
        TOP,
        "The cached wheel serves every checkout: MPI is looked for beside the wheel, not where it was built.",
        "set(CMAKE_CXX_EXTENSIONS OFF)\n",
        "set(CMAKE_CXX_EXTENSIONS OFF)\n"
        "set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)\n"
        'set(CMAKE_INSTALL_RPATH "$ENV{HOROVOD_RPATH}")\n'
        'set(CMAKE_SHARED_LINKER_FLAGS "${CMAKE_SHARED_LINKER_FLAGS} -Wl,--enable-new-dtags")\n',
    ),
)

# Only for a PyTorch that was built with CUDA, such as PyPI's for x86-64.
CUDA_TORCH = (
    Edit(
        "cuda-when-asked",
        FIND_TORCH,
        "Beside PyTorch's CUDA build any `nvcc` in the path made the extension ask for a whole CUDA toolkit, "
        "on a machine without GPUs, too; now the set-up's HOROVOD_CUDA_HOME decides.",
        '"import torch; from torch.utils.cpp_extension import CUDA_HOME; '
        'print(True if ((torch.version.cuda is not None) and (CUDA_HOME is not None)) else False)"',
        "\"import os; print('HOROVOD_CUDA_HOME' in os.environ)\"",
    ),
    Edit(
        "one-cuda-runtime",
        TOP,
        "With CUDA's runtime linked in, what an extension keeps for itself would be a second one beside the "
        "frameworks' libcudart; the shared one is theirs.",
        'set(CMAKE_CUDA_RUNTIME_LIBRARY "Static")',
        'set(CMAKE_CUDA_RUNTIME_LIBRARY "Shared")',
    ),
    Edit(
        "gpu-stream",
        "horovod/tensorflow/mpi_ops.cc",
        "TensorFlow 2.21 exports no AsGpuStreamValue any more; a stream gives its handle itself.",
        STREAM_OLD,
        STREAM_NEW,
    ),
)
