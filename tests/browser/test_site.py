"""The built site, on a desk and on a phone, by day and by night: nothing overflows, nothing is missing.

`make test-browser` builds it first: build/docs.
"""

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "build" / "docs"
PAGES = [
    *("index", "publish", "build", "nightly", "guides", "reference", "researchers", "house", "concepts", "people"),
    *(
        "note",
        "threat_model",
        "benchmarks/README",
        "benchmarks/peers",
        "proofs/partition",
        "api/opendp_tree",
        "notebooks/prefixes",
    ),
    *("notebooks/regions", "command_line", "elsewhere", "planning"),
]
DESK, PHONE = (1280, 900), (390, 844)
CUT = """() => [...document.querySelectorAll("article :is(pre, table, .js-plotly-plot)")].filter(each =>
    each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== "auto"
).map(each => each.innerText)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_screen_and_reads_in_its_theme(browser, name, size, theme):
    path = SITE / f"{name}.html"
    assert path.is_file(), "not built. Hint: make docs"
    page = browser.new_page(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=theme)
    broken = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.goto(path.as_uri())
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1"), "the page is too wide"
    assert page.evaluate("[...document.images].every(each => each.complete && each.naturalWidth > 0)")
    assert page.locator("article h1").count() >= 1
    assert page.evaluate(CUT) == [], "wide code and tables scroll in their own box"
    hidden = "[...document.querySelectorAll('.cell_output th')].filter(each => !each.offsetHeight).length"
    assert page.evaluate(hidden) == 0, "tables of notebooks have column names"
    empty = "[...document.querySelectorAll('.bd-sidebar-primary')].filter(each => each.offsetWidth && !each.innerText)"
    # On a phone the side bar is a drawer with the header's links, closed at first.
    assert size == PHONE or page.evaluate(f"{empty}.length") == 0, "the side bar is empty"
    assert contrast(page) >= 7, "text must stand out from its background"
    assert broken == []
    page.close()


def contrast(page):
    """Of a paragraph's text against what is behind it, as WCAG counts it."""
    colours = page.evaluate(
        """() => {
            const text = document.querySelector('article p, article td');
            const solid = node => {
                for (; node; node = node.parentElement) {
                    const colour = getComputedStyle(node).backgroundColor;
                    if (!/, 0\\)$|transparent/.test(colour)) return colour;
                }
                return 'rgb(255, 255, 255)';
            };
            const numbers = each => each.match(/[\\d.]+/g).slice(0, 3).map(Number);
            return [getComputedStyle(text).color, solid(text)].map(numbers);
        }"""
    )
    light, dark = sorted(map(luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [each / 255 for each in colour]
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_search_finds_what_a_newcomer_asks_for():
    index = (SITE / "searchindex.js").read_text()
    for word in ("epsilon", "ledger", "panda", "quantil"):  # stems, as the search has them
        assert f'"{word}"' in index or f"{word}:" in index, word
