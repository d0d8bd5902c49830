"""The emulated devices: marks on storages, and the two modes that keep them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from functools import partial, wraps

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.emulated_gpu import nccl

HOST = None
# Memory that PyTorch's own C++ has taken: it is where the first tensor is that meets it.
UNKNOWN = -1
SECONDS = float(os.environ.get("EMULATED_SECONDS", "0"))
# Their tensors may be on different devices: copies, and an index from the host.
ACROSS = {
    *("aten::copy", "aten::copy_", "aten::_to_copy", "aten::lift_fresh", "aten::lift_fresh_copy"),
    *("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"),
}

_DEVICE = torch.Tensor.device.__get__

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
    """The number of a device in PyTorch's words, HOST for "cpu". RuntimeError for one that is not
    there."""
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
    """Every operation, also of backward passes: refuses tensors of two devices, and marks its
    results."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("pin_memory"):  # which needs a driver
            kwargs["pin_memory"] = False
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
        if name not in ACROSS and (len(devices) > 1 or (devices and on_host)):
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
    with torch._C.DisableTorchFunction():  # or a mode would ask the changed property
        return _DEVICE(tensor).type == "cpu" and tensor.layout == torch.strided


def on_gpu(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on an emulated device."""
    return _has_memory(tensor) and place(tensor) not in (HOST, UNKNOWN)


class Calls(TorchFunctionMode):
    """Every call from Python outside backward passes: what a factory makes is where it was asked
    for."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return _plain(func, args, dict(kwargs or {}))


def _plain(func, args, kwargs):
    """Any other call: what it makes is on the device that it names, and else, of no tensor, on the
    host."""
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


def _to(func, args, kwargs):
    tensor, *rest = args
    if not _has_memory(tensor):
        return func(*args, **kwargs)
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
    if on_gpu(args[0]):
        wait(place(args[0]))
    return func(*args, **kwargs)


def _host_only(func, args, kwargs):
    if on_gpu(args[0]):
        raise TypeError(
            f"can't convert cuda:{place(args[0])} device type tensor to numpy. Use Tensor.cpu() to"
            " copy the tensor to host memory first."
        )
    return func(*args, **kwargs)


def _dlpack(func, args, kwargs):
    if on_gpu(args[0]):
        raise BufferError("memory of an emulated GPU: an MPI without CUDA would crash here")
    return func(*args, **kwargs)


def _type(func, args, kwargs):
    name = func(*args, **kwargs)
    asks = len(args) == 1 and not kwargs
    return name.replace("torch.", "torch.cuda.", 1) if asks and on_gpu(args[0]) else name


def _new(func, args, kwargs):
    """`tensor.new(…)` takes memory where no mode sees it."""
    return put(func(*args, **kwargs), place(args[0]))


def _get_device(func, args, kwargs):
    return place(args[0]) if on_gpu(args[0]) else -1


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
    "new": _new,
}


# Properties, and what they are on a device.
PROPERTIES = {
    "device": lambda tensor: torch.device("cuda", place(tensor)),
    "is_cuda": lambda tensor: True,
    "is_cpu": lambda tensor: False,
}


def change_tensors() -> None:
    """Let tensors know where they are, everywhere: in hooks of a backward pass no mode sees a
    call."""
    for name, answer in PROPERTIES.items():
        ask = getattr(torch.Tensor, name).__get__
        setattr(torch.Tensor, name, property(partial(_property, ask, answer)))
    for name, rule in RULES.items():
        setattr(torch.Tensor, name, _method(getattr(torch.Tensor, name), rule))
    wrap = torch.Tensor._make_wrapper_subclass

    def wrapper_on_host(*args, **kwargs):
        # A tensor around another one, as PyTorch's functional collectives return.
        if torch.device(kwargs.get("device") or "cpu").type == "cuda":
            kwargs["device"] = torch.device("cpu")
        return wrap(*args, **kwargs)

    torch.Tensor._make_wrapper_subclass = staticmethod(wrapper_on_host)


def _property(ask, answer, tensor):
    return answer(tensor) if on_gpu(tensor) else ask(tensor)


def _method(func, rule):
    @wraps(func)
    def method(*args, **kwargs):
        return rule(func, args, kwargs)

    return method


def enter_modes() -> None:
    """Keep both modes in this thread for as long as it lives."""
    Calls().__enter__()
    Operations().__enter__()
