"""What Horovod's builder must know of an environment: run by its Python, prints one JSON line.

The versions of Python, torch, TensorFlow, numpy and of the CUDA that torch was built with (null for
a CPU build, and for what is not there), the site-packages folder, and the one that holds torch,
which is another where the environment looks into a site's packages, too. No framework is imported:
that takes seconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import runpy
import sys
import sysconfig
from pathlib import Path


def version(*names: str) -> str | None:
    """The version of the first of these distributions that is installed."""
    installed = [
        found.version for name in names for found in importlib.metadata.distributions(name=name)
    ]
    return installed[0] if installed else None


def torch_site() -> Path | None:
    """The folder that holds the package torch; None where there is none."""
    package = importlib.util.find_spec("torch")
    return Path(package.origin).parents[1] if package and package.origin else None


def torch_cuda(site: Path | None) -> str | None:
    """The version of CUDA that the torch in that folder was built with."""
    if site is None:
        return None
    file = site / "torch" / "version.py"
    return runpy.run_path(str(file)).get("cuda") if file.exists() else None


if __name__ == "__main__":
    site = Path(sysconfig.get_path("purelib"))
    facts = {
        "python": sys.version.split()[0],
        "tag": sys.implementation.cache_tag,
        "site": str(site),
        "torch": version("torch"),
        "torch_site": str(torch_site()) if torch_site() else None,
        "cuda": torch_cuda(torch_site()),
        "numpy": version("numpy"),
        "tensorflow": version("tensorflow-cpu", "tensorflow"),
    }
    print(json.dumps(facts))
