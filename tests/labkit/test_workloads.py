"""labkit.workloads: operations as published, MFU as PaLM defines it, and tiny variants that train."""

import time

import pytest
import torch
from labkit import nets, workloads, world
from labkit.errors import LabError
from torch.nn import functional


@pytest.fixture(autouse=True)
def _one_thread():
    """In nets as small as these, threads wait for one another longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def parameters(net: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in net.parameters())


def test_resnet50_costs_what_the_layer_table_and_torchvision_say():
    """Backward has two products for each of forward's, but none for the images' own gradient."""
    with torch.device("meta"):
        assert parameters(workloads.resnet50()) == 25_557_032  # torchvision's documentation
    table = nets.layer_table("resnet50")
    first = table.flops.iloc[0]
    assert workloads.flops_of("resnet50") == 3 * table.flops.sum() - first


def test_gpt2_costs_what_palms_formula_says():
    """6 N + 12 L H Q T a token (Chowdhery et al. 2022, appendix B), N without what multiplies
    nothing."""
    with torch.device("meta"):
        assert parameters(workloads.gpt2()) == 124_439_808  # OpenAI's smallest GPT-2 ("124M")
    layers, heads, width, length = 12, 12, 768, 1024
    attention = 12 * layers * heads * (width // heads) * length
    a_token = workloads.flops_of("gpt2") / length
    matrices = 12 * layers * width**2 + 50257 * width
    assert a_token == 6 * matrices + attention
    assert a_token == pytest.approx(6 * 124_439_808 + attention, rel=0.01)


def test_mfu_is_what_palm_reported():
    """PaLM 540B: 238.3 thousand tokens/s on 6,144 TPU v4 of 275 Tflop/s are 46.2 % (table 3)."""
    a_token = 6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048
    reached = workloads.mfu(238.3e3 * a_token, 1.0, 6144 * 275e12)
    assert reached == pytest.approx(0.462, abs=0.001)


@pytest.mark.parametrize(("name", "precision"), [("tiny resnet", "fp32"), ("tiny gpt", "bf16")])
def test_a_tiny_variant_learns_its_batch_and_says_how_fast(name, precision):
    load = workloads.load(name, "cpu", precision)
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.1)
    losses = []

    def step():
        optimizer.zero_grad()
        logits = load.net(load.inputs)
        assert logits.dtype == torch.float32
        loss = functional.cross_entropy(logits, load.labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    speed = load.speeds({"a step": step})["a step"]
    assert len(losses) == 2, "two steps are a smoke run"
    while len(losses) < 40:
        step()
    assert losses[-1] < 0.7 * losses[0]
    took = speed.seconds.median
    unit = "images/s" if "resnet" in name else "tokens/s"
    mfu = pytest.approx(load.flops / took / load.peak)
    said = {"workload": name, "precision": precision, "unit": unit, "mfu": mfu}
    assert {field: speed.fields()[field] for field in said} == said
    assert 0 < speed.mfu < 1
    assert speed.rate == pytest.approx(load.amount / took)
    assert f"{speed.rate:,.0f} {unit}" in str(speed)
    assert "communication" not in str(speed)


def test_a_control_gives_the_share_of_communication():
    load = workloads.load("tiny gpt", "cpu")
    steps = {"all": lambda: time.sleep(0.08), "alone": lambda: time.sleep(0.02)}
    speeds = load.speeds(steps, control="alone")
    share = 1 - speeds["alone"].seconds.median / speeds["all"].seconds.median  # about 0.75
    assert speeds["all"].communication == pytest.approx(share)
    assert 0.4 < share < 0.9
    assert speeds["alone"].communication is None
    assert f"communication is {share:.0%}" in str(speeds["all"])


def test_mixed_precision_computes_in_bfloat16_and_keeps_weights():
    load = workloads.load("tiny resnet", "cpu")
    kinds = set()
    convolution = load.net[0][0]
    convolution.register_forward_hook(lambda layer, given, output: kinds.add(output.dtype))
    load.net(load.inputs).sum().backward()
    assert kinds == {torch.bfloat16}
    weights = list(load.net.parameters())
    assert {each.dtype for w in weights for each in (w, w.grad)} == {torch.float32}
    assert load.inputs.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("contiguous", [True, False])
def test_weights_and_gradients_can_be_kept_contiguous(contiguous):
    """Gradients take the layout of their weights: torch.nn.utils.parameters_to_vector needs it."""
    load = workloads.load("tiny resnet", "cpu", contiguous=contiguous)
    functional.cross_entropy(load.net(load.inputs), load.labels).backward()
    gradients = [weights.grad for weights in load.net.parameters()]
    assert all(gradient.is_contiguous() for gradient in gradients) == contiguous


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("name", workloads.LARGE)
def test_a_large_workload_uses_a_gpu(name):
    """A floor against gross mistakes, such as tensors that were left on the host; no aim."""
    load = workloads.load(name, "cuda:0")
    optimizer = torch.optim.SGD(load.net.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(load.net(load.inputs), load.labels).backward()
        optimizer.step()

    speed = load.speeds({"a step": step})["a step"]
    print(torch.cuda.get_device_name(0), speed)
    assert load.inputs.is_cuda
    assert 0.02 < speed.mfu < 1


def test_what_a_parameter_asks_for(monkeypatch, capsys):
    assert workloads.chosen("tiny") == workloads.TINY
    assert workloads.chosen("gpt2") == ("gpt2",)
    monkeypatch.setattr(world, "device", lambda: "cpu")
    assert workloads.chosen("auto") == ()
    assert "no GPU here" in capsys.readouterr().out
    monkeypatch.setattr(world, "device", lambda: "cuda:0")
    assert workloads.chosen("auto") == workloads.LARGE
    assert workloads.chosen("digits") == ()
    with pytest.raises(LabError, match="no workload 'bert'; there are"):
        workloads.chosen("bert")


PEAKS = {  # Tflop/s, as published
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA A100 80GB PCIe": 312,
    "NVIDIA H100 80GB HBM3": 989,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA H100 NVL": 835,
    "NVIDIA H200": 989,
    "NVIDIA H200 NVL": 835,
    "NVIDIA L40S": 362,
}


def test_a_known_gpu_has_its_published_peak_and_ranks_share_it(monkeypatch):
    for name, teraflops in PEAKS.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        for ranks in (1, 4):
            want = (teraflops / ranks * 1e12, workloads.PUBLISHED)
            assert workloads.peak("cuda:0", "bf16", 8192, ranks) == want, name


def test_of_other_gpus_and_of_a_part_of_one_no_peak_is_published():
    for name in (
        "Tesla T4",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    ):
        assert workloads.published(name) is None, name


def test_the_peak_of_another_device_is_measured():
    flops, source = workloads.peak("cpu", "fp32", 256)
    assert source == workloads.MEASURED
    assert 1e8 < flops < 1e15
