"""What a GPU machine without a network needs for `make gpu-check`, written by `make gpu-bundle`.

contents    which packages, and why so few
wheels      they are fetched, with all that they need
archive     one file, as small as it gets; and how it is opened
sequence    `python -m env.bundle [--python 3.12] [--without NAMES] [--out FOLDER]`
"""
