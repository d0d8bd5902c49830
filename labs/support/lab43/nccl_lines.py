"""The lines that NCCL prints, as patterns. Read off the sources of NCCL 2.10.3 to 2.30.7.

Where: debug.cc (what every line begins with), init.cc, graph/rings.cc, graph/connect.cc, enqueue.cc,
transport/{p2p,shm,net,net_ib}.cc. What changed on the way:

- `Channel 00 :` of a connection became `Channel 00/0 :` (2.12 for the network, 2.14 for P2P; shared memory
  keeps the old form).
- The bracket behind a rank held the PCI bus in hexadecimal until 2.18.1, since 2.18.3 the GPU's number.
- `via direct shared memory` became `via SHM/direct/direct` (2.13), and `via SHM/direct` (2.30).
- `Init COMPLETE` names a communicator by `commId` since 2.16; there is `Init START` from 2.18 on.
- The chosen algorithm is printed since 2.20, as numbers; with the function's name since 2.23; since 2.24
  with names and channels.
"""

from __future__ import annotations

import re
from itertools import zip_longest

# host:pid:thread [CUDA device] file:line NCCL WARN …; labels of mpiexec or srun, or the time, may precede it.
HEAD = re.compile(
    r"(?:(?P<host>[^\s:]+):(?P<pid>\d+):(?P<thread>\d+) )?"
    r"(?:\[(?P<device>-?\d+)\] )?"
    r"(?:\S+:\d+ (?:\(\w+\) )?)?"
    r"NCCL (?P<level>INFO|WARN) "
)
VERSION = re.compile(r"\bNCCL version (?P<version>\d+\.\d+\.\d+\S*)")
NETWORK = re.compile(r"^Using network (?P<network>.+)")
DEVICES = re.compile(r"^NET/(?P<network>\S+) : Using(?P<devices>(?: ?\[\d+\]\S+)+)")
DEVICE = re.compile(r"\[\d+\](\S+)")
NIC_GDR = re.compile(r"NET/.+? : GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA (?P<number>\d+)")
RANK = re.compile(
    r"comm 0x(?P<comm>\w+) rank (?P<rank>\d+) nranks (?P<size>\d+) cudaDev (?P<device>-?\d+)"
    r"(?: nvmlDev (?P<gpu>-?\d+))? busId (?P<bus>\w+).*? - Init (?P<state>START|COMPLETE)"
)
CHANNELS = re.compile(
    r"^(?P<rings>\d+) coll channels,(?: \d+ collnet channels,)?(?: (?P<nvls>\d+) nvls channels,)? \d+ p2p"
)
NVLS = re.compile(r"^NVLS multicast support is (?P<no>not )?available|^(?P<tree>Connected NVLS tree)")
RING = re.compile(r"^Channel (?P<channel>\d+)/\d+ :(?P<ranks>(?: +\d+)+) *$")
NEXT = re.compile(r"^Ring (?P<channel>\d+) : (?P<before>\d+) -> (?P<rank>\d+) -> (?P<after>\d+)$")
TREES = re.compile(r"^Trees(?P<trees>(?: \[\d+\] \S+)+)")
TREE = re.compile(r"\[(\d+)\] (-?\d+)/(-?\d+)/(-?\d+)->(\d+)->(-?\d+)(?= |$)")
LINK = re.compile(
    r"^Channel (?P<channel>\d+)(?:/\d+)? : (?P<source>\d+)\[(?P<at>\w+)\] -> (?P<dest>\d+)\[(?P<to>\w+)\]"
    r"(?: \[(?P<side>send|receive)\])? via (?P<via>.+?)(?: comm 0x.*)?$"  # AMD's RCCL adds the communicator
)
CHOICE = re.compile(
    r"^(?:(?P<function>\w+): *)?(?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)"
    r"(?: time (?P<time>[\d.]+))?(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\})?"
)
# src/init.cc: ncclAlgoStr (NVLSTree since 2.18, PAT since 2.23) and ncclProtoStr
ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")


def messages(line: str):
    """(match of HEAD, text) of each message in a line: lines of several ranks may have run together."""
    heads = list(HEAD.finditer(line))
    for head, following in zip_longest(heads, heads[1:]):
        yield head, line[head.end() : following.start() if following else None].rstrip()


def named(text: str, names: tuple[str, ...]) -> str:
    """An algorithm or a protocol by its name, from its number ("1") or from any writing of it ("RING")."""
    if text.isdigit():
        return names[int(text)] if int(text) < len(names) else text
    by_lower_case = {name.lower(): name for name in names}
    return by_lower_case.get(text.lower().replace("_", ""), text)
