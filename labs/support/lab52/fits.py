"""The numbers of a step-time model that suit published rows best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from labkit.errors import LabError

from support.lab52.rows import Row

# Where the search begins, and its unit: seconds per byte for each network and inside a node, seconds of a
# round, share of a step that a straggler takes longer.
PER_BYTE = 0.2e-9
BEGIN = {"inside": PER_BYTE, "round": 10e-6, "straggler": 0.01}
MOST = 1000.0  # no number grows beyond so many of its units
SOFT = 0.1  # errors beyond 10 % count less and less: one odd row is not to decide


class Learned(dict[str, float]):
    """The numbers of a model, by name. A network that is not there ends in a sentence, not in a KeyError."""

    def __missing__(self, name: str) -> float:
        networks = [known for known in self if known not in BEGIN]
        raise LabError(
            f"Nothing is known of network {name!r}: the fit has seen {', '.join(networks) or 'none'} "
            "between nodes. (Within one node, no network is asked for.)"
        )


Model = Callable[[Row, Learned], float]


def fit(step: Model, rows: Sequence[Row]) -> Learned:
    """The numbers with which step(row, numbers) comes nearest to the steps of these rows, and no others.

    Returns {network: seconds per byte, …, "inside": seconds per byte, "round": seconds, "straggler": share}.
    A network that no row uses between nodes is not in it. Least squares of the logarithms of predicted over
    published, softened (scipy.optimize.least_squares, soft_l1); no number is below 0. LabError without rows.
    """
    from scipy.optimize import least_squares

    rows = [row for row in rows if row.step is not None]
    if not rows:
        raise LabError("A fit needs rows with published images per second; there are none.")
    networks = {row.network: PER_BYTE for row in rows if row.nodes > 1}
    units = {**networks, **BEGIN}

    def numbers(scaled: np.ndarray) -> Learned:
        pairs = zip(units.items(), scaled, strict=True)
        return Learned({name: float(unit * factor) for (name, unit), factor in pairs})

    def misses(scaled: np.ndarray) -> list[float]:
        learned = numbers(scaled)
        return [float(np.log(step(row, learned) / row.step)) for row in rows]

    best = least_squares(misses, np.ones(len(units)), bounds=(0, MOST), loss="soft_l1", f_scale=SOFT)
    return numbers(best.x)


def without_each(step: Model, rows: Sequence[Row]) -> dict[str, Learned]:
    """For each system: the numbers fitted to the rows of all others. The fit never sees the system itself."""
    systems = dict.fromkeys(row.system for row in rows)
    return {system: fit(step, [row for row in rows if row.system != system]) for system in systems}
