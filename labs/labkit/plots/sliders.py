"""A plot that the reader moves: drawn anew for each place of its sliders."""

from __future__ import annotations

from labkit import lab, world


def slider(draw, **choices):
    """In a notebook call draw(name=value, …) anew whenever a slider moves; elsewhere once.

    choices: name -> the values to choose from; each slider begins at the middle one. A solved lab
    that runs from beginning to end has no reader, so it draws once, too.
    """
    begin = {name: values[len(values) // 2] for name, values in choices.items()}
    if lab.solved() or not world.in_kernel():
        draw(**begin)
        return
    import ipywidgets

    sliders = {
        name: ipywidgets.SelectionSlider(
            options=values, value=begin[name], description=name.replace("_", " ")
        )
        for name, values in choices.items()
    }
    ipywidgets.interact(draw, **sliders)
