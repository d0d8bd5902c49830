"""labkit.placement: what MPI and Horovod may be given of a rank's tensors, said in records, and
staged."""

import sys
import types

import numpy as np
import pytest
from labkit import builds, launch, placement, record, world
from labkit.placement import Placement

from tests.labkit.launch.leftovers import nothing_left  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("nothing_left")

WAIT = 500  # seconds; where others are at work, importing PyTorch alone can take a minute

# All that staging does but the GPU: the copies are of the host's memory.
STAGED = Placement("cpu", True, "MPI", by_lab=True, reason="so that a test sees it")
AS_IT_IS = placement.on_host("MPI")


# --- what is decided


@pytest.fixture
def on_a_gpu(monkeypatch):
    """This process takes itself for a rank with a GPU, under an MPI that gives this reason to
    stage. gpus: that TensorFlow sees."""

    def pretend(reason: str, gpus=("GPU:1",)) -> None:
        config = types.SimpleNamespace(list_physical_devices=lambda kind: gpus)
        monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(config=config))
        monkeypatch.setattr(placement, "take_device", lambda: "cuda:1")
        monkeypatch.setattr(world, "device", lambda: "cuda:1")
        monkeypatch.setattr(placement, "mpi_reason", lambda: reason)

    return pretend


NOT_AWARE = "this MPICH does not take GPU memory"


@pytest.mark.parametrize("reason", ["", NOT_AWARE])
def test_on_a_gpu_mpi_decides_and_a_lab_of_numpys_arrays_stages(on_a_gpu, reason):
    assert AS_IT_IS.fields() == record.BY_MPI
    if world.device() == "cpu":
        assert placement.of_mpi() == placement.through_numpy() == AS_IT_IS
    on_a_gpu(reason)
    where = placement.of_mpi()
    assert where == Placement("cuda:1", bool(reason), "MPI", by_lab=bool(reason), reason=reason)
    where = placement.through_numpy()
    assert where == Placement("cuda:1", True, "MPI", by_lab=True, reason=where.reason)
    assert where.describe().startswith("Tensors on cuda:1, staged through the host for MPI: ")


def horovod(name="horovod.torch", nccl=0, cuda=True, gloo=False):
    """What of_horovod asks of Horovod's module, answered."""
    answers = {"nccl_built": nccl, "cuda_built": cuda, "gloo_enabled": gloo}
    calls = {asked: lambda answer=answer: answer for asked, answer in answers.items()}
    return types.SimpleNamespace(__name__=name, **calls)


@pytest.mark.parametrize(
    ("build", "hvd", "reason", "library", "staged", "by_lab"),
    [
        ("nccl", horovod(nccl=22705), NOT_AWARE, "NCCL", False, False),
        ("nccl", horovod(nccl=22705, gloo=True), NOT_AWARE, "NCCL", False, False),
        ("mpi", horovod(), "", "MPI", False, False),
        ("mpi", horovod(), NOT_AWARE, "MPI", True, True),
        ("mpi", horovod(gloo=True), "", "MPI", False, False),
        ("mpi", horovod(gloo=True), NOT_AWARE, "Gloo", True, True),
        ("host", horovod(), "", "MPI", True, False),
        ("host", horovod(gloo=True), NOT_AWARE, "Gloo", True, False),
        ("host", horovod(cuda=False), "", "MPI", True, True),
        ("host", horovod("horovod.tensorflow", cuda=False), NOT_AWARE, "MPI", True, False),
        # A build that the kit does not know is handed nothing that MPI would not take.
        ("/opt/horovod", horovod(), NOT_AWARE, "MPI", True, True),
        (None, horovod(), "", "MPI", False, False),
    ],
)
def test_on_a_gpu_the_build_of_horovod_decides(
    on_a_gpu, monkeypatch, build, hvd, reason, library, staged, by_lab
):
    on_a_gpu(reason)
    monkeypatch.setattr(builds, "current_horovod", lambda: build)
    where = placement.of_horovod(hvd)
    assert where == Placement("cuda:1", staged, library, by_lab, where.reason)
    assert bool(where.reason) == staged


def test_where_tensorflow_sees_no_gpu_its_tensors_are_on_the_host(on_a_gpu):
    """`tensorflow-cpu` beside a PyTorch with CUDA, as the set-up installs them by default."""
    on_a_gpu("", gpus=())
    assert placement.device_of_tensorflow() == "cpu"
    assert placement.of_horovod(horovod("horovod.tensorflow")) == AS_IT_IS
    assert placement.of_horovod(horovod("horovod.torch")).device == "cuda:1"


@pytest.mark.parametrize(
    ("launcher", "on_host", "gpus_seen", "own_gpus", "want"),
    [
        (None, 1, 2, [], 1),
        ("labkit", 4, 4, [], 1),
        ("labkit", 4, 3, [], 2),
        ("srun", 4, 4, ["n1 a", "n1 b", "n2 a", "n2 b"], 1),
        ("srun", 4, 1, ["n1 a", "n1 b", "n1 c", "n1 d"], 1),  # each is shown its own GPU alone
        ("srun", 4, 1, ["n1 a", "n1 b", "n1 a", "n1 b"], 2),
        ("srun", 4, 1, ["n1 a", None], 0),
    ],
)
def test_ranks_that_share_a_gpu(
    on_a_gpu, monkeypatch, launcher, on_host, gpus_seen, own_gpus, want
):
    on_a_gpu("")
    monkeypatch.setattr(world, "launcher", lambda: launcher)
    monkeypatch.setattr(world, "local_size", lambda: on_host)
    monkeypatch.setattr(world, "gpu_count", lambda: gpus_seen)
    monkeypatch.setattr(placement, "own_gpu", lambda: "n1 a")
    everyone = types.SimpleNamespace(allgather=lambda own: own_gpus)
    mpi = types.SimpleNamespace(COMM_WORLD=everyone)
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=mpi))
    assert placement.ranks_on_a_gpu() == want
    if own_gpus:
        assert placement.ranks_on_a_gpu(everyone) == want


# --- what is done, on real ranks


def through_mpi(comm, where):
    """(sum, rank 1's values, whether both are in the memory in which they began)."""
    import torch

    whole = torch.arange(1000, dtype=torch.float32, device=where.device).reshape(10, 100)
    own = whole * (comm.rank + 1)
    wide = torch.nn.Parameter(own.to(torch.float64))  # as the weights of a net
    places = (own.data_ptr(), wide.data_ptr())
    where.allreduce(comm, own)
    where.broadcast(comm, wide, root=1)
    same = places == (own.data_ptr(), wide.data_ptr())
    return own.cpu().numpy(), wide.detach().cpu().numpy(), same


def of_all_ranks(results):
    """Is it the sum of both ranks, and rank 1's values, in place?"""
    want = np.arange(1000, dtype=np.float32).reshape(10, 100)
    total, of_rank_1, in_place = results
    return np.array_equal(total, 3 * want) and np.array_equal(of_rank_1, 2 * want) and in_place


def through_mpi_both_ways(comm):
    return [through_mpi(comm, where) for where in (AS_IT_IS, STAGED)]


@pytest.mark.slow
def test_sums_and_broadcasts_by_mpi_are_in_place():
    for both in launch.run(through_mpi_both_ways, ranks=2, timeout=WAIT):
        assert all(of_all_ranks(results) for results in both)


def test_what_breaks_off_is_not_copied_back():
    import torch

    tensor = torch.ones(3)

    def break_off():
        with STAGED.lend(tensor) as memory:
            memory += 1
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        break_off()
    assert tensor.tolist() == [1, 1, 1]


def train_with_horovod(*places):
    """(for each place the weights after two steps, of nets that began apart; what of_horovod
    says)."""
    import horovod.torch as hvd

    hvd.init()
    found = placement.of_horovod()
    return [weights_trained(hvd, where) for where in places or (found, AS_IT_IS)], found


def weights_trained(hvd, where):
    import torch

    torch.manual_seed(hvd.rank())
    net = torch.nn.Linear(4, 3).to(where.device)
    where.broadcast_parameters(hvd, net.state_dict())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    named = net.named_parameters()
    optimizer = hvd.DistributedOptimizer(optimizer, named, compression=where.compression(hvd))
    for _ in range(2):
        optimizer.zero_grad()
        images = torch.full((5, 4), hvd.rank() + 1.0, device=where.device)
        net(images).square().mean().backward()
        optimizer.step()
    return [weight.detach().cpu().numpy() for weight in net.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["MPI", "Gloo"])
def test_horovod_trains_alike_staged_or_not(library):
    pytest.importorskip("horovod.torch")
    env = {"HOROVOD_CPU_OPERATIONS": library.lower()}
    trained = launch.run(train_with_horovod, AS_IT_IS, STAGED, ranks=2, env=env, timeout=WAIT)
    expected = trained[0][0][0]
    for by_place, where in trained:
        for got, want in zip(sum(by_place, []), expected * 2, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
        assert where.device != "cpu" or where == placement.on_host(library)


# --- on a GPU


def on_device(comm):
    import torch

    where = placement.of_mpi()
    return where, torch.cuda.current_device(), through_mpi(comm, where)


@pytest.mark.slow
@pytest.mark.gpu
def test_mpi_sums_a_gpus_tensors():
    for where, current, results in launch.run(on_device, ranks=2, timeout=WAIT):
        assert where.device == f"cuda:{current}"
        assert where.by_lab == where.staged == bool(where.reason)
        assert of_all_ranks(results)


@pytest.mark.slow
@pytest.mark.gpu
def test_horovod_trains_on_a_gpu_as_on_the_host():
    # One rank: two on one GPU are too many for NCCL.
    (((on_gpu, on_host), where),) = launch.run(train_with_horovod, ranks=1, timeout=WAIT)
    assert where.device == "cuda:0"
    for got, want in zip(on_gpu, on_host, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4)
