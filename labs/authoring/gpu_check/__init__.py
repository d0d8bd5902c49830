"""`make gpu-check`: one command for the first person who has a GPU.

main    `python -m authoring.gpu_check [--device cpu] [--minutes 10] [--labs 40,46]`

machine     what is here, by the doctor
plan        what runs, with which settings, and its share of the time
trial       the tests marked gpu
proof       from records and timelines: were the tensors on the device?
peak        achieved flop/s beside those of a product of matrices
report      the page of all that
conduct     the parts in their order
"""

from authoring.gpu_check.conduct import main

__all__ = ["main"]
