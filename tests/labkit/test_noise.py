"""TensorFlow starts without a word and after Triton, and what it has to say is still heard."""

import subprocess
import sys

import pytest

IMPORT = "from labkit.noise import silence; silence(); import tensorflow"


def run(program: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_tensorflow_is_imported_without_a_word_and_pytorch_still_compiles():
    """With a PyTorch built with CUDA, in the other order, this ended by a segmentation fault."""
    pytest.importorskip("tensorflow")
    program = """ as tf, torch
weight = torch.nn.Parameter(torch.ones(2))
torch.optim.SGD([weight], lr=0.1)
double = torch.compile(lambda x: 2 * x, backend="aot_eager")
print(double(torch.ones(1)).item(), float(tf.constant(1.0) + 1))
"""
    assert run(IMPORT + program) == (0, "2.0 2.0\n", "")


@pytest.mark.parametrize(("before", "after"), [("", "true"), ("false", "false")])
def test_of_a_gpu_tensorflow_takes_what_it_needs_unless_told_otherwise(before, after, monkeypatch):
    name = "TF_FORCE_GPU_ALLOW_GROWTH"
    monkeypatch.delenv(name, raising=False)
    if before:
        monkeypatch.setenv(name, before)
    program = f"import os; from labkit.noise import silence; silence(); print(os.environ[{name!r}])"
    assert run(program) == (0, f"{after}\n", "")


NOISY = """
import os
os.write(2, b'I0000 00:00:1.2 3 port.cc:153] oneDNN custom operations are on. You may\\n')
os.write(2, b'something is wrong\\n')
raise OSError('libcuda is missing')
"""


def test_where_a_processor_has_no_avx_the_reason_for_the_abort_is_seen(tmp_path):
    abort = "import os\nos.write(2, b'F0000 TensorFlow was compiled to use AVX')\nos.abort()\n"
    (tmp_path / "tensorflow.py").write_text(abort)
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags : fpu sse2 \n")
    program = f"""
import sys
from pathlib import Path
from labkit import noise
sys.path.insert(0, {str(tmp_path)!r})
noise._CPU = Path({str(tmp_path / "cpuinfo")!r})
noise.silence()
import tensorflow
"""
    status, _, errors = run(program)
    assert status != 0
    assert errors.startswith("F0000 TensorFlow was compiled to use AVX")


def test_what_an_import_writes_or_raises_comes_through(tmp_path):
    (tmp_path / "tensorflow.py").write_text(NOISY)
    status, _, errors = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORT}")
    assert status == 1
    assert "oneDNN" not in errors
    assert errors.startswith("something is wrong\n")
    assert errors.endswith("OSError: libcuda is missing\n")


def test_triton_is_loaded_before_tensorflow(tmp_path):
    """PyTorch's compiler is there only beside a PyTorch with CUDA: packages of both names tell the
    order."""
    (tmp_path / "triton" / "_C").mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "_C" / "__init__.py").touch()
    (tmp_path / "triton" / "_C" / "libtriton.py").write_text("print('triton')\n")
    (tmp_path / "tensorflow.py").write_text("print('tensorflow')\n")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORT}")
    assert done == (0, "triton\ntensorflow\n", "")
