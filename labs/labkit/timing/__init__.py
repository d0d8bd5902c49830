"""The only way the labs time, and what they say about it. Lab 01 builds the idea by hand.

| name | what it gives |
|---|---|
| `measure` | a `Measurement` of one call: median, spread, and whether the median may be quoted |
| `ratio` | a `Ratio`: how many times as long one call takes as another, timed side by side |
| `in_turns` | measurements of several calls that take turns |
| `TorchGroup` | the ranks that take part, where they have torch.distributed and not MPI |
| `device_sync`, `clock_resolution`, `no_garbage_collection` | for those who time by themselves |
| `quartiles`, `samples_of` | of a Measurement, of samples, or of one number |
| `human`, `digits`, `time_unit` | times and numbers as people read them |
| `FEWEST` | runs below which there is no verdict |
| `benchmarks` | other people's benchmarks of messages, and which two ranks play |
"""

from labkit.timing import benchmarks
from labkit.timing.measurement import FEWEST, Measurement, Ratio, quartiles, samples_of
from labkit.timing.reading import digits, human, time_unit
from labkit.timing.timer import (
    TorchGroup,
    clock_resolution,
    device_sync,
    in_turns,
    measure,
    no_garbage_collection,
    ratio,
)
