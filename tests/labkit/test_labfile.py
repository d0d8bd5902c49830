"""labkit.labfile: settings from a command line, parameters put into a script."""

from __future__ import annotations

from labkit import labfile


def test_settings_are_literals_or_words():
    assert labfile.read_setting("a=1e-3") == ("a", 1e-3)
    assert labfile.read_setting("a=(1, 2)") == ("a", (1, 2))
    assert labfile.read_setting("a=mpi") == ("a", "mpi")
    assert labfile.read_setting("a=x=y") == ("a", "x=y")
