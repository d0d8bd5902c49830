"""The plots: one style, error bars from quartiles, readable in grey; shown once, or saved as PNG by
a script.

| name | what it draws |
|---|---|
| `loss`, `lines` | curves over steps, or over any x |
| `scaling`, `efficiency` | speed-up and efficiency against ranks, with the ideal and a fitted law |
| `bandwidth` | time and bandwidth against message size, with models |
| `spread`, `bars`, `compare` | every run; where time goes; predictions beside measurements |
| `images` | a grid of small pictures, with labels and guesses |
| `crossover` | a map of message sizes and ranks: which algorithm is best where |
| `messages` | ranks as circles, messages as arrows |
| `timeline`, `lanes` | what ranks of a virtual run do when; which part of a machine is busy when |
| `slider` | calls a drawing function anew whenever the reader moves a slider |
| `show` | any matplotlib figure, as the kit's own |

For plots of one's own: `styled` (the kit's style), `new_figure`, `one_axes`, `points`, `plain_log`,
`draw_rows` with `Look` (rows of spans), `done`, and the colors `COLORS`, `INK`, `FAINT`.
"""

from labkit.plots.axes import done, one_axes, plain_log, points
from labkit.plots.crossings import crossover
from labkit.plots.curves import (
    bandwidth,
    bars,
    compare,
    efficiency,
    images,
    lines,
    loss,
    scaling,
    spread,
)
from labkit.plots.diagrams import messages
from labkit.plots.sliders import slider
from labkit.plots.spans import Look, draw_rows, lanes, timeline
from labkit.plots.style import COLORS, FAINT, INK, new_figure, show, styled
