"""The glossary: in order, and each word stands in the lab that introduces it, with links to it."""

import re

from authoring import links
from labkit import labfile, paths

ROOT = paths.root()
ENTRY = re.compile(r"## (.+)\n\n((?:.+\n)+)")
LAB = re.compile(r"Lab \[(\d\d)\]\(\.\./notebooks/(\d\d_\w+)\.ipynb\)\.\n$")


def test_each_word_is_explained_and_introduced_by_a_lab():
    entries = ENTRY.findall((ROOT / links.GLOSSARY).read_text(encoding="utf-8"))
    terms = [term.lower() for term, _ in entries]
    assert len(terms) >= 75
    assert terms == sorted(set(terms))
    assert dict(links.glossary(ROOT)) == {term: LAB.search(text)[1] for term, text in entries}
    for term, text in entries:
        number, stem = LAB.search(text).groups()
        assert labfile.find(number, ROOT) == stem
        source = labfile.solved_script(stem, ROOT).read_text(encoding="utf-8").lower()
        prose = re.sub(r"\s+", " ", source.replace("\n# ", " ").replace("*", ""))
        assert term.lower() in prose, f"{term}: lab {number} does not use it"


def test_the_first_use_of_a_word_leads_to_the_glossary():
    texts = [
        "# Ranks\nHorovod's **ring allreduce**. Ranks send [gradients](x), `rank`, to ranks.",
        "Zeros, ZeRO and a learning rate; ring allreduce, an allreduce-like $loss$, a Loss.",
    ]
    assert links.to_glossary(texts, "23_ring_allreduce", ROOT) == [
        "# Ranks\nHorovod's **ring allreduce**. [Ranks](../labs/GLOSSARY.md#rank) send"
        " [gradients](x), `rank`, to ranks.",
        "Zeros, [ZeRO](../labs/GLOSSARY.md#ZeRO) and a"
        " [learning rate](../labs/GLOSSARY.md#learning-rate); ring allreduce, an allreduce-like"
        " $loss$, a [Loss](../labs/GLOSSARY.md#loss).",
    ]
