"""What lab 41 prints, draws and records of images per second."""

from __future__ import annotations

from collections.abc import Mapping

from labkit import cluster, plots, record, timing


def crowding(place) -> str:
    """A sentence: whether ranks share cores or GPUs, so that more of them cannot be faster.

    place: of `facts`.
    """
    there = f"{place.ranks} ranks on {place.units} {place.kind}"
    if place.crowd <= 1:
        return f"{there}: none has to share."
    return f"{there}, up to {place.crowd:.3g} on each: they take turns, so more ranks cannot be faster here."


def keep(facts: Mapping[str, object]) -> None:
    """Records `weak`: a step of all ranks, each with as many pictures whatever their number.

    facts: of the lab's `measure`, with both controls in `times`.
    """
    place = facts["place"]
    times = facts["times"]
    plain = ("network", "side", "images", "gradient_bytes", "device", "staged", "library")
    record.add(
        "weak",
        seconds=times["together"],
        ranks=place.ranks,
        nodes=place.nodes,
        images_per_second=facts["rate"],
        alone=times["alone"],
        side_by_side=times["side by side"],
        efficiency=timing.Ratio(times["alone"], times["together"]),
        crowd=place.crowd,
        **{name: facts[name] for name in plain},
    )


def show_rates(facts: Mapping[str, object]):
    """Images per second of one rank alone, of all with and without sums, and of as many that lose nothing."""
    place = facts["place"]
    times = facts["times"]
    alone = facts["images"] / timing.samples_of(times["alone"])
    apart = facts["images"] * place.ranks / timing.samples_of(times["side by side"])
    together = facts["images"] * place.ranks / timing.samples_of(times["together"])
    rates = {
        "1 rank\nalone": alone,
        f"{place.ranks} ranks\ntogether": together,
        f"{place.ranks} ranks\nside by side": apart,
        f"{place.ranks} times\n1 rank alone": place.ranks * alone,
    }
    bars = {name: {"images per second": samples} for name, samples in rates.items()}
    title = f"{facts['network']}: what ranks lose side by side, and by the sums"
    if place.crowd > 1:
        title += f"\n({place.crowd:.3g} of them on each of the {place.kind})"
    return plots.bars(bars, ylabel="images per second", title=title, name="images per second")


def show_ways(ways: Mapping[str, Mapping[str, object]]):
    """Prints and draws images per second by ranks and threads, and records each as `threads`.

    ways: what is shown -> facts of the lab's `measure`.
    """
    bars = {}
    for name, facts in ways.items():
        place = facts["place"]
        step = facts["times"]["together"]
        bars[name] = {"images per second": facts["images"] * place.ranks / timing.samples_of(step)}
        print(f"{name:32} {facts['rate']:6.1f} images/s; a step takes {step}")
        fields = {"way": name, "images": facts["images"], "side": facts["side"], "network": facts["network"]}
        record.add("threads", step=step, images_per_second=facts["rate"], ranks=place.ranks, **fields)
    title = f"The same cores, as ranks or as threads ({next(iter(ways.values()))['network']})"
    return plots.bars(bars, ylabel="images per second", title=title, name="ranks or threads")


def show_study() -> None:
    """Prints images per second by nodes and ranks: of the newest job of this lab, else the kit's own."""
    frame, whose = cluster.records_or_reference("41", "weak")
    if frame.empty:
        return
    columns = ["nodes", "ranks", "network", "side", "images", "images_per_second", "efficiency", "device"]
    rows = frame[columns].sort_values(["nodes", "ranks"])
    print(f"{whose}:")
    print(rows.round(2).to_string(index=False))
