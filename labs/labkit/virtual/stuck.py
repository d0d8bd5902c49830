"""What is told when the ranks of a virtual run cannot go on, failed, or ended with something left undone."""

from __future__ import annotations

from typing import NamedTuple

from labkit import launch
from labkit.errors import RankFailed

SHOWN = 4  # ranks named one by one; the others in a word
LEFT = 3


class Wait(NamedTuple):
    """Rank `rank` waits. what: in which call, for whom. place: on which line. for_: for these ranks."""

    rank: int
    what: str
    place: str
    for_: list[int]


def failed(rank: int, error: BaseException) -> BaseException:
    """What the caller of `cluster.run` gets for an exception of rank `rank`: as launch.run would tell it."""
    if isinstance(error, KeyboardInterrupt | RankFailed):
        return error
    return launch.raised(rank, launch.describe(error, "run", 0.0))


def deadlock(engine, eager: float, lanes: list) -> RankFailed:
    """Nobody can go on. lanes: those that wait or ask for ever. eager: bytes that a Send never waits for."""
    waits: dict[int, Wait] = {}
    for lane in sorted(lanes, key=lambda one: one is not one.state.lane):
        waits.setdefault(lane.state.rank, _wait(engine, lane))
    waits = dict(sorted(waits.items()))
    chain, circle = _chain(waits)
    text = f"deadlock: {_in_short([waits[rank] for rank in chain])}"
    if not circle:
        ended = waits[chain[0]].for_
        text += f", but {ranks_shown(ended)} {'have' if len(ended) > 1 else 'has'} ended"
    others = [rank for rank in waits if rank not in chain]
    if others:
        one = waits[others[0]]
        text += f"; {ranks_shown(others)} wait{'s' * (len(others) == 1)} too, "
        text += f"{f'rank {one.rank} ' * (len(others) > 1)}in {one.what}{one.place}"
    text += "; nobody can go on."
    if any(waits[rank].what.startswith(("Send ", "send ")) for rank in chain):
        text += f" A Send of more than {eager:,.0f} bytes waits until its receive is called."
    line_ = waits[chain[0]].place.strip(" ()")
    return RankFailed(text, rank=chain[0], kind="Deadlock", message=text, line=line_)


def left_undone(engine) -> RankFailed | None:
    """Messages that nobody received and requests that nobody waited for, when all ranks have ended."""
    requests = [(state.rank, one) for state in engine.states for one in state.pending]
    messages = [one for state in engine.states for one in state.arrivals]
    messages += [
        (channel, one)
        for state in engine.states
        for channel in state.incoming.values()
        for one in channel.mail
    ]
    if requests:
        rank = requests[0][0]
        told = [f"the {one.told()} of rank {rank}{brackets(one.line())}" for rank, one in requests[:LEFT]]
        what = (
            "was never waited for: call its Wait"
            if len(requests) == 1
            else "were never waited for: call their Wait"
        )
        text = f"{_and_so_on(told, len(requests))} {what} before the function returns."
    elif messages:
        rank = messages[0][0].source.rank
        told = [
            f"rank {channel.source.rank} sent rank {channel.dest.rank} {message[4]} bytes with tag "
            f"{message[0]}{brackets(line(message[7]))}"
            for channel, message in messages[:LEFT]
        ]
        it = "it" if len(messages) == 1 else "them"
        text = f"{_and_so_on(told, len(messages))}, and nobody received {it}."
    else:
        return None
    return RankFailed(text, rank=rank, kind="LeftUndone", message=text)


def line(mark: tuple | None) -> str:
    """`line 3 of ring: comm.Send(…)` of a (code, offset in its instructions); "" for labkit's own code."""
    if mark is None:
        return ""
    code, offset = mark
    starts = [(start, number) for start, _, number in code.co_lines() if start <= offset and number]
    frame = launch.Frame(code.co_filename, max(starts)[1] if starts else code.co_firstlineno, code.co_name)
    return frame.stuck_place() if frame.learners else ""


def line_of(frame) -> str:
    """The same of the learner's innermost line in a chain of frames that begins at `frame`."""
    own = launch.innermost([launch.Frame(*one) for one in launch.stack(frame)])
    return own.stuck_place() if own else ""


def _wait(engine, lane) -> Wait:
    rank, everyone = lane.state.rank, [state.rank for state in engine.states if state is not lane.state]
    place = brackets(line_of(lane.thread.gr_frame))
    if lane.waits is None:
        return Wait(rank, "a call", place, everyone)
    call, comm, way, peer, tag = (*lane.waits, None, None, None, None)[:5]
    collective = getattr(comm, "_collective", None)  # of a communicator's own messages inside a collective
    if collective is not None:
        what, for_ = collective.waits(call if peer is None else collective.name, peer)
        return Wait(rank, what, place or brackets(line(getattr(comm, "_mark", None))), for_)
    if peer is None or not isinstance(peer, int) or not 0 <= peer < comm.size:
        return Wait(rank, f"{call} from any rank" if way == "from" else str(call), place, everyone)
    peer = comm._members[peer]
    what = f"{call} {way} {'itself' if peer == rank else f'rank {peer}'}"
    if tag is not None and tag >= 0:
        what += f" with tag {tag}"
        channel = lane.state.incoming.get((comm._context, peer))
        there = [message[0] for where, message in lane.state.arrivals if where is channel]
        there += [message[0] for message in channel.mail] if channel else []
        if there and way == "from" and tag not in there:
            place += f" while its message with tag {there[0]} lies there untaken"
    return Wait(rank, what, place, [peer])


def _chain(waits: dict[int, Wait]) -> tuple[list[int], bool]:
    """(ranks that wait in a circle, True), or ([a rank that waits for ranks that ended], False)."""
    seen: set[int] = set()
    ends = []
    for start in waits:
        path: list[int] = []
        rank: int | None = start
        while rank is not None and rank not in seen:
            seen.add(rank)
            path.append(rank)
            rank = next((one for one in waits[rank].for_ if one in waits), None)
        if rank in path:
            circle = path[path.index(rank) :]
            first = circle.index(min(circle))
            return circle[first:] + circle[:first], True
        if rank is None:
            ends.append(path[-1])
    return ends[:1], False


def _in_short(waits: list[Wait]) -> str:
    shown = waits if len(waits) <= SHOWN else [*waits[: SHOWN - 2], None, waits[-1]]
    parts, before = [], ""
    for one in shown:
        if one is None:
            parts.append("…")
            continue
        place = " (the same line)" if one.place and one.place == before else one.place
        waits = "repeats" if one.what.startswith(("Test", "Iprobe")) else "waits in"
        parts.append(f"rank {one.rank} {waits} {one.what}{place}")
        before = one.place
    return ", ".join(parts)


def ranks_shown(ranks: list[int]) -> str:
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    if len(ranks) > SHOWN:
        return f"{len(ranks)} ranks"
    return launch.ranks_text(ranks)


def brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _and_so_on(told: list[str], all_: int) -> str:
    text = ", ".join(told)
    text = text[0].upper() + text[1:] if text.startswith("the ") else text
    return text if all_ == len(told) else f"{text} and {all_ - len(told)} more"
