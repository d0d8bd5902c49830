"""Pages that load nothing: formulas as pictures, prose as HTML, the same bytes each time."""

from authoring import offline


def test_formulas():
    image = offline.formula(r"\frac{a}{b} < \text{x}")
    assert image.startswith('<img class="math" style="height: ')
    assert 'alt="\\frac{a}{b} &lt; \\text{x}"' in image
    cases = offline.formula(r"\begin{cases} a < b \end{cases}")
    assert cases.startswith("<code>\\begin{cases} a &lt; b")


def test_prose_becomes_html():
    page = offline.to_html(
        "Half of $x$:\n- **one**\n- `$two$`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    assert page.count('class="math"') == 1
    assert "<strong>one</strong>" in page
    assert "<code>$two$</code>" in page
    assert "<td>1</td>" in page


def test_styles_lose_their_comments_and_prose_does_not():
    page = offline.without_comments("<style>a {} /* b\nc */</style><p>/* d */</p>")
    assert page == "<style>a {} </style><p>/* d */</p>"
