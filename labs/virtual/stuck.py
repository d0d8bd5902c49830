"""What is told when the ranks of a virtual run cannot go on, failed, or ended with something left
undone."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

from labkit import launch
from labkit.errors import RankFailed

SHOWN = 4  # ranks named one by one; the others in a word
LEFT = 3  # messages or requests left undone that are named


class Wait(NamedTuple):
    """Rank `rank` waits. what: in which call, for whom. place: on which line. for_: for these
    ranks."""

    rank: int
    what: str
    place: str
    for_: list[int]


def failed(rank: int, error: BaseException) -> BaseException:
    """What the caller of `cluster.run` gets for an exception of rank `rank`: as launch.run would
    tell it."""
    if isinstance(error, KeyboardInterrupt | RankFailed):
        return error
    return launch.raised(rank, launch.describe(error, "run", 0.0))


def deadlock(engine, eager: float, lanes: list) -> RankFailed:
    """Nobody can go on. lanes: those that wait or ask for ever. eager: bytes that a Send never
    waits for."""
    waits: dict[int, Wait] = {}
    for lane in sorted(lanes, key=lambda lane: lane is not lane.state.lane):  # programs first
        waits.setdefault(lane.state.rank, _wait(engine, lane))
    waits = dict(sorted(waits.items()))
    chain, circle = _chain(waits)
    text = f"deadlock: {_in_short([waits[rank] for rank in chain])}"
    if not circle:
        ended = waits[chain[0]].for_
        text += f", but {ranks_shown(ended)} {'have' if len(ended) > 1 else 'has'} ended"
    others = [rank for rank in waits if rank not in chain]
    if others:
        first = waits[others[0]]
        if len(others) == 1:
            text += f"; {ranks_shown(others)} waits too, in {first.what}{first.place}"
        else:
            text += (
                f"; {ranks_shown(others)} wait too, rank {first.rank} in {first.what}{first.place}"
            )
    text += "; nobody can go on."
    if any(waits[rank].what.startswith(("Send ", "send ")) for rank in chain):
        text += f" A Send of more than {eager:,.0f} bytes waits until its receive is called."
    where = waits[chain[0]].place.strip(" ()")
    return RankFailed(text, rank=chain[0], kind="Deadlock", message=text, line=where)


def left_undone(engine) -> RankFailed | None:
    """Messages that nobody received and requests that nobody waited for, when all ranks have
    ended."""
    requests = [(state.rank, request) for state in engine.states for request in state.pending]
    messages = []  # (channel, message)
    for state in engine.states:
        messages += state.arrivals
    for state in engine.states:
        for channel in state.incoming.values():
            messages += [(channel, message) for message in channel.mail]
    if requests:
        rank, text = requests[0][0], _forgotten(requests)
    elif messages:
        rank, text = messages[0][0].source.rank, _lost(messages)
    else:
        return None
    return RankFailed(text, rank=rank, kind="LeftUndone", message=text)


def _forgotten(requests: list) -> str:
    calls = [
        f"the {request.description()} of rank {rank}{brackets(request.line())}"
        for rank, request in requests[:LEFT]
    ]
    was = "was never waited for: call its Wait"
    if len(requests) > 1:
        was = "were never waited for: call their Wait"
    return f"{_and_so_on(calls, len(requests))} {was} before the function returns."


def _lost(messages: list) -> str:
    sendings = [
        f"rank {channel.source.rank} sent rank {channel.dest.rank} {message[4]} bytes with tag "
        f"{message[0]}{brackets(line(message[7]))}"
        for channel, message in messages[:LEFT]
    ]
    it = "it" if len(messages) == 1 else "them"
    return f"{_and_so_on(sendings, len(messages))}, and nobody received {it}."


def line(mark: tuple | None) -> str:
    """`line 3 of ring: comm.Send(…)` of a (code, offset in its instructions); "" for labkit's own
    code."""
    if mark is None:
        return ""
    code, offset = mark
    starts = [(start, number) for start, _, number in code.co_lines() if start <= offset and number]
    frame = launch.Frame(
        code.co_filename, max(starts)[1] if starts else code.co_firstlineno, code.co_name
    )
    return frame.stuck_place() if frame.learners else ""


def line_of(frame) -> str:
    """The same of the learner's innermost line in a chain of frames that begins at `frame`."""
    own = launch.innermost([launch.Frame(*entry) for entry in launch.stack(frame)])
    return own.stuck_place() if own else ""


def _wait(engine, lane) -> Wait:
    rank = lane.state.rank
    everyone = [state.rank for state in engine.states if state is not lane.state]
    place = brackets(line_of(lane.thread.gr_frame))
    if lane.waits is None:
        return Wait(rank, "a call", place, everyone)
    call, comm, way, peer, tag = (*lane.waits, None)[:5]
    if comm.collective is not None:  # its messages are those inside of a collective
        what, for_ = comm.collective.waits(call if peer is None else comm.collective.name, peer)
        return Wait(rank, what, place or brackets(line(comm.mark)), for_)
    if peer is None or not isinstance(peer, Integral) or not 0 <= peer < comm.size:
        return Wait(rank, f"{call} from any rank" if way == "from" else str(call), place, everyone)
    peer = comm.members[peer]
    what = f"{call} {way} {'itself' if peer == rank else f'rank {peer}'}"
    if tag is not None and tag >= 0:
        what += f" with tag {tag}"
        channel = lane.state.incoming.get((comm.context, peer))
        tags = [message[0] for arrived_by, message in lane.state.arrivals if arrived_by is channel]
        if channel is not None:
            tags += [message[0] for message in channel.mail]
        if tags and way == "from" and tag not in tags:
            place += f" while its message with tag {tags[0]} lies there untaken"
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
            rank = next((other for other in waits[rank].for_ if other in waits), None)
        if rank in path:
            circle = path[path.index(rank) :]
            first = circle.index(min(circle))
            return circle[first:] + circle[:first], True
        if rank is None:
            ends.append(path[-1])
    return ends[:1], False


def _in_short(waits: list[Wait]) -> str:
    shown = waits if len(waits) <= SHOWN else [*waits[: SHOWN - 2], None, waits[-1]]
    parts = []
    before = ""  # the place of the rank before
    for wait in shown:
        if wait is None:
            parts.append("…")
            continue
        place = " (the same line)" if wait.place and wait.place == before else wait.place
        does = "repeats" if wait.what.startswith(("Test", "Iprobe")) else "waits in"
        parts.append(f"rank {wait.rank} {does} {wait.what}{place}")
        before = wait.place
    return ", ".join(parts)


def ranks_shown(ranks: list[int]) -> str:
    """`rank 3`, `ranks 0, 2`, `ranks 1 to 7`, `12 ranks`."""
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    if len(ranks) > SHOWN:
        return f"{len(ranks)} ranks"
    return launch.ranks_text(ranks)


def brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _and_so_on(parts: list[str], count: int) -> str:
    """The first `parts` of `count`: `The isend to rank 1 …, the … and 5 more`."""
    text = ", ".join(parts)
    text = text[0].upper() + text[1:] if text.startswith("the ") else text
    return text if count == len(parts) else f"{text} and {count - len(parts)} more"
