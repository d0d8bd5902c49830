"""The emulated devices: marks on storages, and the two modes that keep them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.emulated_gpu import nccl

HOST = None
UNKNOWN = -1  # memory that PyTorch's own C++ has taken: it is where the first tensor is that meets it
SECONDS = float(os.environ.get("EMULATED_SECONDS", "0"))
# Their tensors may be on different devices: copies, and an index from the host.
ACROSS = ("aten::copy_", "aten::_to_copy", "aten::index", "aten::_index_put", "aten::lift_fresh")

count = 0
current = 0
busy_until: dict[int, float] = {}  # device -> the time at which it has done all its work
_bare = threading.local()  # inside: this thread is between a factory's call and its operations


def place(tensor: torch.Tensor) -> int | None:
    """The device of a tensor: its number, HOST or UNKNOWN."""
    return getattr(tensor.untyped_storage(), "emulated_device", HOST)


def put(tensor: torch.Tensor, device: int | None) -> torch.Tensor:
    """Mark a tensor's memory as that of a device. Returns the tensor."""
    tensor.untyped_storage().emulated_device = device
    return tensor


def number(device: object) -> int | None:
    """The number of a device in PyTorch's words, HOST for "cpu". RuntimeError for one that is not there."""
    if device is None:
        return current
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != "cuda":
            return HOST
        index = current if device.index is None else device.index
    if not 0 <= index < count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return index


def work(device: int) -> None:
    """Put one operation on a device's time line."""
    busy_until[device] = max(busy_until.get(device, 0.0), time.perf_counter()) + SECONDS


def wait(device: object = None) -> None:
    """Until a device has done its work."""
    index = number(device)
    if index is not HOST:
        time.sleep(max(0.0, busy_until.get(index, 0.0) - time.perf_counter()))


def tensors_in(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class Operations(TorchDispatchMode):
    """Every operation, also of backward passes: refuses tensors of two devices, and marks its results."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        asked = kwargs.get("device")
        if asked is not None and asked.type == "cuda":
            kwargs["device"] = torch.device("cpu")
            result = func(*args, **kwargs)
            for tensor in tensors_in(result):
                put(tensor, number(asked))
            return result
        given = [tensor for tensor in tensors_in((args, kwargs)) if _has_memory(tensor)]
        name = func._schema.name
        if name.startswith("c10d::"):
            nccl.check(args, given)
            return func(*args, **kwargs)
        places = {place(tensor) for tensor in given}
        devices = {found for found in places if found not in (HOST, UNKNOWN)}
        on_host = [tensor for tensor in given if place(tensor) is HOST and tensor.dim() > 0]
        if not name.startswith(ACROSS) and (len(devices) > 1 or (devices and on_host)):
            found = sorted({f"cuda:{index}" for index in devices} | ({"cpu"} if on_host else set()))
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{' and '.join(found[:2])}! (in {name})"
            )
        result = func(*args, **kwargs)
        if devices:
            self._mark(name, given, result, devices)
        elif places <= {UNKNOWN} and not getattr(_bare, "inside", False):
            _mark_new(given, result, UNKNOWN)
        return result

    @staticmethod
    def _mark(name: str, given: list, result: object, devices: set[int]) -> None:
        device = place(given[0]) if name == "aten::copy_" else min(devices)
        for tensor in given:
            if place(tensor) == UNKNOWN:
                put(tensor, min(devices))
        _mark_new(given, result, min(devices))
        if device in (HOST, UNKNOWN):
            wait(min(devices))  # a copy to the host returns when it is there
        else:
            work(device)


def _mark_new(given: list, result: object, device: int) -> None:
    """Mark what an operation has made, and not what it returns of what it was given."""
    known = {tensor.untyped_storage()._cdata for tensor in given}
    for tensor in tensors_in(result):
        if _has_memory(tensor) and tensor.untyped_storage()._cdata not in known:
            put(tensor, device)


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided


class Calls(TorchFunctionMode):
    """Every call from Python: device arguments, copies between devices, and what only the host may do."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return _property(func, args, kwargs)
        if args and isinstance(args[0], torch.Tensor):
            rule = RULES.get(name)
            if rule:
                return rule(func, args, kwargs)
        return _plain(func, args, kwargs)


def _plain(func, args, kwargs):
    """Any other call: what it makes is on the device that it names, and else, of no tensor, on the host."""
    kwargs.pop("pin_memory", None)  # which needs a driver
    asked = kwargs.get("device")
    by_another_mode = isinstance(func, torch._ops.OpOverload)  # which Operations will see next
    if by_another_mode or (asked is None and tensors_in((args, kwargs))):
        return func(*args, **kwargs)
    device = HOST if asked is None else number(asked)
    if device is not HOST:  # torch.tensor and its like take memory where no mode sees it
        kwargs["device"] = "cpu"
    with _factory():
        result = func(*args, **kwargs)
    if device is not HOST:
        for tensor in tensors_in(result):
            put(tensor, device)
    return result


@contextmanager
def _factory():
    before = getattr(_bare, "inside", False)
    _bare.inside = True
    try:
        yield
    finally:
        _bare.inside = before


def _property(func, args, kwargs):
    """Tensor.device, .is_cuda and their like."""
    tensor = args[0]
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if name not in ("device", "is_cuda", "is_cpu") or not isinstance(tensor, torch.Tensor):
        return func(*args, **kwargs)
    if not _has_memory(tensor) or place(tensor) in (HOST, UNKNOWN):
        return func(*args, **kwargs)
    answers = {"device": torch.device("cuda", place(tensor)), "is_cuda": True, "is_cpu": False}
    return answers[name]


def _to(func, args, kwargs):
    tensor, *rest = args
    if rest and isinstance(rest[0], torch.Tensor):
        rest = [place(rest[0]) if place(rest[0]) is not HOST else "cpu", rest[0].dtype, *rest[1:]]
    if rest and isinstance(rest[0], int):
        rest[0] = torch.device("cuda", rest[0])
    copy = kwargs.pop("copy", False)
    device, dtype, _, _ = torch._C._nn._parse_to(*rest, **kwargs)
    to = number(device) if device is not None else place(tensor)
    dtype = dtype or tensor.dtype
    if to == place(tensor) and not copy:
        return func(tensor, dtype)
    return _copied(func(tensor, "cpu", dtype, copy=True), place(tensor), to)


def _copied(tensor, source, to):
    """A copy that goes from one device to another: the host waits for what it gets."""
    if source not in (HOST, UNKNOWN) and to is HOST:
        wait(source)
    return put(tensor, to)


def _cuda(func, args, kwargs):
    to = number(args[1] if len(args) > 1 else kwargs.get("device"))
    tensor = args[0]
    return tensor if place(tensor) == to else _copied(tensor.clone(), place(tensor), to)


def _cpu(func, args, kwargs):
    tensor = args[0]
    return tensor if place(tensor) is HOST else _copied(tensor.clone(), place(tensor), HOST)


def _read(func, args, kwargs):
    """`.item()` and `.tolist()` copy to the host, and wait."""
    if place(args[0]) not in (HOST, UNKNOWN):
        wait(place(args[0]))
    return func(*args, **kwargs)


def _host_only(func, args, kwargs):
    device = place(args[0])
    if device not in (HOST, UNKNOWN):
        raise TypeError(
            f"can't convert cuda:{device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )
    return func(*args, **kwargs)


def _dlpack(func, args, kwargs):
    if place(args[0]) not in (HOST, UNKNOWN):
        raise BufferError("memory of an emulated GPU: an MPI without CUDA would crash here")
    return func(*args, **kwargs)


def _type(func, args, kwargs):
    name = func(*args, **kwargs)
    on_gpu = len(args) == 1 and not kwargs and place(args[0]) not in (HOST, UNKNOWN)
    return name.replace("torch.", "torch.cuda.", 1) if on_gpu else name


def _new(func, args, kwargs):
    """`tensor.new(…)` takes memory where no mode sees it."""
    return put(func(*args, **kwargs), place(args[0]))


def _backward(func, args, kwargs):
    """Hooks of backward passes are code of a lab, too: the mode is on while they run."""
    names = ("gradient", "retain_graph", "create_graph", "inputs")
    given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
    with Calls():
        torch.autograd.backward(
            args[0],
            given.get("gradient"),
            given.get("retain_graph"),
            given.get("create_graph", False),
            inputs=given.get("inputs"),
        )


def _get_device(func, args, kwargs):
    device = place(args[0])
    return -1 if device in (HOST, UNKNOWN) else device


RULES = {
    "to": _to,
    "cuda": _cuda,
    "cpu": _cpu,
    "item": _read,
    "tolist": _read,
    "numpy": _host_only,
    "__array__": _host_only,
    "pin_memory": _host_only,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack,
    "type": _type,
    "get_device": _get_device,
    "backward": _backward,
    "new": _new,
}


def enter_modes() -> None:
    """Keep both modes in this thread for as long as it lives."""
    Calls().__enter__()
    Operations().__enter__()
