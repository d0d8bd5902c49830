"""What lab 51 needs: allreduces of many libraries behind one name each, trials, and tables of times.

Backends:

    NAMES, missing       the libraries there are, and why one of them cannot be used here
    place                where the vectors of one of them are, and what carries them
    each                 a function on real ranks, by each of some backends

What answers are tried on:

    late_calls           the benchmark loop on virtual ranks that are late
    punctual_seconds     what their calls take when nobody is late
    met                  what PyTorch's ranks say who met by an answer, and their sum
    exchanged            what virtual ranks hold after an exchange of gradients in buckets
    GRADIENTS            what rank 0 held before it

Measurements:

    ranks, nodes         how many ranks compete here, on how many nodes
    gradient_bytes       bytes of each gradient of a well-known net
    buckets              which of them leave together
    tabulate             times printed under nccl-tests' names
    keep, keep_steps     records of allreduces, and of exchanges of a net's gradients
    fused_gain, times_as_long    quotients of two medians
    elsewhere            the table of a job on two nodes, or the kit's
    print_table          a table of medians, and what one chooses of it
    sizes_of             the sizes in a table
    which                what one chooses of a table for a size
"""

from support.lab51.backends import NAMES, each, missing, place
from support.lab51.checks import (
    GRADIENTS,
    exchanged,
    late_calls,
    met,
    punctual_seconds,
)
from support.lab51.places import elsewhere, nodes, ranks
from support.lab51.show import (
    buckets,
    fused_gain,
    gradient_bytes,
    keep,
    keep_steps,
    print_table,
    sizes_of,
    tabulate,
    times_as_long,
    which,
)

__all__ = [
    "GRADIENTS",
    "NAMES",
    "buckets",
    "each",
    "elsewhere",
    "exchanged",
    "fused_gain",
    "gradient_bytes",
    "keep",
    "keep_steps",
    "late_calls",
    "met",
    "missing",
    "nodes",
    "place",
    "print_table",
    "punctual_seconds",
    "ranks",
    "sizes_of",
    "tabulate",
    "times_as_long",
    "which",
]
