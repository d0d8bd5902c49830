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

    facts: of the lab's `measure`, with its control.
    """
    place = facts["place"]
    plain = ("network", "side", "images", "gradient_bytes", "device", "staged", "library")
    record.add(
        "weak",
        seconds=facts["step"],
        ranks=place.ranks,
        nodes=place.nodes,
        images_per_second=facts["rate"],
        alone=facts["kept"].a,
        efficiency=facts["kept"],
        crowd=place.crowd,
        **{name: facts[name] for name in plain},
    )


def show_rates(facts: Mapping[str, object]):
    """Images per second of one rank alone, of all, and of as many that would lose nothing."""
    place = facts["place"]
    alone = facts["images"] / timing.samples_of(facts["kept"].a)
    together = facts["images"] * place.ranks / timing.samples_of(facts["step"])
    rates = {
        "1 rank alone": alone,
        f"{place.ranks} ranks": together,
        f"{place.ranks} times 1 rank": place.ranks * alone,
    }
    bars = {name: {"images per second": samples} for name, samples in rates.items()}
    title = f"{facts['network']} on ranks"
    if place.crowd > 1:
        title += f", {place.crowd:.3g} of them on each of the {place.kind}"
    return plots.bars(bars, ylabel="images per second", title=title, name="images per second")


def show_ways(ways: Mapping[str, Mapping[str, object]]):
    """Prints and draws images per second by ranks and threads, and records each as `threads`.

    ways: what is shown -> facts of the lab's `measure`.
    """
    bars = {}
    for name, facts in ways.items():
        place = facts["place"]
        samples = facts["images"] * place.ranks / timing.samples_of(facts["step"])
        bars[name] = {"images per second": samples}
        print(f"{name:32} {facts['rate']:6.1f} images/s; a step takes {facts['step']}")
        fields = {"way": name, "images": facts["images"], "side": facts["side"], "network": facts["network"]}
        record.add(
            "threads", step=facts["step"], images_per_second=facts["rate"], ranks=place.ranks, **fields
        )
    title = f"The same cores: ranks or threads ({next(iter(ways.values()))['network']})"
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
