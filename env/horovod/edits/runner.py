"""Edits of Horovod's launcher and of its questions about itself."""

from __future__ import annotations

from env.horovod.edit import Edit

UTIL = "horovod/common/util.py"

FACTS = '''@_cache
def _built_facts(ext_base_name):
    """Ask one child process once what an extension was built with; None when it cannot be loaded.

    The extension's file is looked for first: a child that imports a whole framework takes seconds.
    """
    import glob
    import types

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not glob.glob(os.path.join(here, ext_base_name, 'mpi_lib*' + get_ext_suffix())):
        return None

    names = ('mpi_built', 'gloo_built', 'nccl_built', 'ddl_built', 'ccl_built')
    answers = _ask_extension(
        ext_base_name, lambda ext: {name: getattr(ext, name)() for name in names}, 'built', False)
    if answers is None:
        return None
    return types.SimpleNamespace(**{name: (lambda value=value: value) for name, value in answers.items()})


def _check_extension_lambda(ext_base_name, fn, fn_desc, verbose):
    """Answer fn(ext) without loading the extension into this process."""
    if fn_desc == 'running with GPU':
        return _ask_extension(ext_base_name, fn, fn_desc, verbose)
    facts = _built_facts(ext_base_name)
    return None if facts is None else fn(facts)


@_cache
def gpu_available('''

RUNNER = (
    Edit(
        "which-without-distutils",
        "horovod/runner/js_run.py",
        "Python 3.12 has no distutils.",
        "from distutils.spawn import find_executable",
        "from shutil import which as find_executable",
    ),
    Edit(
        "hydra",
        "horovod/runner/mpi_run.py",
        "MPICH's and MVAPICH's `mpirun --version` says HYDRA: `horovodrun --mpi` did not know it.",
        "elif 'MPICH' in output:",
        "elif 'MPICH' in output or 'HYDRA' in output:",
    ),
    Edit(
        "rendezvous-address",
        "horovod/runner/util/network.py",
        "The servers of horovodrun listened on every network of the machine. Now each listens on the address "
        "that it is given; HOROVOD_RENDEZVOUS_BIND (127.0.0.1, for one) serves those that are given none.",
        "            addr = ('', port)\n",
        "            addr = (address or os.environ.get('HOROVOD_RENDEZVOUS_BIND', ''), port)\n",
    ),
    Edit(
        "rendezvous-address-given",
        "horovod/runner/util/network.py",
        "What `rendezvous-address` takes.",
        "def find_port(server_factory):\n",
        "def find_port(server_factory, address=''):\n",
    ),
    Edit(
        "rendezvous-address-import",
        "horovod/runner/util/network.py",
        "The module that `rendezvous-address` uses.",
        "import psutil\nimport random\n",
        "import os\nimport psutil\nimport random\n",
    ),
    Edit(
        "ask-torch-first",
        UTIL,
        "`horovodrun` asks an extension what it was built with; PyTorch is imported soonest.",
        "EXTENSIONS = ['tensorflow', 'torch', 'mxnet']",
        "EXTENSIONS = ['torch', 'tensorflow', 'mxnet']",
    ),
    Edit(
        "ask-once",
        UTIL,
        "Each of nine questions started a process that imported a whole framework; now one per framework is.",
        "def _check_extension_lambda(ext_base_name, fn, fn_desc, verbose):",
        "def _ask_extension(ext_base_name, fn, fn_desc, verbose):",
    ),
    Edit("ask-once-answers", UTIL, "The answers of `ask-once`.", "@_cache\ndef gpu_available(", FACTS),
)
