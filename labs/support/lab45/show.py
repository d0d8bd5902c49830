"""Results of lab 45 on several nodes, as tables; the best line of autotune's log."""

from __future__ import annotations

import csv

from labkit import cluster, record

from support.lab45.ranks import PACKED


def best(log: str) -> tuple[int, float]:
    """(threshold [bytes], cycle time [ms]) of the highest score in the text of autotune's log.

    It has a column for each knob, the threshold in MiB. A finished log says the best once more in its last
    line; one that was cut short does not.
    """
    rows = csv.DictReader(log.splitlines(), skipinitialspace=True)
    row = max(rows, key=lambda row: float(row["score"]))
    return int(float(row["tensor_fusion_threshold"]) * 2**20), float(row["cycle_time_ms"])


def between_nodes(lab: str) -> tuple:
    """Bytes that a node sent and seconds, over float32's, as tables of nodes x ways; and whose they are.

    Of the newest job that ran on several nodes, else of the kit's reference.
    """
    frame, whose = cluster.records_or_reference(lab, "exchange")
    if not (frame["nodes"] > 1).any():
        frame = record.reference(lab, "exchange")
        whose = "the kit's reference"
    frame = frame[(frame["nodes"] > 1) & (frame["way"] != PACKED)]
    table = frame.pivot_table(index="nodes", columns="way", values=["float32_vectors", "seconds"])
    shares = [table[name].div(table[name]["float32"], axis=0) for name in ("float32_vectors", "seconds")]
    return *shares, whose
