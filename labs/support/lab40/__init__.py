"""What lab 40 needs to try answers for nodes and GPUs that this machine may not have.

nodes_of            on a rank: while a block runs, each node has so many ranks; what is asked of CUDA is noted
in_all              on a rank: while a block runs, hvd.size() says another number of ranks
Counted, calls_of   a function that counts its calls; one of Horovod's that does so while a block runs
summary             what a checkpoint is to hold, with a number for each tensor
read_checkpoint     the summary of a file
"""

from support.lab40.checkpoints import read_checkpoint, summary
from support.lab40.nodes import in_all, nodes_of
from support.lab40.pieces import Counted, calls_of

__all__ = ["Counted", "calls_of", "in_all", "nodes_of", "read_checkpoint", "summary"]
