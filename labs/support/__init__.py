"""What single labs have for themselves: support.lab44 is lab 44's, imported as
`from support import lab44`.

Each has a page of its own that lists what the lab uses. None imports another; what labs share is in
labkit.
"""
