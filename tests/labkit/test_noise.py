"""TensorFlow starts without a word and after Triton, and what it has to say is still heard."""

import subprocess
import sys

import pytest

IMPORT = "from labkit.noise import silence; silence(); import tensorflow"


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_tensorflow_is_imported_without_a_word():
    pytest.importorskip("tensorflow")
    done = run(f"{IMPORT} as tf; print(float(tf.constant(1.0) + 1))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_what_an_import_writes_or_raises_comes_through(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'I0000 00:00:1.2 3 port.cc:153] oneDNN custom operations are on."
        " You may\\n')\nos.write(2, b'something is wrong\\n')\nraise OSError('libcuda is"
        " missing')\n"
    )
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORT}")
    assert done.returncode == 1
    assert "oneDNN" not in done.stderr
    assert done.stderr.startswith("something is wrong\n")
    assert done.stderr.endswith("OSError: libcuda is missing\n")


def test_triton_is_loaded_before_tensorflow(tmp_path):
    """PyTorch's compiler is there only beside a PyTorch with CUDA: packages of both names tell the
    order."""
    (tmp_path / "triton" / "_C").mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "_C" / "__init__.py").touch()
    (tmp_path / "triton" / "_C" / "libtriton.py").write_text("print('triton')\n")
    (tmp_path / "tensorflow.py").write_text("print('tensorflow')\n")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {IMPORT}")
    assert (done.returncode, done.stdout) == (0, "triton\ntensorflow\n"), done.stderr


@pytest.mark.slow
def test_pytorch_compiles_after_tensorflow_was_imported():
    """With a PyTorch built with CUDA, in the other order, this ended by a segmentation fault."""
    done = run(
        f"{IMPORT} as tf, torch\n"
        "weight = torch.nn.Parameter(torch.ones(2))\n"
        "torch.optim.SGD([weight], lr=0.1)\n"
        "double = torch.compile(lambda x: 2 * x, backend='aot_eager')\n"
        "print(double(torch.ones(1)).item(), float(tf.constant(1.0) + 1))\n"
    )
    assert (done.returncode, done.stdout) == (0, "2.0 2.0\n"), done.stderr
