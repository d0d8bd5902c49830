"""TensorFlow starts without a word and after Triton, and what it has to say is still heard."""

import os
import subprocess
import sys

import pytest
from labkit import noise

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


NOISY = """
import os
os.write(2, b'I0000 00:00:1.2 3 port.cc:153] oneDNN custom operations are on. You may\\n')
os.write(2, b'something is wrong\\n')
raise OSError('libcuda is missing')
"""


@pytest.mark.parametrize(
    ("flags", "held_back"), [("fpu sse2 avx avx2 ", True), ("fpu sse2 ", False)]
)
def test_where_an_import_will_abort_nothing_is_held_back(tmp_path, monkeypatch, flags, held_back):
    cpu = tmp_path / "cpuinfo"
    cpu.write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(noise, "_CPU", cpu)
    screen = os.fstat(2).st_ino
    seen = []
    noise._without_noise(lambda module: seen.append(os.fstat(2).st_ino != screen), None)
    assert seen == [held_back]


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
