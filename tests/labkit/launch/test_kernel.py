"""launch.run in real Jupyter kernels that are interrupted, restarted, killed."""

from __future__ import annotations

import pytest
from jupyter_client.manager import start_new_kernel

from tests.helpers import until
from tests.labkit.launch.leftovers import marked

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]
ENDLESS = """
from labkit import launch
def endless(comm):
    import subprocess
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("up", flush=True)
    comm.recv()
"""


class Notebook:
    """A real kernel, as JupyterLab starts one."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(kernel_name="python3", startup_timeout=120)

    def send(self, code: str) -> str:
        """Begin a cell. If it fails, the kernel does not drop what comes next, as it does by
        default."""
        return self.client.execute(code, stop_on_error=False)

    def run(self, code: str) -> dict:
        """Execute a cell to its end: what it printed, and its reply."""
        text: list[str] = []

        def note(message):
            text.append(
                message["content"].get("text") or "\n".join(message["content"].get("traceback", []))
            )

        reply = self.client.execute_interactive(code, timeout=120, output_hook=note)["content"]
        return {**reply, "text": "".join(text)}

    def wait_until_up(self, ranks: int = 2) -> None:
        seen = ""
        while seen.count("] up") < ranks:
            content = self.client.get_iopub_msg(timeout=60)["content"]
            seen += content.get("text", "")

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook():
    made = Notebook()
    yield made
    made.end()


CELL = """
from labkit import launch, world
factor = 3

def scaled(comm):
    print('hi')
    return factor * comm.rank

print(launch.run(scaled, ranks=2), world.launcher())
"""
WRONG = """def wrong(comm):
    if comm.rank == 1:
        raise ValueError('no')
    comm.Barrier()
launch.run(wrong, ranks=2)
"""
IN_A_STEP = """
import os
os.environ.update(SLURM_STEP_ID='0', SLURM_PROCID='0', SLURM_STEP_NUM_TASKS='2', SLURM_JOB_ID='1')
print(world.launcher(), launch.run(lambda comm: comm.size, ranks=2))
"""


def test_functions_errors_and_lines_of_cells(notebook):
    assert set(notebook.run(CELL)["text"].splitlines()) == {"[0] hi", "[1] hi", "[0, 3] None"}
    reply = notebook.run(WRONG)
    assert reply["status"] == "error"
    sentence = "rank 1 failed: ValueError: no  (line 3 in wrong: raise ValueError('no'))"
    assert reply["text"].strip() == sentence  # and no traceback
    reply = notebook.run("launch.run(lambda comm: comm.recv(), ranks=2, timeout=1)")
    sentence = "after 1 s without an end: ranks 0, 1 wait in line 1 of <lambda>: launch.run(lambda "
    assert " ".join(reply["text"].split()).startswith(sentence.strip())
    # A kernel inside of a step of Slurm's is alone.
    assert notebook.run(IN_A_STEP)["text"] == "None [2, 2]\n"


def test_interrupting_a_cell(notebook, nothing_left):
    asked = notebook.send(ENDLESS + "launch.run(endless, ranks=2)")
    notebook.wait_until_up()
    notebook.manager.interrupt_kernel()
    reply = notebook.client.get_shell_msg(timeout=60)
    while reply["parent_header"]["msg_id"] != asked:
        reply = notebook.client.get_shell_msg(timeout=60)
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert until(lambda: len(marked(nothing_left)) <= 1)  # the kernel
    # And it goes on.
    assert notebook.run("print(launch.run(lambda: 1, ranks=2))")["text"] == "[1, 1]\n"


@pytest.mark.parametrize("how", ["restart", "kill", "shutdown"])
def test_a_kernel_that_goes_away(notebook, nothing_left, how):
    notebook.send(ENDLESS + "launch.run(endless, ranks=2)")
    notebook.wait_until_up()
    if how == "restart":
        notebook.manager.restart_kernel(now=True)
        assert until(lambda: len(marked(nothing_left)) == 1)
    elif how == "shutdown":
        notebook.manager.shutdown_kernel()
    else:
        notebook.manager.provisioner.process.kill()
    assert until(lambda: len(marked(nothing_left)) <= 1)
