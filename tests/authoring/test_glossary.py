"""The glossary: in order, and each word stands in the lab that introduces it."""

import re

from labkit import labfile, paths

ROOT = paths.root()
ROW = re.compile(r"\| (.+?) \| (.+?) \| \[(\d\d)\]\(\.\./notebooks/(\d\d_\w+)\.ipynb\) \|")


def test_each_word_is_explained_and_introduced_by_a_lab():
    lines = (ROOT / "labs" / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    rows = [ROW.fullmatch(line) for line in lines if re.match(r"\| (?!term|-)", line)]
    assert all(rows)
    assert len(rows) >= 75
    terms = [row[1].lower() for row in rows]
    assert terms == sorted(set(terms))
    for row in rows:
        stem = labfile.find(row[3], ROOT)
        assert row[4] == stem
        source = labfile.solved_script(stem, ROOT).read_text(encoding="utf-8").lower()
        prose = re.sub(r"\s+", " ", source.replace("\n# ", " ").replace("*", ""))
        assert row[1].lower() in prose, f"{row[1]}: lab {row[3]} does not use it"
