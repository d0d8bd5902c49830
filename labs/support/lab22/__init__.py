"""What lab 22 needs beside labkit.timing.benchmarks.

two_lines      two lines α + nβ through measured times: short messages, and long ones
TwoLines       such lines: their times, and the numbers that virtual.machine("here") needs
Interrupted    a virtual communicator that is held up in its first rounds, and now and then later
OneRow         a communicator that receives all messages into one buffer
"""

from support.lab22.cases import Interrupted, OneRow
from support.lab22.lines import TwoLines, two_lines

__all__ = ["Interrupted", "OneRow", "TwoLines", "two_lines"]
