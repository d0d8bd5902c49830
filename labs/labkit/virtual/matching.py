"""Which collective calls belong together: by communicator and by the order in which each rank makes them.

MPI leaves it to chance what happens when ranks of a communicator call different collectives, or the same with
another root, length, type or operation. Here the second rank to come is told at once.
"""

from __future__ import annotations

from itertools import count

from labkit import launch
from labkit.errors import RankFailed
from labkit.virtual import explain, stuck


class Ledger:
    """What the ranks of one run share: collectives that not all have called yet, and free contexts."""

    def __init__(self):
        self.calls: dict[tuple[int, int], Call] = {}
        self.contexts = count(2, 2)  # context + 1 is that of the communicator's collectives


class Call:
    """One collective of one communicator: what the first rank asked for, and who has come.

    terms: what must be the same on all ranks, by name. values: what ranks have brought (see `agree`).
    """

    __slots__ = (
        "first",
        "mark",
        "members",
        "name",
        "number",
        "result",
        "terms",
        "values",
        "waiting",
    )

    def __init__(self, comm, name: str, number: int, terms: dict[str, object]):
        self.name, self.number, self.terms = name, number, terms
        self.members, self.first, self.mark = comm._members, comm.rank, explain.mark()
        self.values: dict[int, object] = {}
        self.waiting: list = []
        self.result: object = None

    def missing(self) -> list[int]:
        """World ranks that have not called it."""
        return [member for rank, member in enumerate(self.members) if rank not in self.values]

    def waits(self, call: str, peer: int | None) -> tuple[str, list[int]]:
        """For a rank that is stuck in it: (its call in words, the world ranks that it waits for)."""
        missing = self.missing()
        if missing:
            have = "has" if len(missing) == 1 else "have"
            return f"{call}, which {stuck.ranks_shown(missing)} {have} not called", missing
        return call, list(self.members) if peer is None else [self.members[peer]]


def enter(comm, name: str, value: object = None, **terms: object) -> Call:
    """Rank `comm.rank` calls collective `name`. An error where another rank called something else there.

    value: what `agree` gives to all.
    """
    calls, done = ledger(comm._transport).calls, comm._lane.state.collectives
    number = done.get(comm._context, 0)
    done[comm._context] = number + 1
    call = calls.get((comm._context, number))
    if call is None:
        call = calls[comm._context, number] = Call(comm, name, number, terms)
    elif call.name != name or call.terms != terms:
        raise _mismatch(comm, call, name, terms)
    call.values[comm.rank] = value
    if len(call.values) == comm.size:
        del calls[comm._context, number]
    return call


def agree(inner, call: Call) -> dict[int, object]:
    """Wait until all ranks have entered `call`. Returns what they brought, by rank. Takes no message or time.

    For what is set up once: communicators and their like. inner: see Collectives._inside.
    """
    lane = inner._lane
    lane.sync()  # so that the last to come here is also the last in virtual time
    if len(call.waiting) == inner.size - 1:
        for one in call.waiting:
            one.wake(lane.now)
        call.waiting.clear()
    else:
        call.waiting.append(lane)
        lane.waits = (call.name, inner, "with", None)
        lane.block()
        lane.waits = None
    return call.values


def ledger(transport) -> Ledger:
    """The one Ledger of a run."""
    try:
        return transport.ledger
    except AttributeError:
        transport.ledger = Ledger()
        return transport.ledger


_UNIT = {"count": "{} values", "dtype": "type {}"}


def _mismatch(comm, call: Call, name: str, terms: dict) -> RankFailed:
    mine, other, which = f"calls {name}", f"calls {call.name}", f" (this is number {call.number + 1})"
    if name == call.name:
        differ = [key for key in terms if terms[key] != call.terms.get(key)]
        mine += f" with {_told(differ, terms)}"
        other, which = f"with {_told(differ, call.terms)}", ""
    rank, first = comm._members[comm.rank], call.members[call.first]
    here, there = stuck.line(explain.mark()), stuck.line(call.mark)
    text = (
        f"rank {rank} {mine}{stuck.brackets(here)}, but rank {first} {other}"
        f"{stuck.brackets('the same line' if here == there else there)}{_inside(comm)}. "
        f"All ranks of a communicator make the same collective calls in the same order{which}."
    )
    return RankFailed(text, rank=rank, kind="Mismatch", message=text, line=here)


def _inside(comm) -> str:
    members = comm._members
    if len(members) == len(comm._lane.engine.states):
        return ""
    if len(members) > stuck.SHOWN:
        return f", on a communicator of {len(members)} ranks"
    return f", on the communicator of {launch.ranks_text(members)}"


def _told(keys: list[str], terms: dict) -> str:
    values = [list(terms[key]) if isinstance(terms[key], tuple) else terms[key] for key in keys]
    return " and ".join(
        _UNIT.get(key, key + " {}").format(value) for key, value in zip(keys, values, strict=True)
    )
