"""Which collective calls belong together: by communicator and by the order in which each rank makes
them.

MPI leaves it to chance what happens when ranks of a communicator call different collectives, or the
same with another root, length, type or operation. Here the second rank to come is told at once.
"""

from __future__ import annotations

from itertools import count

from labkit import launch
from labkit.errors import RankFailed

from virtual import explain, stuck

# A term in words, where it is not its name and value.
_UNIT = {"count": "{} values", "dtype": "type {}"}


class Ledger:
    """What the ranks of one run share: collectives that not all have called yet, and free
    contexts."""

    def __init__(self):
        self.calls: dict[tuple[int, int], Call] = {}  # (context, number in it) -> Call
        self.contexts = count(2, 2)  # context + 1 is that of the communicator's collectives


class Call:
    """One collective of one communicator: what the first rank asked for, and who has come.

    terms: what must be the same on all ranks, by name. values: what ranks have brought (see
    `agree`). waiting: lanes in `agree`. result: what the first of them to go on has made for all.
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
        self.name = name
        self.number = number
        self.terms = terms
        self.members = comm.members
        self.first = comm.rank
        self.mark = explain.mark()
        self.values: dict[int, object] = {}
        self.waiting: list = []
        self.result: object = None

    def missing(self) -> list[int]:
        """World ranks that have not called it."""
        return [member for rank, member in enumerate(self.members) if rank not in self.values]

    def waits(self, call: str, peer: int | None) -> tuple[str, list[int]]:
        """For a rank that is stuck in it: (its call in words, the world ranks that it waits
        for)."""
        missing = self.missing()
        if missing:
            have = "has" if len(missing) == 1 else "have"
            return f"{call}, which {stuck.ranks_shown(missing)} {have} not called", missing
        return call, list(self.members) if peer is None else [self.members[peer]]


def enter(comm, name: str, value: object = None, **terms: object) -> Call:
    """Rank `comm.rank` calls collective `name`. An error where another rank called something else
    there.

    value: what `agree` gives to all.
    """
    calls = comm.transport.ledger.calls
    done = comm.state.collectives
    number = done.get(comm.context, 0)
    done[comm.context] = number + 1
    call = calls.get((comm.context, number))
    if call is None:
        call = calls[comm.context, number] = Call(comm, name, number, terms)
    elif call.name != name or call.terms != terms:
        raise _mismatch(comm, call, name, terms)
    call.values[comm.rank] = value
    if len(call.values) == comm.size:
        del calls[comm.context, number]
    return call


def agree(inner, call: Call) -> dict[int, object]:
    """Wait until all ranks have entered `call`. Returns what they brought, by rank. Takes no
    message or time.

    For what is set up once: communicators and their like. inner: see Collectives.inside.
    """
    lane = inner.lane
    lane.sync()  # so that the last to come here is also the last in virtual time
    if len(call.waiting) == inner.size - 1:
        for waiting in call.waiting:
            waiting.wake(lane.now)
        call.waiting.clear()
    else:
        call.waiting.append(lane)
        lane.waits = (call.name, inner, "with", None)
        lane.block()
        lane.waits = None
    return call.values


def _mismatch(comm, call: Call, name: str, terms: dict) -> RankFailed:
    if name == call.name:
        differ = [key for key in terms if terms[key] != call.terms.get(key)]
        own = f"calls {name} with {_in_words(differ, terms)}"
        other = f"with {_in_words(differ, call.terms)}"
        which = ""
    else:
        own = f"calls {name}"
        other = f"calls {call.name}"
        which = f" (this is number {call.number + 1})"
    rank = comm.members[comm.rank]
    first = call.members[call.first]
    here = stuck.line(explain.mark())
    there = stuck.line(call.mark)
    text = (
        f"rank {rank} {own}{stuck.brackets(here)}, but rank {first} {other}"
        f"{stuck.brackets('the same line' if here == there else there)}{_on_which(comm)}. "
        f"All ranks of a communicator make the same collective calls in the same order{which}."
    )
    return RankFailed(text, rank=rank, kind="Mismatch", message=text, line=here)


def _on_which(comm) -> str:
    """`, on the communicator of ranks 2, 3`; "" for that of all ranks."""
    members = comm.members
    if len(members) == len(comm.lane.engine.states):
        return ""
    if len(members) > stuck.SHOWN:
        return f", on a communicator of {len(members)} ranks"
    return f", on the communicator of {launch.ranks_text(members)}"


def _in_words(keys: list[str], terms: dict) -> str:
    """`4 values and type float32`, `root 1`."""
    parts = []
    for key in keys:
        value = list(terms[key]) if isinstance(terms[key], tuple) else terms[key]
        parts.append(_UNIT.get(key, key + " {}").format(value))
    return " and ".join(parts)
