"""What lab 02 quotes: published costs of training, with their sources, and how they are drawn.

COSTS          published petaflop/s-days of nets, by year, with the source of each
P100           published images per second of one P100, by net
SCALED         published images per second of 64 GPUs at 40 Gb/s, and of one, by net
PETAFLOP_DAY   operations of one petaflop/s-day
draw_costs     the costs over the years, with one's own counts beside them
kept           bytes that PyTorch keeps for the way back of a net
draw_bounds    what cards of several speeds allow, and what was reached
"""

from support.lab02.memory import kept
from support.lab02.pictures import draw_bounds, draw_costs
from support.lab02.published import COSTS, P100, PETAFLOP_DAY, SCALED, Cost

__all__ = ["COSTS", "P100", "PETAFLOP_DAY", "SCALED", "Cost", "draw_bounds", "draw_costs", "kept"]
