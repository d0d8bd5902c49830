"""NCCL's double binary tree: which node is whose child, and an allreduce over both trees at once.

Each tree carries half of the vector. A node that has two children in one of them is a leaf of the other, so
that all nodes have about as much to send (NCCL since 2.4; its src/graph/trees.cc, here of 2.18.3).
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np
from labkit.errors import LabError

TURNS = 4  # a node that has two children sends four messages a slice: two up, as it is a leaf too, two down


class Node(NamedTuple):
    """A node's place in a tree: its parent (None at the root) and its children, numbers of nodes."""

    parent: int | None
    children: tuple[int, ...]


def trees(nodes: int) -> list[dict[int, Node]]:
    """Both trees, each {node: Node}, as NCCL builds them (ncclGetBtree, ncclGetDtree).

    The second is the first one mirrored, or, for an odd number of nodes, moved on by one node.
    """
    if nodes < 1:
        raise LabError(f"A tree of {nodes} nodes: give 1 or more.")
    first = {node: Node(_parent(nodes, node), _children(nodes, node)) for node in range(nodes)}

    def elsewhere(node: int) -> int:
        return (node + 1) % nodes if nodes % 2 else nodes - 1 - node

    second = {}
    for node, place in first.items():
        parent = None if place.parent is None else elsewhere(place.parent)
        second[elsewhere(node)] = Node(parent, tuple(elsewhere(child) for child in place.children))
    return [first, dict(sorted(second.items()))]


def _parent(nodes: int, node: int) -> int | None:
    """Its lowest bit moves up by one; or is left out, where there is no such node. 0 is the root."""
    if node == 0:
        return None
    bit = node & -node
    parent = (node ^ bit) | (bit << 1)
    return parent if parent < nodes else node ^ bit


def _children(nodes: int, node: int) -> tuple[int, ...]:
    """Those within half of the lowest bit on either side; 0 has one, the largest power of two there is."""
    if node == 0:
        return (1 << ((nodes - 1).bit_length() - 1),) if nodes > 1 else ()
    reach = (node & -node) >> 1
    if not reach:
        return ()
    below = node - reach
    while reach and node + reach >= nodes:
        reach >>= 1
    return (below, node + reach) if reach else (below,)


def depth(tree: dict[int, Node]) -> int:
    """Edges from the root to the node that is farthest from it."""
    deepest = 0
    for node in tree:
        edges = 0
        while tree[node].parent is not None:
            node = tree[node].parent
            edges += 1
        deepest = max(deepest, edges)
    return deepest


def turns(nodes: int) -> list[dict[int, int]]:
    """For each tree {child: 0 or 1}: the turn in which its parent sends to it, and it to its parent.

    In one turn no node sends to two nodes, and none receives from two: a card carries one message at a time
    each way. Two turns are enough (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
    broadcast, reduction and scan", Parallel Computing 35, 2009).
    """
    both = trees(nodes)
    edges = [(tree, child) for tree in (0, 1) for child in both[tree] if both[tree][child].parent is not None]
    rivals = {edge: [] for edge in edges}  # edges with which it must not share a turn
    for tree, child in edges:
        parent = both[tree][child].parent
        siblings = [(other, sibling) for other in (0, 1) for sibling in both[other][parent].children]
        rivals[tree, child] = [edge for edge in [*siblings, (1 - tree, child)] if edge in rivals]
    found: dict[tuple[int, int], int] = {}
    for first in edges:
        waiting = [(first, 0)]
        while waiting:
            edge, turn = waiting.pop()
            if edge not in found:
                found[edge] = turn
                waiting += [(rival, 1 - turn) for rival in rivals[edge] if rival != edge]
    return [{child: turn for (number, child), turn in found.items() if number == tree} for tree in (0, 1)]


class Message(NamedTuple):
    """One slice's way over one edge. source, dest: ranks; up: does it carry a sum towards the root?

    begin: the loop in which the first slice goes. turn: 0 to 3 between nodes, None in a node's chain.
    """

    tree: int
    source: int
    dest: int
    up: bool
    begin: int
    turn: int | None


@cache
def plan(nodes: int, g: int) -> tuple[Message, ...]:
    """All messages of one slice on nodes of g ranks: a chain in each node, the trees between their first."""
    messages = []
    for number, (tree, turn_of) in enumerate(zip(trees(nodes), turns(nodes), strict=True)):
        parents: dict[int, int] = {}
        for node, place in tree.items():
            parents |= {node * g + local: node * g + local - 1 for local in range(1, g)}
            if place.parent is not None:
                parents[node * g] = place.parent * g
        messages += _Tree(number, parents, {node * g: turn for node, turn in turn_of.items()}).messages()
    return tuple(messages)


class _Tree:
    """A tree of ranks. parents: {rank: rank}; turns: {rank: 0 or 1} of those whose parent is on another node.

    Sums go up in the turns 0 and 1, and down in 2 and 3.
    """

    def __init__(self, number: int, parents: dict[int, int], turns: dict[int, int]):
        self.number = number
        self.parents = parents
        self.turns = turns
        self.children: dict[int, list[int]] = {}
        for child, parent in parents.items():
            self.children.setdefault(parent, []).append(child)

    def messages(self) -> list[Message]:
        messages = []
        for child, parent in self.parents.items():
            for up in (True, False):
                ends = (child, parent) if up else (parent, child)
                messages.append(
                    Message(self.number, *ends, up, self._begin(child, up), self._turn(child, up))
                )
        return messages

    def _turn(self, child: int, up: bool) -> int | None:
        turn = self.turns.get(child)
        return None if turn is None else turn + (0 if up else 2)

    def _begin(self, child: int, up: bool) -> int:
        """The first loop in which the sender of this message has the first slice."""
        parent = self.parents[child]
        if up or parent not in self.parents:  # its sum is there when all children have sent theirs
            needed = [(below, True) for below in self.children.get(child if up else parent, [])]
        else:
            needed = [(parent, False)]
        return max((self._after(message, self._turn(child, up)) for message in needed), default=0)

    def _after(self, message: tuple[int, bool], turn: int | None) -> int:
        """The loop in which what that message brought can be sent on in `turn`.

        Messages of a chain are under way from the begin to the end of a loop.
        """
        arrives = self._turn(*message)
        same = arrives is not None and turn is not None and arrives < turn
        return self._begin(*message) + (0 if same else 1)


def allreduce(comm, vector, g: int, slices: int = 1) -> None:
    """Sum `vector` over all ranks, in place, over both trees.

    g: ranks of a node. slices: parts into which each half is cut; while one travels on, the next one comes.
    """
    halves = [np.array_split(half, slices) for half in np.array_split(vector, 2)]
    messages = plan(comm.size // g, g)
    own = _Own(comm, halves, messages)
    for loop in range(slices + max((message.begin for message in messages), default=0)):
        requests = own.begin_chain(loop)
        for turn in range(TURNS):
            own.exchange(loop, turn)
        own.end_chain(requests)


class _Own:
    """One rank's messages, and what it does with them. halves: of its vector, each a list of slices."""

    def __init__(self, comm, halves: list[list], messages: tuple[Message, ...]):
        self.comm = comm
        self.halves = halves
        self.out: dict[int | None, list[Message]] = {}  # turn -> messages
        self.into: dict[int | None, list[Message]] = {}
        for message in messages:
            if message.source == comm.rank:
                self.out.setdefault(message.turn, []).append(message)
            if message.dest == comm.rank:
                self.into.setdefault(message.turn, []).append(message)

    def begin_chain(self, loop: int) -> list[tuple]:
        """Messages to and from the neighbours in the node: (request, what to do when it has ended)."""
        requests = []
        for message, part in self._due(self.into, None, loop):
            box = np.empty_like(part)
            request = self.comm.Irecv(box, source=message.source, tag=message.tree)
            requests.append((request, partial(_take, message, part, box)))
        for message, part in self._due(self.out, None, loop):
            # A copy: before the request has ended another message may change the slice.
            request = self.comm.Isend(part.copy(), dest=message.dest, tag=message.tree)
            requests.append((request, None))
        return requests

    def end_chain(self, requests: list[tuple]) -> None:
        for request, then in requests:
            request.Wait()
            if then is not None:
                then()

    def exchange(self, loop: int, turn: int) -> None:
        """At most one message to another node, and one from another: those of this turn."""
        request = None
        for message, part in self._due(self.out, turn, loop):
            request = self.comm.Isend(part.copy(), dest=message.dest, tag=message.tree)
        for message, part in self._due(self.into, turn, loop):
            box = np.empty_like(part)
            self.comm.Recv(box, source=message.source, tag=message.tree)
            _take(message, part, box)
        if request is not None:
            request.Wait()

    def _due(self, messages: dict, turn: int | None, loop: int) -> list[tuple]:
        """(message, slice) of those that go in this loop and turn."""
        due = []
        for message in messages.get(turn, []):
            parts = self.halves[message.tree]
            place = loop - message.begin
            if 0 <= place < len(parts):
                due.append((message, parts[place]))
        return due


def _take(message: Message, part, box) -> None:
    """What came up is added, what came down is the sum of all."""
    if message.up:
        part += box
    else:
        part[...] = box
