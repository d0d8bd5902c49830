"""What lab 36 shows of steps on real ranks, and over a slow link."""

from __future__ import annotations


def show(times: dict, what: dict, where, ranks: int) -> None:
    """Plot and records of what `measure` found: one record `step` for each way."""
    from labkit import plots, record, world

    print(where.describe())
    print(f"{what['images']} images a rank, {what['bytes'] / 1e6:.1f} MB of gradients")
    for name, time in times.items():
        record.add("step", way=name, ranks=ranks, seconds=time, **what, **where.fields())
    crowded = f", on {world.cores()} cores" if ranks > world.cores() else ""
    plots.spread(times, title=f"A step on {ranks} real ranks{crowded}")


def over_slow_link(repeat: int) -> tuple[dict, str]:
    """{way: [seconds]} of a step between two nodes (five numbers with the quartiles of all runs); and whose.

    Where there is a cluster, from a job that runs the lab on two nodes; else the kit's reference results. {}
    if there is neither.
    """
    from labkit import cluster, world

    job = None
    if cluster.here() and not world.launcher():
        job = cluster.submit("36", nodes=2, ranks_per_node=1, settings={"repeat": repeat})
        job.wait()
    frame, whose = cluster.records_or_reference("36", "step", job)
    if frame.empty:
        return (
            {},
            "no measurement: neither a job of yours nor a reference (`make tabletop`, then run this again)",
        )
    rows = frame.groupby("way", sort=False).last()
    low = rows["seconds_q1"]
    high = rows["seconds_q3"]
    seconds = {way: [low[way], low[way], rows["seconds"][way], high[way], high[way]] for way in rows.index}
    return seconds, whose
