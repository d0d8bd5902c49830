"""After the tests on a GPU: one table of the labs that ran."""

from tests.gpu import kept


def pytest_terminal_summary(terminalreporter):
    if kept.REMEMBERED:
        terminalreporter.section("labs on the GPU")
        terminalreporter.write_line(kept.table(kept.REMEMBERED))
        terminalreporter.write_line(f"Their records are kept in {kept.FOLDER}.")
