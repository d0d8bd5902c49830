"""JupyterLab before Horovod: `make lab` opens it once all else is there, and compiling goes on
behind it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from env.install.steps import Step

# In the environment's folder, as is the number of the process that goes on.
LOG = "setup-logs/behind.log"
PID = "setup-logs/behind.pid"
# `import horovod` finds it as long as there is no package of that name.
STAND_IN = f'''"""In the place of Horovod while the set-up compiles it."""

import sys
from pathlib import Path

lines = Path(sys.prefix, "{LOG}").read_text(encoding="utf-8").split("\\n")
last = [line.strip() for line in lines if line.strip()][-1:] or ["it begins"]
raise ImportError(
    "Horovod is not here yet: it is compiled while you work, 3 to 10 minutes on two cores; "
    "labs before 40 do "
    f"without. The last line of .venv/{LOG} is: {{last[0]}}. Run this cell again "
    f"when it is there. Where "
    "that line tells of a failure, or JupyterLab was closed meanwhile, `make setup` compiles it."
)
'''


def stand_in(venv: Path) -> Path:
    """The file that says how far the compilation is."""
    return next(venv.glob("lib/python3.*/site-packages")) / "horovod.py"


def go_on(step: Step, venv: Path) -> None:
    """Return in a copy of this process, whose words go to LOG; this one ends, and make goes on to
    JupyterLab.

    The copy keeps the locks and the scratch folders that this process holds. SIGTERM ends it, and
    what it has started; `make lab` sends it when JupyterLab ends.
    """
    stand_in(venv).write_text(STAND_IN, encoding="utf-8")
    print(
        f"Horovod, for labs from 40 on, is compiled while you work: .venv/{LOG} says how far it is."
    )
    with (venv / LOG).open("w") as log, open(os.devnull) as nothing:
        sys.stdout.flush()
        copy = os.fork()
        if copy:
            (venv / PID).write_text(str(copy), encoding="utf-8")
            os._exit(0)  # what has to be cleared up is the copy's
        os.setsid()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    step.live = False
