"""What each rank does, under either launcher: the learner's functions in a real training of the digits."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import cloudpickle
import numpy as np
from labkit import data

OWN = "hvd.elastic.run"
RANKS = 2  # at full strength
SAMPLES = 1000  # of an epoch
SEED = 71
PATIENCE = 100  # seconds until a training that waits for a node gives up


class Task(NamedTuple):
    """What a rank is told. Steps are counted from 1."""

    own_part: Callable
    after_resize: Callable
    run_elastic: Callable | str | None  # OWN: Horovod's; None under torchrun
    start: tuple[int, float, int]  # samples of a step, rate, ranks at the start
    keep: bool  # keep the global batch, or rescale
    every: int  # steps between two commits
    rank_dies_in: int  # the step in which the last rank is killed, once; 0: never
    wait_after: int  # the step after which a rank that is alone waits for the other node
    node_dies_in: int = 0  # the step in which the last rank and its launcher are killed, once; 0: never
    patience: float = PATIENCE  # seconds after which PyTorch calls a message failed
    pause: float = 0.0  # seconds between two steps


def epoch() -> np.ndarray:
    """The order of the samples in the epoch that is trained: the same on every rank."""
    return np.random.default_rng(SEED).permutation(SAMPLES)


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    digits = data.digits()
    return digits.train_x, digits.train_y


class Learner:
    """Net, optimizer and data of a rank; 64-bit numbers, so that sums in another order show nothing."""

    def __init__(self):
        import torch

        pictures, labels = _digits()
        self.pictures = torch.tensor(pictures[:SAMPLES], dtype=torch.float64)
        self.labels = torch.tensor(labels[:SAMPLES])
        torch.manual_seed(SEED)
        self.net = torch.nn.Linear(64, 10, dtype=torch.float64)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.0, momentum=0.9)

    def backward(self, own: np.ndarray, whole: int):
        """Gradients of this rank's part of a step, and of its loss, in one flat tensor. Their sum over ranks
        is of the mean over all `whole` samples of the step."""
        import torch

        own = torch.as_tensor(np.asarray(own, dtype=np.int64))
        logits = self.net(self.pictures[own])
        loss = torch.nn.functional.cross_entropy(logits, self.labels[own], reduction="sum") / whole
        self.optimizer.zero_grad()
        loss.backward()
        grads = [weights.grad.flatten() for weights in self.net.parameters()]
        return torch.cat([*grads, loss.detach().reshape(1)])

    def step(self, flat, rate: float) -> float:
        """One step with the sums over all ranks. Returns the loss."""
        place = 0
        for weights in self.net.parameters():
            weights.grad.copy_(flat[place : place + weights.numel()].view_as(weights))
            place += weights.numel()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return float(flat[-1])


class Diary:
    """Events of all ranks, a line each, in one file that outlives them."""

    def __init__(self, folder: Path):
        self.file = os.open(folder / "events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, event: str, **fields) -> None:
        line = {"event": event, "pid": os.getpid(), "time": time.monotonic(), **fields}
        os.write(self.file, json.dumps(line).encode() + b"\n")


def train(task: Task, learner: Learner, state, group, diary: Diary, folder: Path, launcher: int) -> None:
    """Steps until the epoch is over. state: has step and done; group: rank, size, total, commit, look."""
    order = epoch()
    rank, size = group.rank(), group.size()
    diary.add("begins", step=state.step, rank=rank, ranks=size, done=state.done)
    if task.run_elastic is None and size < RANKS and not (folder / "node died").exists():
        _wait_for_company(group)  # the other node is there, and has come late to the meeting
    batch, rate = task.after_resize(*task.start, size, task.keep)
    while state.done < SAMPLES:
        whole = min(batch, SAMPLES - state.done)
        own = task.own_part(order, state.done, batch, rank, size)
        flat = learner.backward(own, whole)
        if size == RANKS and rank == RANKS - 1:
            if state.step + 1 == task.rank_dies_in and _first(folder / "rank died"):
                diary.add("rank killed", step=state.step + 1, rank=rank, ranks=size)
                os.kill(os.getpid(), signal.SIGKILL)
            if state.step + 1 == task.node_dies_in and _first(folder / "node died"):
                diary.add("node killed", step=state.step + 1, rank=rank, ranks=size)
                os.kill(launcher, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
        loss = learner.step(group.total(flat), rate)
        state.step += 1
        state.done += whole
        used = [int(sample) for sample in own]
        diary.add("step", step=state.step, rank=rank, ranks=size, used=used, loss=loss, rate=rate)
        time.sleep(task.pause)
        if state.step % task.every == 0:
            group.commit()
        if size < RANKS and state.step == task.wait_after:
            diary.add("waits", step=state.step, rank=rank, ranks=size)
            _wait_for_company(group)
    diary.add("ends", step=state.step, rank=rank, ranks=size)


def _first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _wait_for_company(group) -> None:
    """It ends by an exception of Horovod's, or by torchrun's signal."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        group.look()
        time.sleep(0.05)
    raise SystemExit(f"No other node came within {PATIENCE} s.")


def play(launcher: int) -> None:
    """On a rank: the task in the folder that the environment names."""
    folder = Path(os.environ["LAB71_FOLDER"])
    task = cloudpickle.loads((folder / "task").read_bytes())
    diary = Diary(folder)
    diary.add("born", host=os.environ.get("HOROVOD_HOSTNAME", ""))
    try:
        if "HOROVOD_RANK" in os.environ:
            _with_horovod(task, diary, folder, launcher)
        else:
            _with_torch(task, diary, folder, launcher)
    except Exception as error:
        diary.add("raised", error=f"{type(error).__name__}: {error}")
        raise


def _with_horovod(task: Task, diary: Diary, folder: Path, launcher: int) -> None:
    import horovod.torch as hvd
    from horovod.common.elastic import notification_manager

    hvd.init()
    learner = Learner()
    state = hvd.elastic.TorchState(model=learner.net, optimizer=learner.optimizer, step=0, done=0)
    group = SimpleNamespace(
        rank=hvd.rank,
        size=hvd.size,
        total=lambda flat: hvd.allreduce(flat, op=hvd.Sum, name="gradients"),
        commit=state.commit,
        look=state.check_host_updates,
    )

    def meet() -> None:
        diary.add("meets")
        hvd.shutdown()
        hvd.init()
        state.on_reset()

    def work(state) -> None:
        train(task, learner, state, group, diary, folder, launcher)

    if task.run_elastic == OWN:
        hvd.elastic.run(work)(state)
    else:
        notification_manager.init()
        notification_manager.register_listener(state)
        task.run_elastic(work, state, meet)
        notification_manager.remove_listener(state)
    hvd.shutdown()


def _with_torch(task: Task, diary: Diary, folder: Path, launcher: int) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=task.patience))
    learner = Learner()
    state = SimpleNamespace(step=0, done=0)
    last = folder / "last.pt"
    if last.exists():
        saved = torch.load(last, weights_only=True)
        learner.net.load_state_dict(saved["net"])
        learner.optimizer.load_state_dict(saved["optimizer"])
        state.step, state.done = saved["step"], saved["done"]

    def total(flat):
        dist.all_reduce(flat)
        return flat

    def commit() -> None:
        if dist.get_rank() == 0:
            net, optimizer = learner.net.state_dict(), learner.optimizer.state_dict()
            saved = {"net": net, "optimizer": optimizer, "step": state.step, "done": state.done}
            torch.save(saved, folder / "next.pt")
            os.replace(folder / "next.pt", last)  # whoever reads finds the old one or the new one, whole

    group = SimpleNamespace(
        rank=dist.get_rank, size=dist.get_world_size, total=total, commit=commit, look=lambda: None
    )
    train(task, learner, state, group, diary, folder, launcher)
    dist.destroy_process_group()
