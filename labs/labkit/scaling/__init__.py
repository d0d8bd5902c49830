"""How training scales with ranks, and what messages cost on paper.

| name | what it gives |
|---|---|
| `speedup`, `efficiency` | of times, {ranks: time}, with equal total work or equal work per rank |
| `amdahl` | the speed-up of Amdahl's law |
| `fit_amdahl` | Amdahl's serial share from measured times, with a 95 % interval |
| `fit_alpha_beta` | latency and time per byte of a link, from {bytes: time}, with 95 % intervals |
| `costs` | closed forms of collectives in p ranks, n bytes, α, β, γ; nccl-tests' bandwidths |
| `ordered` | a table of measured times, in order and checked |
"""

from labkit.scaling import costs
from labkit.scaling.fits import fit_alpha_beta, fit_amdahl
from labkit.scaling.laws import amdahl, efficiency, ordered, speedup
