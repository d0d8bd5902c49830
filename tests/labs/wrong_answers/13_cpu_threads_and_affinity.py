"""Mistakes that learners make in lab 13, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Wrong

SMALL = {"batch": 12, "width": 4, "repeat": 5, "workers": 2, "patience": 60}

PIECE = """    cores = sorted(cores)
    begin = local_rank * len(cores) // local_size
    end = max(begin + 1, (local_rank + 1) * len(cores) // local_size)
    return cores[begin:end]"""
LOSS = '(F.cross_entropy(net(images), labels, reduction="sum") / batch).backward()'

WRONG = [
    Wrong(
        "13.1",
        "cores are counted from 0, not taken from the mask",
        old="    return cores[begin:end]",
        new="    return list(range(begin, end))",
        says="not one of these",
    ),
    Wrong(
        "13.1",
        "dealt out like cards",
        old=PIECE,
        new="    cores = sorted(cores)\n"
        "    return cores[local_rank::local_size] or [cores[local_rank % len(cores)]]",
        says="Take neighbours, one piece",
    ),
    Wrong(
        "13.1",
        "the remainder is left over",
        old=PIECE,
        new="    cores, n = sorted(cores), max(1, len(cores) // local_size)\n"
        "    return cores[local_rank * n :][:n] or cores[-1:]",
        says="nobody gets core",
    ),
    Wrong(
        "13.1",
        "the last rank takes all of the remainder",
        old=PIECE,
        new="    cores, n = sorted(cores), max(1, len(cores) // local_size)\n"
        "    begin = local_rank * n\n"
        "    last = local_rank == local_size - 1\n"
        "    return cores[begin:][: None if last else n] or cores[-1:]",
        says="may differ by one at most",
    ),
    Wrong(
        "13.1",
        "ranks beyond the cores get nothing",
        old="max(begin + 1, (local_rank + 1) * len(cores) // local_size)",
        new="(local_rank + 1) * len(cores) // local_size",
        says="gets no core",
    ),
    Wrong(
        "13.1",
        "the pieces in reverse order",
        old="    cores = sorted(cores)",
        new="    cores = sorted(cores)\n    local_rank = local_size - 1 - local_rank",
        says="Rank 0 gets the first piece",
    ),
    Wrong(
        "13.1",
        "the mask itself is emptied",
        old="    cores = sorted(cores)",
        new="    cores = [cores.pop() for _ in range(len(cores))]\n    cores.sort()",
        says="changed the set",
    ),
    Wrong(
        "13.2",
        "a line over threads, not over 1/threads",
        old="1 / np.array(list(seconds))",
        new="np.array(list(seconds))",
        says="a line over the threads",
    ),
    Wrong(
        "13.2",
        "slope and intercept swapped",
        old="parallel, serial = np.polyfit",
        new="serial, parallel = np.polyfit",
        says="Swapped?",
    ),
    Wrong(
        "13.2",
        "shares of the step instead of seconds",
        old="    return serial, parallel",
        new="    return serial / (serial + parallel), parallel / (serial + parallel)",
        says="Return seconds",
    ),
    Wrong(
        "13.2",
        "speed-up upside down",
        old="    return (serial + parallel) / (serial + parallel / threads)",
        new="    return (serial + parallel / threads) / (serial + parallel)",
        says="upside down",
    ),
    Wrong(
        "13.2",
        "the textbook's law, for shares that add up to 1",
        old="    return (serial + parallel) / (serial + parallel / threads)",
        new="    return 1 / (serial + parallel / threads)",
        says="These are seconds",
    ),
    Wrong(
        "13.2",
        "threads as a factor: inf / inf",
        old="    return (serial + parallel) / (serial + parallel / threads)",
        new="    return threads * (serial + parallel) / (threads * serial + parallel)",
        says="as inf / inf",
    ),
    Wrong(
        "13.2",
        "whole seconds alone",
        old="    return (serial + parallel) / (serial + parallel / threads)",
        new="    return (serial + parallel) / (serial + parallel // threads)",
        says="on 4 threads: expected",
    ),
    Wrong(
        "13.3",
        "powers of two alone",
        old="for p in range(1, most + 1) if cores % p == 0]",
        new="for p in (1, 2, 4, 8, 16, 32, 64) if cores % p == 0 and p <= most]",
        says="Splits of 6 cores",
    ),
    Wrong(
        "13.3",
        "each rank divides by its own images: a mean of every rank, added up",
        old=LOSS,
        new="F.cross_entropy(net(images), labels).backward()",
        says="times the right gradient",
    ),
    Wrong(
        "13.3",
        "the mean of means, of unequal parts",
        old=[LOSS, "torch.from_numpy(total)"],
        new=["F.cross_entropy(net(images), labels).backward()", "torch.from_numpy(total / comm.size)"],
        says="a mean of means of unequal parts",
    ),
    Wrong(
        "13.3",
        "the sum does not get back into the net",
        old="    vector_to_parameters(torch.from_numpy(total), gradients)",
        new="    mine[:] = total",
        says="only this rank's own gradient",
    ),
    Wrong(
        "13.3",
        "a weight update is made, too",
        old="    vector_to_parameters(torch.from_numpy(total), gradients)",
        new="    vector_to_parameters(torch.from_numpy(total), gradients)\n"
        "    for weight in net.parameters():\n"
        "        weight.data -= 0.1 * weight.grad",
        says="the weights changed",
    ),
    Wrong(
        "13.3",
        "threads before processes",
        old="[(p, cores // p) for",
        new="[(cores // p, p) for",
        says="Processes come first",
    ),
    Wrong(
        "13.3",
        "also where p does not divide the cores",
        old=" if cores % p == 0]",
        new="]",
        says="must divide the cores",
    ),
    Wrong(
        "13.3",
        "a mean, divided by batch again",
        old=', reduction="sum"',
        new="",
        says="a tenth of the right gradient",
    ),
    Wrong(
        "13.3",
        "only rank 0 gets the sum",
        old="comm.Allreduce(mine, total)",
        new="comm.Reduce(mine, total)",
        says="use Allreduce",
    ),
    Wrong(
        "13.4",
        "only the calling thread is bound: the pool keeps the old mask",
        old="    for thread in affinity.threads():\n        os.sched_setaffinity(thread, cores)",
        new="    os.sched_setaffinity(0, cores)",
        says="Move every thread",
    ),
    Wrong(
        "13.4",
        "the main thread is left out",
        old="in affinity.threads():",
        new="in affinity.threads()[1:]:",
        says="(the main one) may still run",
    ),
    Wrong(
        "13.4",
        "torch keeps its number of threads",
        old="    torch.set_num_threads(len(cores))",
        new="",
        says="Torch's threads after bind",
    ),
    Wrong(
        "13.4",
        "all threads on the rank's first core",
        old="os.sched_setaffinity(thread, cores)",
        new="os.sched_setaffinity(thread, cores[:1])",
        says="alone. Give it all cores",
    ),
    Wrong(
        "13.4",
        "cores counted from 0",
        old="os.sched_setaffinity(thread, cores)",
        new="os.sched_setaffinity(thread, range(len(cores)))",
        says="may still run on cores 0",
    ),
]
