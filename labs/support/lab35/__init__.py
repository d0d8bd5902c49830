"""Lab 35: gradients in fewer bytes, what a net learns of them, and over which links they pay.

| of | name | what it is |
|---|---|---|
| checks | `vectors` | gradients of all kinds and lengths |
| | `half_cases` | means by way of float16, with the right ones |
| | `feedback_steps` | steps with error feedback, with the right means and errors |
| | `whole`, `from_whole` | a simple message to test with |
| gradients | `first_gradient`, `kept`, `Kept` | a rank's first, and what a message keeps of it |
| virtual ranks | `accuracy` | what a net learns |
| | `bytes_counted`, `ring_and_bits` | what messages weigh |
| | `seconds_over`, `traffic` | what they take |
| real ranks | `exchange_times`, `packing`, `links` | times, and the links over which each way pays |
"""

from support.lab35.cases import feedback_steps, from_whole, half_cases, vectors, whole
from support.lab35.ranks import exchange_times, links, packing
from support.lab35.runs import (
    Kept,
    accuracy,
    bytes_counted,
    first_gradient,
    kept,
    ring_and_bits,
    seconds_over,
    traffic,
)

__all__ = [
    "Kept",
    "accuracy",
    "bytes_counted",
    "exchange_times",
    "feedback_steps",
    "first_gradient",
    "from_whole",
    "half_cases",
    "kept",
    "links",
    "packing",
    "ring_and_bits",
    "seconds_over",
    "traffic",
    "vectors",
    "whole",
]
