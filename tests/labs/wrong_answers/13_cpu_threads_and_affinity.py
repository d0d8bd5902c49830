"""Mistakes that learners make in lab 13, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"batch": 12, "width": 4, "repeat": 5, "workers": 2, "patience": 60}

PIECE = """    cores = sorted(cores)
    begin = local_rank * len(cores) // local_size
    end = (local_rank + 1) * len(cores) // local_size
    return cores[begin:end]"""
LOSS = '(F.cross_entropy(net(images), labels, reduction="sum") / batch).backward()'
MEAN = "F.cross_entropy(net(images), labels).backward()"
ADD = "    add_up(comm, net)"
EACH = "\n    for weight in net.parameters():\n        "

# fmt: off
WRONG = [
    Wrong("13.1", "cores are counted from 0, not taken from the mask",
          "    return cores[begin:end]", "    return list(range(begin, end))", "not one of these"),
    Wrong("13.1", "dealt out like cards", PIECE,
          "    return sorted(cores)[local_rank::local_size]", "Take neighboring cores"),
    Wrong("13.1", "a set as it comes", "sorted(cores)", "list(cores)", "Take neighboring cores"),
    Wrong("13.1", "the remainder is left over", PIECE, """\
    cores, n = sorted(cores), len(cores) // local_size
    return cores[local_rank * n :][:n]""", "no rank gets core"),
    Wrong("13.1", "the last rank takes all of the remainder", PIECE, """\
    cores, n = sorted(cores), len(cores) // local_size
    begin = local_rank * n
    last = local_rank == local_size - 1
    return cores[begin:][: None if last else n]""", "may differ by one at most"),
    Wrong("13.1", "the pieces in reverse order", "    cores = sorted(cores)",
          "    cores = sorted(cores)\n    local_rank = local_size - 1 - local_rank",
          "Rank 0 gets the first part"),
    Wrong("13.1", "each part in descending order", "cores[begin:end]", "cores[begin:end][::-1]",
          "in ascending order"),
    Wrong("13.1", "a set", "cores[begin:end]", "set(cores[begin:end])", "Return a list of cores"),
    Wrong("13.1", "the mask itself is emptied", "    cores = sorted(cores)",
          "    cores = [cores.pop() for _ in range(len(cores))]\n    cores.sort()",
          "cores_of was given was changed"),
    Wrong("13.1", "NumPy's integers, which os.sched_setaffinity does not take", PIECE,
          "    return list(np.array_split(sorted(cores), local_size)[local_rank])", "cores of type int64"),
    Wrong("13.1", "a generator", PIECE, PIECE.replace("return cores[begin:end]",
          "return (core for core in cores[begin:end])"), "Return a list of cores"),
    Wrong("13.2", "each rank divides by its own images: a mean of every rank, added up",
          LOSS, MEAN, "the sum of the ranks' means"),
    Wrong("13.2", "the mean of means, of unequal parts", [LOSS, ADD],
          [MEAN, ADD + EACH + "weight.grad /= comm.size"], "a mean of means of unequal parts"),
    Wrong("13.2", "never added up", ADD, "", "only this rank's own gradient"),
    Wrong("13.2", "gradients pile up", "    net.zero_grad()\n", "", "of the step before are still in it"),
    Wrong("13.2", "cleared in place, which fails in the first step", "    net.zero_grad()",
          EACH + "weight.grad.zero_()", "None before the first step"),
    Wrong("13.2", "added up before there is a gradient", LOSS + "\n" + ADD, ADD.strip() + "\n    " + LOSS,
          "Call add_up after backward"),
    Wrong("13.2", "the weights become float64", [LOSS], [LOSS.replace("net(images)", "net.double()(images.double())")],
          "the weights changed"),
    Wrong("13.2", "a weight update is made, too",
          ADD, ADD + EACH + "weight.data -= 0.1 * weight.grad", "the weights changed"),
    Wrong("13.2", "lower-case allreduce, which pickles",
          ADD, EACH + "weight.grad = comm.allreduce(weight.grad)", "goes by way of pickle"),
    Wrong("13.2", "every rank computes with all images", LOSS + "\n" + ADD, """\
both = comm.allgather((images, labels))
    images, labels = (torch.cat(parts) for parts in zip(*both))
    F.cross_entropy(net(images), labels).backward()""", "with its own images"),
    Wrong("13.2", "two forward passes", "    net.zero_grad()", "    net.zero_grad()\n    net(images)",
          "Each rank computes once"),
    Wrong("13.2", "batch by heart", "/ batch", "/ 10", "0.7 times the right gradient"),
    Wrong("13.2", "added up twice", ADD, ADD + "\n" + ADD, "and add up once"),
    Wrong("13.2", "the labels are overwritten", ADD, ADD + "\n    labels.zero_()", "images or labels were changed"),
    Wrong("13.3", "only the calling thread is bound: the pool keeps the old mask",
          "    for thread in lab13.threads():\n        os.sched_setaffinity(thread, cores)",
          "    os.sched_setaffinity(0, cores)", "Move every thread"),
    Wrong("13.3", "the main thread is left out",
          "in lab13.threads():", "in lab13.threads()[1:]:", "(the main one) may still run"),
    Wrong("13.3", "torch keeps its number of threads",
          "    torch.set_num_threads(len(cores))", "", "Torch's threads: expected"),
    Wrong("13.3", "all threads on the rank's first core",
          "os.sched_setaffinity(thread, cores)", "os.sched_setaffinity(thread, cores[:1])",
          "alone. Give it all cores"),
    Wrong("13.3", "cores counted from 0",
          "os.sched_setaffinity(thread, cores)", "os.sched_setaffinity(thread, range(len(cores)))",
          "Bind it to the cores of the list"),
]

RIGHT = [
    Right("13.1", "array_split, to a list of int", PIECE,
          "    return np.array_split(sorted(cores), local_size)[local_rank].tolist()"),
    Right("13.1", "a range of numbers, the remainder to the first ranks", PIECE, """\
    each, more = divmod(len(cores), local_size)
    begin = local_rank * each + min(local_rank, more)
    return tuple(sorted(cores)[begin : begin + each + (local_rank < more)])"""),
    Right("13.2", "the mean loss, weighted", LOSS,
          "loss = F.cross_entropy(net(images), labels) * len(images) / batch\n    loss.backward()"),
    Right("13.2", "image by image, log_softmax by hand", LOSS, """\
for image, label in zip(images, labels):
        (-torch.log_softmax(net(image[None]), 1)[0, label] / np.int64(batch)).backward()"""),
    Right("13.2", "one Allreduce for each weight", ["    net.zero_grad()\n    " + LOSS + "\n" + ADD], ["""\
    loss = F.cross_entropy(net(images), labels, reduction="sum") / batch
    for weight, own in zip(net.parameters(), torch.autograd.grad(loss, net.parameters())):
        total = np.empty(own.shape, np.float32)
        comm.Allreduce(sendbuf=own.numpy(), recvbuf=total)
        weight.grad = torch.from_numpy(total)"""]),
    Right("13.3", "torch's threads first, the threads by /proc", """\
    for thread in lab13.threads():
        os.sched_setaffinity(thread, cores)
    torch.set_num_threads(len(cores))""", """\
    torch.set_num_threads(len(cores))
    for name in os.listdir(f"/proc/{os.getpid()}/task"):
        os.sched_setaffinity(int(name), set(cores))"""),
]
