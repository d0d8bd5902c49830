"""One lab of the tour, in a process of its own: execute the notebook, write its page.

`python -m authoring.tour.lab NOTEBOOK EXECUTED PAGE TITLE FOLDER PARAMETERS PARENT`; PARAMETERS are
JSON. Status 0: it ran; 1: a cell failed (the executed notebook says which); other: it could not be
run at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from labkit import launch

from authoring.tour import html


def main(
    notebook: str, executed: str, page: str, title: str, folder: str, parameters: str, parent: str
) -> int:
    """Run the notebook in `folder` for the tour whose process is `parent`."""
    # If the tour is killed, this process goes with it; its kernel sees that and ends, and so do the
    # ranks.
    launch.die_with_parent(int(parent))
    import papermill

    status = 0
    try:
        papermill.execute_notebook(
            notebook,
            executed,
            parameters=json.loads(parameters),
            cwd=folder,
            kernel_name="python3",
            progress_bar=False,
            request_save_on_cell_execute=True,
        )
    except papermill.PapermillExecutionError:
        status = 1
    html.write(Path(executed), Path(page), title)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
