"""From what the doctor's job found on the nodes to sentences: what fits the site file, and what
does not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import verdict as bandwidths
from labkit import doctor, labfile, mpis, paths
from labkit.cluster import sites
from labkit.errors import counted

from slurm.doctor import links
from slurm.doctor.findings import NOTE, OK, UNCHECKED, WRONG, Finding
from slurm.doctor.login import WAITING, Outcome


def judge(site: str, env: Mapping[str, str], nodes: int, outcome: Outcome) -> Iterator[Finding]:
    """The findings on a job of so many nodes, in the order in which things happen in it."""
    if outcome.state in WAITING:
        yield Finding(
            UNCHECKED,
            f"The queue is full (job {outcome.number} waits: {outcome.reason}): the rest is"
            " unchecked. The job was cancelled. Wait longer with PATIENCE=600, or ask for one node"
            " with NODES=1.",
        )
        return
    if not outcome.node:
        yield _nothing_came(site, outcome)
        return
    yield Finding(
        OK, f"A job ran on {outcome.node['host']}, which sees this folder and its Python."
    )
    yield _started(env, nodes, outcome)
    yield from _builds(site, env, outcome.node)
    if not outcome.ranks:
        return
    yield from _hardware(env, outcome.ranks)
    yield from _network(outcome.ranks)
    yield from _mpi(site, env, outcome.ranks)
    yield from _links(outcome.ranks)
    for sentence in (outcome.node.get("report") or {}).get("advice", []):
        if not sentence.startswith("MPI allows"):  # said of the ranks already
            yield Finding(NOTE, sentence)


def labs(env: Mapping[str, str], outcome: Outcome) -> dict[str, dict]:
    """Stem -> status and sentence: what the node's doctor says, with the site's launcher to start
    ranks."""
    report = outcome.node.get("report")
    if report is None:
        return {}
    if any(rank.get("size", 0) > 1 for rank in outcome.ranks):
        report["mpi"]["launcher"] = env.get("LABKIT_LAUNCHER", "srun")
    labs = {}
    for stem, header in labfile.headers(paths.root()).items():
        status, sentence = doctor.judge(header, report)
        labs[stem] = {"status": status, "sentence": sentence}
    return labs


def _nothing_came(site: str, outcome: Outcome) -> Finding:
    if outcome.state == "COMPLETED" or not outcome.output:
        return Finding(
            WRONG,
            f"Job {outcome.number} ended ({outcome.state}), but nothing that it wrote is seen here."
            f" Do the nodes see {paths.root()}? Put the checkout, or LABKIT_HOME, on a file system"
            " that they share.",
        )
    said = f"Job {outcome.number} on {site} ended with {outcome.state}. It said: {outcome.output}"
    return Finding(WRONG, said)


def _started(env: Mapping[str, str], nodes: int, outcome: Outcome) -> Finding:
    """Did the launcher start as many ranks as asked, on the nodes asked, and do they know of each
    other?"""
    launcher = env.get("LABKIT_LAUNCHER", "")
    ranks = outcome.ranks
    met = [rank for rank in ranks if "met" in rank]
    if "wanted" not in outcome.node:
        return Finding(
            WRONG, f"Job {outcome.number} ended ({outcome.state}) while its ranks were started."
        )
    wanted, status = outcome.node["wanted"], outcome.node["status"]
    if any(rank.get("size") == 1 for rank in ranks) and wanted > 1:
        return Finding(
            WRONG,
            f"{launcher} started {len(ranks)} processes, each of which thinks it is alone: MPI does"
            " not understand this launcher. Try another --mpi= (`srun --mpi=list`) or the"
            " library's own mpiexec.",
        )
    if status != 0 or len(met) < wanted:
        how = f" (status {status})."
        if status is None:
            how = " in time. Does an interface not reach the other node?"
        said = f" It said: {outcome.node['said']}" if outcome.node["said"] else ""
        return Finding(
            WRONG,
            f"{launcher} started {len(ranks)} of {wanted} ranks, and {len(met)} of them exchanged a"
            f" message{how}{said}",
        )
    hosts = met[0]["met"]
    slowest = max(rank["seconds"] for rank in met)
    return Finding(
        OK if len(hosts) == nodes else WRONG,
        f"{launcher} started {wanted} ranks on {counted(len(hosts), 'node')}"
        f" ({', '.join(hosts)}); they exchanged their first message in {slowest:.2g} s.",
    )


def _builds(site: str, env: Mapping[str, str], on_node: Mapping) -> Iterator[Finding]:
    """Are the builds that the site file asks for on the node?"""
    wish = env.get("LABKIT_HOROVOD")
    if wish in on_node["horovod"]:
        yield Finding(OK, f"Horovod's build {wish}, which the site file asks for, is there.")
    elif wish:
        yield Finding(
            WRONG,
            f"LABKIT_HOROVOD asks for Horovod's build {wish!r}; on the node there is:"
            f" {', '.join(on_node['horovod']) or 'none'}. `make setup` builds them; or change the"
            f" line in slurm/sites/{site}.sh.",
        )
    if env.get("LABKIT_GDRCOPY") and not on_node["gdrcopy"]:
        yield Finding(
            WRONG, f"LABKIT_GDRCOPY names {env['LABKIT_GDRCOPY']}, which is no file on the node."
        )


def _hardware(env: Mapping[str, str], ranks: list[dict]) -> Iterator[Finding]:
    cores = min(rank["cores"] for rank in ranks)
    few = (
        ", little for its data loaders: --cpus-per-task in LABKIT_SBATCH_OPTIONS gives more."
        if cores == 1
        else "."
    )
    yield Finding(NOTE if cores == 1 else OK, f"Each rank may use {counted(cores, 'core')}{few}")
    wanted = sites.gpus_per_node(env)
    gpus = min(rank.get("gpus", 0) for rank in ranks)
    if gpus < wanted:
        yield Finding(
            WRONG,
            f"The site file says {wanted} GPUs in a node, but PyTorch sees {gpus} in this job. See"
            " LABKIT_GPU_FORM and the partition; `make setup GPU_OPERATIONS=NCCL` installs what"
            " labs need on GPUs.",
        )
    elif wanted:
        yield Finding(OK, f"{counted(gpus, 'GPU')} in each node.")


def _network(ranks: list[dict]) -> Iterator[Finding]:
    ports = {rank["host"]: rank["infiniband"] for rank in ranks}
    if not any(ports.values()):
        yield Finding(
            NOTE,
            "No InfiniBand or RoCE port on the nodes: messages go over TCP or the site's own"
            " network.",
        )
        return
    for host, there in sorted(ports.items()):
        if not any("ACTIVE" in port for port in there):
            yield Finding(
                WRONG,
                f"No InfiniBand port of {host} is active: {'; '.join(there or ['none there'])}.",
            )
    first = next(filter(None, ports.values()))
    yield Finding(OK, f"{counted(len(first), 'InfiniBand port')}: {'; '.join(first[:4])}.")


def _mpi(site: str, env: Mapping[str, str], ranks: list[dict]) -> Iterator[Finding]:
    loaded = [rank for rank in ranks if "family" in rank]
    if not loaded:
        yield Finding(
            WRONG,
            "No rank could load an MPI library: see LABKIT_MODULES, and `make setup` with"
            " MPI_HOME.",
        )
        return
    families = sorted({f"{rank['family']} {rank['version']}" for rank in loaded})
    if len(families) > 1:
        yield Finding(WRONG, f"The ranks load different MPI libraries: {', '.join(families)}.")
    family, files = loaded[0]["family"], ", ".join(loaded[0]["files"])
    wanted = env.get("LABKIT_MPI", "")
    if wanted and family not in mpis.FLAVORS.get(wanted, ()):
        yield Finding(
            WRONG,
            f"LABKIT_MPI says {wanted}, but the ranks run on {families[0]} ({files}): another"
            f" module in slurm/sites/{site}.sh, or `make setup MPI_HOME=…` with the one loaded.",
        )
    else:
        yield Finding(OK, f"MPI: {families[0]}{', as the site file says' if wanted else ''}.")
    for level in sorted({rank["threads"] for rank in loaded if "threads" in rank}):
        if level == "MULTIPLE":
            yield Finding(OK, "MPI allows MPI_THREAD_MULTIPLE, which Horovod wants.")
        else:
            yield Finding(WRONG, mpis.thread_advice(family, f"MPI_THREAD_{level}"))


def _links(ranks: list[dict]) -> Iterator[Finding]:
    """How fast MPI's messages and NCCL's allreduces are, and by which way."""
    port = _fastest_port(ranks)
    by_mpi = [rank["mpi"] for rank in ranks if "mpi" in rank]
    for key, memory in (("rate", "host"), ("gpu_rate", "GPU")):
        rates = [found[key] for found in by_mpi if found.get(key)]
        if not rates:
            continue
        speed = f"{min(rates) / 1e9:.2g} GB/s"
        said = f"Between two nodes MPI moves {speed} of {memory} memory, both ways at once."
        if port and min(rates) < 0.2 * port:
            yield Finding(
                WRONG,
                f"{said} The port carries {port / 1e9:.3g} GB/s: does this MPI speak TCP? Then a"
                " comparison with NCCL is one of networks. Set up with the site's own MPI: make"
                " setup MPI_HOME=…",
            )
        else:
            yield Finding(OK, said)
    for reason in filter(None, dict.fromkeys(found["staged"] for found in by_mpi)):
        yield Finding(NOTE, f"MPI gets no GPU memory: {reason}. Labs copy to the host first.")
    by_nccl = [rank["nccl"] for rank in ranks if rank.get("nccl")]
    for sentence in dict.fromkeys(found["failed"] for found in by_nccl if "failed" in found):
        yield Finding(WRONG, f"NCCL's allreduce failed: {sentence}")
    measured = [found for found in by_nccl if "bus" in found]
    if measured:
        yield _of_nccl(measured, port, _beside_cards(measured, ranks, port))


def _beside_cards(measured: list[dict], ranks: list[dict], port: float) -> str:
    """NCCL's bus bandwidth beside what a node's cards are known to reach, as `make verdict` has
    it."""
    hosts = {rank["host"] for rank in ranks}
    active = ["ACTIVE" in card for card in ranks[0]["infiniband"]]
    count = len(measured)
    if not port or len(hosts) < 2 or count < 2:
        return ""
    seconds = 2 * (count - 1) / count * links.LONG / measured[0]["bus"]
    entry = {"result": "allreduce", "bytes": [links.LONG], "median": [seconds]}
    entry |= {"ranks": count, "nodes": len(hosts)}
    cards = {"nic": f"{port / 1e9:g}GB/s", "nics": str(max(1, sum(active)))}
    (found,) = bandwidths.verdicts(json.dumps(entry), **cards)
    if found.ratio is None:
        return ""
    return f" That is {found.word}: {found.ratio:.0%} of what {found.expectation.what} can give."


def _of_nccl(measured: list[dict], port: float, beside: str) -> Finding:
    ways = sum((Counter(found["ways"]) for found in measured), Counter())
    listed = ", ".join(f"{way} {count}" for way, count in ways.most_common()) or "not in its log"
    said = (
        f"NCCL: {1e6 * measured[0]['latency']:.3g} µs for an allreduce of 8 bytes, and a bus"
        f" bandwidth of {measured[0]['bus'] / 1e9:.3g} GB/s for 256 MiB. Connections: {listed}."
        f"{beside}"
    )
    if port and any(way.startswith("NET/Socket") for way in ways):
        cure = "An active InfiniBand port is not used: see NCCL_SOCKET_IFNAME and NCCL's plug-in."
        return Finding(WRONG, f"{said} {cure}")
    return Finding(OK, said)


def _fastest_port(ranks: list[dict]) -> float:
    """Bytes per second of the fastest active InfiniBand or RoCE port; 0 without one."""
    ports = [port for rank in ranks for port in rank["infiniband"] if "ACTIVE" in port]
    rates = [float(rate) for port in ports for rate in re.findall(r"([\d.]+) Gb", port)]
    return max(rates, default=0.0) * 1e9 / 8
