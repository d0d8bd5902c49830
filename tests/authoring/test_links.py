"""Links in a lab's prose, the one list of pages outside, and the glossary."""

import re

import pytest
from authoring import generate, links
from labkit import labfile, paths
from labkit.errors import LabError

ROOT = paths.root()
STEM = "32_buckets_and_overlap"
RING = "23_ring_allreduce.ipynb"
FOLDED = "<details><summary>Hint 1: lab 23</summary>\n\nSee lab 23.\n</details>\n"

PROSE = [
    ("as in lab 23.", f"as in [lab 23]({RING})."),
    ("Lab 23 did it.", f"[Lab 23]({RING}) did it."),
    ("(labs 22 and 23)", f"(labs [22](22_latency_and_bandwidth.ipynb) and [23]({RING}))"),
    ("as in lab\n23.", f"as in [lab 23]({RING})."),
    ("labs 22, 23, and 99", f"labs [22](22_latency_and_bandwidth.ipynb), [23]({RING}), and 99"),
    ("this is lab 32", "this is lab 32"),  # no link to itself
    ("lab 99", "lab 99"),
    ("### Lab 23 once more", "### Lab 23 once more"),
    ("Needs: mpi · Before: 23", "Needs: mpi · Before: 23"),
    ("`lab 23`, 23 labs", "`lab 23`, 23 labs"),
    ("### A title\nas in lab 23", f"### A title\nas in [lab 23]({RING})"),
    ("    lab 23 in code\n\nlab 23", f"    lab 23 in code\n\n[lab 23]({RING})"),
    ("[lab 23](x.md)", "[lab 23](x.md)"),
    (f"{FOLDED}See lab 23.", f"{FOLDED}See [lab 23]({RING})."),
    ("[Horovod](@horovod)", "[Horovod](https://horovod.readthedocs.io)"),
    ("- [@mpi4py] How.", "- [MPI for Python (mpi4py)](https://mpi4py.readthedocs.io). How."),
    ("[@dean2013]", "J. Dean and L. Barroso, *[The Tail at Scale]"
     "(https://doi.org/10.1145/2408776.2408794)*, Communications of the ACM 56(2), 2013."),
    ("![Four ranks and a step](40_step.svg)",
     "![Four ranks and a step](../notebooks/figures/40_step.svg)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "written"), PROSE, ids=[text[:30] for text, _ in PROSE])
def test_prose_is_linked(text, written):
    assert links.expand(text, STEM, ROOT) == written


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[x](@nobody2020)", "@nobody2020 is not in solutions/bibliography.yaml"),
        ("[@nobody2020]", "add it there"),
        ("see https://example.org/x", "https://example.org/x stands in the text"),
        ("![Four ranks and one step](40_none.svg)", "draw it in labs/authoring/figures/lab40.py"),
        ("![Ranks](40_step.svg)", "has to say in a sentence what the figure shows"),
    ],
)
def test_what_does_not_exist_is_named(text, sentence):
    with pytest.raises(LabError, match=re.escape(sentence)):
        links.expand(text, STEM, ROOT)


def test_an_instructors_page_has_words_without_links():
    text = "![A ring of ranks](23_ring.svg)\n[Horovod](@horovod) and [lab 23](23.ipynb)"
    assert links.plain(text) == "\nHorovod and lab 23"


def test_the_bibliography_is_well_formed():
    entries = links.bibliography(ROOT)
    addresses = [entry["url"] for entry in entries.values()]
    assert len(set(addresses)) == len(addresses)
    for key, entry in entries.items():
        assert set(entry) <= {"title", "url", "authors", "venue", "year"}, key
        assert ("authors" in entry) == ("year" in entry), key
        assert re.fullmatch(r"https://[\w.-]+(/\S*)?", entry["url"]), key
        if "arxiv.org" in entry["url"]:
            assert re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{4,5}", entry["url"]), key
        if "doi.org" in entry["url"]:
            assert re.fullmatch(r"https://doi\.org/10\.\d{4,}/\S+", entry["url"]), key
        assert "year" not in entry or key.rstrip("ab").endswith(str(entry["year"])), key


def test_every_entry_is_cited():
    used = set()
    for stem in labfile.stems(ROOT):
        prose = [cell.source for cell in generate.load(stem, ROOT).cells if cell.kind == "markdown"]
        used |= links.cited("\n\n".join(prose))
    assert links.bibliography(ROOT).keys() == used


def test_a_lab_has_a_figure_before_its_first_exercise_and_further_reading():
    for stem in labfile.stems(ROOT):
        prose = labfile.solved_script(stem, ROOT).read_text(encoding="utf-8")
        before = prose.partition("### Exercise")[0]
        assert links.figures(before), f"{stem} shows no figure before its first exercise"
        assert "# ### Further reading" in prose, f"{stem} names nothing to read on"


# -- the glossary: in order, and each word stands in the lab that introduces it

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
