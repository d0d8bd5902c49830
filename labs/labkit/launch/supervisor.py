"""The small process between a notebook's kernel and the ranks of one run: nothing outlives the run.

Run as a script, by path, with the standard library alone, so that it is up in milliseconds. It
starts the commands of `<folder>/plan.json`, waits, and when they have ended, or when the kernel has
gone (its end of our standard input closes), kills every process that descends from it. On Linux it
is the "subreaper" of its descendants: a process whose parent dies, even one that made itself a
session of its own, becomes its child and is still found.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

if __package__:
    from labkit.launch import shm
else:  # run by path
    # Last: the standard library comes first.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import shm

FINISHED, TOLD_TO_END = 0, 3  # exit statuses; any other means that the supervisor itself was killed
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # from <linux/prctl.h>
_ASK_SECONDS = 1.0
_KILL_SECONDS = 10.0  # a process in an uninterruptible system call cannot be killed: not for ever


def prctl(option: int, value: int) -> None:
    """Linux's prctl; elsewhere nothing happens, and the other lines of defense have to do."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, instead of process 1: so they can be
    found."""
    prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process the signal `number` when its parent `parent` dies."""
    prctl(_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def _parents() -> dict[int, int]:
    """pid -> parent pid of every process that can be seen."""
    parents = {}
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        # The command stands in parentheses and may hold spaces and parentheses
                        # itself.
                        parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
                except OSError:
                    continue  # it ended meanwhile
    else:
        for line in os.popen("ps -A -o pid= -o ppid="):
            pid, parent = line.split()
            parents[int(pid)] = int(parent)
    return parents


def descendants(top: int) -> list[int]:
    """All processes below `top`, in no particular order."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    below: list[int] = []
    waiting = [top]
    while waiting:
        own = children.get(waiting.pop(), [])
        below += own
        waiting += own
    return below


def kill_descendants() -> None:
    """Kill and reap until nothing is left below this process."""
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # no child left, and every orphan below would have become one
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.002)


def _start(command: list[str], env: dict[str, str], log: int) -> int:
    me = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with_parent(me, signal.SIGTERM)  # hydra then removes its files in /tmp
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvpe(command[0], command, env)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _wait(running: set[int], wake: int) -> tuple[bool, bool]:
    """Wait for the commands, all of them or the first that fails.

    Returns (finished, in order): not finished when the kernel has gone or wants the run to end.
    """
    parent = os.getppid()
    while running:
        # A forked child of the kernel may hold the pipe open after the kernel died: look at the
        # parent as well.
        ready, _, _ = select.select([0, wake], [], [], 1.0)
        if wake in ready and signal.SIGTERM in os.read(wake, 512):
            return False, False
        if (0 in ready and not os.read(0, 512)) or os.getppid() != parent:
            return False, False
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                running.discard(pid)
                if status:
                    return True, False
    return True, True


def _ask_to_end(running: set[int]) -> None:
    """Let mpiexec end its ranks and remove its own temporary files, for a moment: what is left is
    killed."""
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _ASK_SECONDS
    while running and time.monotonic() < end:
        time.sleep(0.005)
        running = {pid for pid in running if not os.waitpid(pid, os.WNOHANG)[0]}


def main(folder: str) -> int:
    import json  # the ranks import this file too, and do without

    adopt_orphans()
    with open(os.path.join(folder, "plan.json")) as file:
        plan = json.load(file)
    wake, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = os.open(
        os.path.join(folder, "launcher.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    running = {_start(command, env, log) for command, env in plan}
    finished, in_order = _wait(running, wake)
    _ask_to_end(running)
    kill_descendants()
    if not in_order:
        shm.unlink_abandoned()
    if not finished:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)  # the kernel may be gone and unable to
    return FINISHED if finished else TOLD_TO_END


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
