"""A file replaced at once, and what commands say."""

import stat

import pytest
from labkit import files


def test_a_replaced_file_is_the_old_one_or_the_new_one(tmp_path):
    file = tmp_path / "file"
    files.replace(file, "old")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.replace(file, "new", before=fail)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])
    files.replace(file, b"new", mode=0o644)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o644)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("echo", " a ", "b "), "a  b"),
        (("printf", r"\377"), "\N{REPLACEMENT CHARACTER}"),
        (("false",), None),
        (("no-such-program",), None),
        (("sleep", "5"), None),
        (("cat",), ""),  # nothing waits for somebody to type
    ],
)
def test_what_a_command_says(command, said):
    assert files.output(*command, limit=0.5) == said


def test_the_version_of_the_first_package_that_is_there():
    assert files.version("no-such-package", "pytest") == pytest.__version__
    assert files.version("no-such-package") is None
