"""The checks of lab 43."""

from __future__ import annotations

from labkit import check, expect

from support.lab43.allreduces import leaving
from support.lab43.nccl_log import example, parse, read


@check.exercise("43.1")
def check_connections(connections, logs):
    """Line for line what NCCL means, all pairs of a log, and all ways of a pair."""
    for name, lines in logs.items():
        for line in lines:
            if "NCCL INFO" in line:
                want = parse(line).transports(short=True)
                got = connections([line])
                expect(got == want, f"In the log {name} “{line[-95:]}” means {want}; you read {got}.")
        want = read(example(name)).transports(short=True)
        expect.equal(connections(lines), want, f"all connections in the log {name}")
    pair = ["Channel 00 : 6[6] -> 7[7] via P2P/IPC", "Channel 01 : 6[6] -> 7[7] via SHM/direct"]
    expect.equal(connections(pair), {(6, 7): {"P2P", "SHM"}}, "A pair with a line of each, P2P and SHM")


@check.exercise("43.2")
def check_my_gpu(my_gpu, trouble, few_ranks, jobs):
    """In each of these jobs the GPU of every rank, and what is wrong with the job."""
    for name, (hosts, visible, gpus, wrong) in jobs.items():
        job = []
        for rank, (host, gpu) in enumerate(zip(hosts, gpus, strict=True)):
            local = hosts[:rank].count(host)
            subject = f"{name}: GPU of {host}'s local rank {local}"
            expect.equal(my_gpu(local, list(visible[local])), gpu, subject)
            job.append((host, gpu, visible[local]))
        answer = trouble(job)
        expect(answer == wrong, f"{name}: trouble says {answer!r}, not {wrong!r}, of {job}.")
    for job, wrong in few_ranks:
        answer = trouble(job)
        expect(answer == wrong, f"trouble says {answer!r}, not {wrong!r}, of {job}.")


@check.exercise("43.3")
def check_build(build, OPERATIONS, cases):
    """What Horovod's CMake makes of these switches."""
    libraries = {"N": "NCCL", "M": "MPI", "-": None}
    for text, says in cases.items():
        want = says
        if not says.islower():
            want = {name: libraries[letter] for name, letter in zip(OPERATIONS, says, strict=True)}
        try:
            got = build(dict(f"HOROVOD_{switch}".split("=") for switch in text.split()))
        except ValueError as error:
            got = str(error)
        expect(
            got == want, f"Switches “{text}”: CMake says {says} (N NCCL, M MPI, - None): {want}; you: {got}."
        )


@check.exercise("43.4")
def check_leaves_node(leaves_node):
    """What was counted on the virtual cluster, on one node to sixteen."""
    for m, g in [(1, 4), (2, 1), (2, 3), (3, 2), (4, 4), (5, 1), (8, 2), (16, 1)]:
        got = leaves_node(m, g)
        subject = f"{m} node(s) of {g}: you say (vectors, messages, latencies) = {got}"
        expect.close(got, leaving("tree", m, g), subject)
