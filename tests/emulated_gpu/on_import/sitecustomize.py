"""With EMULATED_GPUS=2 and this folder in PYTHONPATH, every Python gets two emulated GPUs with
PyTorch."""

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder


class _Afterwards(Loader):
    """Loads torch as its own loader does, and then installs the devices."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        from tests.emulated_gpu import cuda

        cuda.install(int(os.environ["EMULATED_GPUS"]))


class _Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        spec.loader = _Afterwards(spec.loader)
        return spec


if os.environ.get("EMULATED_GPUS"):
    sys.meta_path.insert(0, _Finder())
