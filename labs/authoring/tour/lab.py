"""One lab of the tour, in a process of its own: execute the notebook, write its page.

`python -m authoring.tour.lab JOB.json`, with the keys notebook, out, page, title, parameters, folder, parent.
Status 0: it ran; 1: a cell failed (the executed notebook says which); other: it could not be run at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from labkit import launch

from authoring.tour import html


def main(job_file: str) -> int:
    """Run the job that this file describes."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    # If the tour is killed, this process goes with it; its kernel sees that and ends, and so do the ranks.
    launch.die_with_parent(job["parent"])
    import papermill

    status = 0
    try:
        papermill.execute_notebook(
            job["notebook"],
            job["out"],
            parameters=job["parameters"],
            cwd=job["folder"],
            kernel_name="python3",
            progress_bar=False,
            request_save_on_cell_execute=True,
        )
    except papermill.PapermillExecutionError:
        status = 1
    html.write(Path(job["out"]), Path(job["page"]), job["title"])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
