"""What stands before `make gpu-check`: an environment to run it in, from the set-up or from a bundle.

__main__    `python -m env.gpu_check [--bundle FOLDER] [--device cpu] …`
place       a virtual environment out of a bundle, on top of the Python that has PyTorch
compile     Horovod for PyTorch alone, compiled while the check runs what does not need it
"""
