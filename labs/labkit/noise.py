"""What has to be seen to before TensorFlow starts: its noise and oneDNN's, a GPU's memory, and
Triton, which must come first.

Errors stay visible.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

SETTINGS = {
    "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow's C++ side: errors, no information or warnings
    "TF_CPP_MIN_VLOG_LEVEL": "0",
    "GRPC_VERBOSITY": "ERROR",
    "ABSL_MIN_LOG_LEVEL": "2",
    "KERAS_BACKEND": "tensorflow",
    # Else it takes nearly all memory of every GPU, and keeps it until the kernel is shut down.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # ipykernel's debugger says this on every kernel start
}
_CPU = Path("/proc/cpuinfo")
# TensorFlow 2.21 writes these two lines, twice, before it reads any of the settings above.
_NOISE = re.compile(
    rb"^WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|^I0000 .*\] oneDNN custom operations are on\."
)


def silence() -> None:
    """Turn the noise off before the first import, and have TensorFlow's import load Triton first.

    A variable that is already set stays.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # TensorFlow's Python side imports code that Python itself has deprecated; learners cannot act
    # on it.
    warnings.filterwarnings(
        "ignore", category=DeprecationWarning, module=r"(tensorflow|keras|google|horovod)\b.*"
    )
    if "tensorflow" not in sys.modules and not any(
        isinstance(finder, _Finder) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds TensorFlow as usual; what its import writes to stderr passes through
    `_without_noise`."""

    def find_spec(self, name: str, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        _load_triton()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _without_noise(load, module)
        return spec


def _load_triton() -> None:
    """Load the library of PyTorch's compiler, which PyTorch has where it was built with CUDA.

    It and TensorFlow both bring LLVM. Loaded after TensorFlow, as torch.compile and torch.optim
    would do, it ends the process with a segmentation fault: seen with Triton 3.7.1, TensorFlow 2.21
    and Python 3.13.
    """
    if importlib.util.find_spec("triton") is not None:
        importlib.import_module("triton._C.libtriton")


def _without_noise(load, module) -> None:
    """load(module), without the known noise of its import.

    Without AVX, TensorFlow says so and aborts: nothing that was held back would be seen.
    """
    cpu = _CPU.read_text(encoding="utf-8", errors="replace") if _CPU.exists() else ""
    if "flags" in cpu and " avx " not in cpu:
        load(module)
        return
    with without_lines(_NOISE):
        load(module)


@contextmanager
def without_lines(noise: re.Pattern[bytes]):
    """Hold back what this process writes to stderr; at the end, all but the lines with `noise` is
    written."""
    import tempfile

    sys.stderr.flush()
    screen = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(screen, 2)
            written.seek(0)
            for line in written:
                if not noise.search(line):
                    os.write(screen, line)
            os.close(screen)
