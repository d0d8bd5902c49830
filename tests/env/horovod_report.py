"""What the two scripts of test_horovod.py share: every check on every rank, all results printed by
rank 0."""

from __future__ import annotations

import json
import sys
import traceback


def report(hvd, checks, gather) -> None:
    """Print `RESULT {check: [value by rank]}`. A check that raises is told by its rank and has
    failed."""
    results = {}
    for check in checks:
        try:
            value = check()
        except Exception:
            print(traceback.format_exc(), file=sys.stderr, flush=True)
            value = {"failed": check.__name__}
        results[check.__name__] = gather(value)
    if hvd.rank() == 0:
        print("RESULT " + json.dumps(results), flush=True)
