"""What lab 70 needs beside its exercises: a training to resume, kills, failures, a job that is preempted.

Training           a data-parallel training with all that an exact resume has to think of
try_resume         on ranks: captured in the middle, restored into a fresh training: what is as it was?
PARTS, place_of    what try_resume looks at, and where it stops
forget             on ranks: losses after a resume with one part of the state forgotten
pack, split        a checkpoint as a file's content, and back into label and payload
to_bytes, damaged  a state as bytes; a content with one bit turned over
model_of           a short text for a net's shapes
path_of, newest    a checkpoint's file; the newest good one of a folder
kill_everywhere    a save killed at each of its moments
kill_at_random     a process that saves, killed at random moments, and what is left
simulate           a long training with failures, simulated: the share of time that is lost
expected, daly, best   that share by Daly's formula; Daly's interval; the best one
loop_cases, try_loop   when a training loop should save and stop; on ranks: when it does
listening          a signal sets a flag
Answers            the learner's functions
live, killed_and_resumed   a training's life; two of them, with a kill -9 between
table              lives as a table: steps, done again, losses that differ from a training without a break
script, three_lives   the batch script; a job of the tabletop that is preempted, requeued, resumed
out_of_time        a job of the tabletop whose time limit's own signal comes
save_in_pieces, load_whole, weights_then   PyTorch's distributed checkpoint, sharded and in the background
without_metadata   how reading such a checkpoint ends that was not finished
"""

from support.lab70.asked import listening
from support.lab70.failures import best, daly, expected, simulate
from support.lab70.files import damaged, model_of, newest, pack, path_of, split, to_bytes
from support.lab70.kills import kill_at_random, kill_everywhere
from support.lab70.lives import Answers, Loss, killed_and_resumed, live, table, without_a_break
from support.lab70.requeue import out_of_time, script, three_lives
from support.lab70.sharded import load_whole, save_in_pieces, weights_then, without_metadata
from support.lab70.training import Training
from support.lab70.trials import PARTS, forget, loop_cases, place_of, try_loop, try_resume

__all__ = [
    "PARTS",
    "Answers",
    "Loss",
    "Training",
    "best",
    "daly",
    "damaged",
    "expected",
    "forget",
    "kill_at_random",
    "kill_everywhere",
    "killed_and_resumed",
    "listening",
    "live",
    "load_whole",
    "loop_cases",
    "model_of",
    "newest",
    "out_of_time",
    "pack",
    "path_of",
    "place_of",
    "save_in_pieces",
    "script",
    "simulate",
    "split",
    "table",
    "three_lives",
    "to_bytes",
    "try_loop",
    "try_resume",
    "weights_then",
    "without_a_break",
    "without_metadata",
]
