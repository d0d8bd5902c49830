"""What lab 40 needs to try answers for nodes and GPUs that this machine may not have.

nodes_of     on a rank: while a block runs, each node has so many ranks, and what is asked of CUDA is noted
Counted      a function that counts its calls
"""

from support.lab40.nodes import nodes_of
from support.lab40.pieces import Counted

__all__ = ["Counted", "nodes_of"]
