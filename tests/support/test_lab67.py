"""Lab 67's support: the pairs of chunks that ranks compute, and times of the virtual cluster."""

from __future__ import annotations

import pytest
import virtual
from support import lab67


@pytest.mark.parametrize("chunks", [[(0, 1), (2, 3), (4, 5)], [(0, 5), (1, 4), (2, 3)]])
def test_the_ranks_compute_each_pair_of_the_mask_once(chunks):
    computed = []
    for own in chunks:
        for theirs in chunks:
            for mine, its, diagonal in lab67.pairs(own, theirs, causal=True):
                computed.append((own[mine], theirs[its]))
                assert diagonal == (own[mine] == theirs[its])
    assert sorted(computed) == [(q, k) for q in range(6) for k in range(q + 1)]
    assert len(list(lab67.pairs((0, 1), (2, 3), causal=False))) == 4


def test_messages_in_front_of_computing_are_never_hidden():
    model = lab67.Model(hidden=512, kv=128, size=2, flops=1e12)
    machine = virtual.ideal(alpha=0, bandwidth=1e9)
    own, ranks = 1024, 4
    computing = ranks * model.visit(own)
    exchanged = own * (2 * 512 + 2 * 128) * 2 * (ranks - 1) / ranks
    gathered = (ranks - 1) * own * 2 * 128 * 2
    for way, nbytes in (("Ulysses", exchanged), ("allgather", gathered)):
        run = lab67.layer_run(lab67.in_turns, way, own * ranks, ranks, model, machine)
        assert run.time == pytest.approx(computing + nbytes / 1e9)
        assert run.sent_bytes == pytest.approx([nbytes] * ranks)
