"""Lab 80: a scaling study of one's own, on virtual or real ranks, and the report about it.

| of | name | what it is |
|---|---|---|
| setup | `begin`, `Setup` | counts of ranks, seconds of an image, bytes of gradients, links |
| study | `Notes` | writes predictions, measurements and citations down, and measures |
| report | `assemble`, `publish` | a report's text from its sections; its file, and its page |
| | `print_figures` | names and values that it may hold |
| answers tried | `expect_foretell`, `expect_plan` | what is expected of predictions and plans |
| | `expect_losses`, `expect_node_hours`, `expect_report` | of losses, of costs, of a report |
"""

from support.lab80.checks import (
    expect_foretell,
    expect_losses,
    expect_node_hours,
    expect_plan,
    expect_report,
)
from support.lab80.notes import Notes
from support.lab80.setup import Setup, begin
from support.lab80.text import assemble, print_figures, publish

__all__ = [
    "Notes",
    "Setup",
    "assemble",
    "begin",
    "expect_foretell",
    "expect_losses",
    "expect_node_hours",
    "expect_plan",
    "expect_report",
    "print_figures",
    "publish",
]
