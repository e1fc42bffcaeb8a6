"""Every picture in a real browser, on a wide screen and on a telephone."""

import re

import matplotlib.image
import numpy as np
import pytest

from opendp_tree import plot_level, plot_plan, plot_tree
from opendp_tree.plots import plot_bounds, write_html, write_image
from tests.browser.conftest import chromium, until
from tests.pictures import HOSTILE, mechanisms, release
from tests.releases.test_bound_report import REPORT

pytestmark = pytest.mark.browser
SIZES = pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
SECTORS = """#picture .slice:has(path[d]:not([d=""]))"""  # those beyond the first view have an empty path
BARS, LINES = "#picture .barlayer .point", "#picture .scatterlayer .trace"


def first_view(figure):
    """How many boxes have fewer levels above them than are shown at once."""
    levels = [0]
    for parent in figure.data[0].parents[1:]:
        levels.append(levels[int(parent)] + 1)
    return sum(level < figure.data[0].maxdepth for level in levels)


COUNTS = {
    SECTORS: first_view,
    BARS: lambda figure: len(figure.data[0].x),
    LINES: lambda figure: len(figure.data),
}
HIERARCHIES = ("icicle", "treemap", "sunburst")
PICTURES = {
    **{kind: (lambda kind=kind: plot_tree(release(), kind=kind), SECTORS) for kind in HIERARCHIES},
    "level": (lambda: plot_level(release(), 2), BARS),
    "level of a few": (lambda: plot_level(release(), 1), BARS),
    "plan": (lambda: plot_plan(mechanisms()), LINES),
    "plan for open nodes": (lambda: plot_plan(mechanisms("open")), LINES),
    "bounds": (lambda: plot_bounds(REPORT), LINES),
}
HOVERS = {
    **dict.fromkeys(HIERARCHIES, r"estimate [\d,]+95 % interval [\d,]+ to [\d,]+ \(±[\d.]+ %\)"),
    **dict.fromkeys(("level", "level of a few"), r"region \d.*estimate [\d,]+95 % interval [\d,]+ to [\d,]+"),
    **dict.fromkeys(("plan", "plan for open nodes"), r"\wweight [\d,.]+error (at most )?[\d.]+"),
    "bounds": r"at most 1 rows70 %95 % interval 60 % to 80 %",
}
TEXTS = """() => [...document.querySelectorAll("h1, header p, footer p, #picture text")].map(node => {
    const box = node.getBoundingClientRect();
    return [node.textContent, box.left, box.right, box.top + scrollY, box.bottom + scrollY];
}).filter(([text, left, right, top, bottom]) => text.trim() && right > left && bottom > top)"""
BOX = """selector => {
    const box = document.querySelector(selector).getBoundingClientRect();
    return [box.left, box.right, box.top, box.bottom];
}"""
LABELS = """() => [...document.querySelectorAll("#picture .ytick text")].map(
    node => node.getBoundingClientRect().left)"""
POINT = """([selector, number, most]) => {  // half-way along a mark's outline, or where a line begins
    const path = document.querySelectorAll(selector)[number].querySelector("path");
    const at = path.getPointAtLength(Math.min(path.getTotalLength() / 2, most)), matrix = path.getScreenCTM();
    return [at.x * matrix.a + matrix.e, at.y * matrix.d + matrix.f];
}"""
OVERHANG = """() => [...document.querySelectorAll("#picture .slice")].map(sector => {
    const text = sector.querySelector("text"), box = sector.querySelector("path").getBoundingClientRect();
    const words = text && text.textContent.trim() ? text.getBoundingClientRect() : {width: 0};
    if (!words.width) return null;
    return Math.max(box.left - words.left, words.right - box.right, box.top - words.top, words.bottom - box.bottom);
}).filter(overhang => overhang !== null)"""


UNNAMED = """() => {  // boxes that have the height of a row of text, and no text
    const sectors = [...document.querySelectorAll("#picture .slice")].map(sector => [
        sector.querySelector("path").getBoundingClientRect(), sector.querySelector("text")]);
    return sectors.filter(([box, text]) => box.width && box.height >= 18 && !(text && text.textContent.trim()))
        .map(([box]) => [box.left, box.top, box.height]);
}"""


def selector_of(name):
    return PICTURES[name][1]


def middle(page, selector, number):
    """A place on a mark: sectors of a ring have their middle in the ring, which a box does not know."""
    sectors = page.locator(selector)
    if page.locator("#picture .sunburstlayer .slice").count() or selector == LINES:
        return page.evaluate(POINT, [selector, number, 1 if selector == LINES else 1e9])
    box = sectors.nth(number).locator("path").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def hover(page, x, y):
    page.mouse.move(x, y)
    page.wait_for_selector(".hoverlayer .hovertext", state="attached")
    return page.locator(".hoverlayer").text_content()


def assert_nothing_is_cut(page, width):
    """Texts lie within the page, and the page is no wider than the window."""
    wide, tall = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert wide <= width
    texts = page.evaluate(TEXTS)
    assert texts
    for text, left, right, top, bottom in texts:
        assert min(left, top) >= -0.5, text
        assert right <= width + 0.5, text
        assert bottom <= tall + 0.5, text


def assert_not_blank(page, path):
    page.screenshot(path=path)
    pixels = matplotlib.image.imread(path)[:, :, :3]
    assert np.mean((pixels < 0.98).any(axis=2)) > 0.02
    assert len(np.unique((255 * pixels).astype(int).reshape(-1, 3), axis=0)) > 20


def assert_colour_bar(page, kind, width):
    texts = page.locator("#picture .infolayer text").all_text_contents()
    for text in ("Relative error: half the 95 % interval ÷ estimate", "≤ 0.1 %", "1 %", "10 %", "≥ 100 %"):
        assert text in texts
    left, right, top, bottom = page.evaluate(BOX, "#picture .cbfills")
    assert 0 <= left < right - 200
    assert right <= width
    assert page.evaluate(BOX, f"#picture .{kind}layer")[3] <= top
    assert bottom <= page.evaluate(BOX, "footer")[2]


@SIZES
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_whole_fit_and_tell_their_figures(name, width, height, look, tmp_path):
    figure, selector = PICTURES[name][0](), PICTURES[name][1]
    with look(write_html(figure, tmp_path / "picture.html"), width, height) as page:
        assert page.title() == page.locator("h1").text_content() == figure.layout.title.text
        lost = 10 if name == "treemap" else 0  # boxes that the margins of narrow boxes leave no room
        assert COUNTS[selector](figure) - lost <= page.locator(selector).count() <= COUNTS[selector](figure)
        assert_nothing_is_cut(page, width)
        left, right, top, bottom = page.evaluate(BOX, "#picture .main-svg")
        assert (left, right) == (0, width)
        assert page.evaluate(BOX, "header")[3] <= top
        assert page.evaluate(BOX, "footer")[2] >= bottom
        assert page.evaluate("document.documentElement.scrollHeight") >= height  # it fills the window
        assert_not_blank(page, tmp_path / "picture.png")
        if name in HIERARCHIES:
            assert_colour_bar(page, name, width)
        if name in ("icicle", "treemap"):
            overhang = page.evaluate(OVERHANG)
            assert len(overhang) > 5
            assert max(overhang) <= 1.5
        if name == "icicle":
            assert page.evaluate(UNNAMED) == []
        assert re.search(HOVERS[name], hover(page, *middle(page, selector, 0 if selector == LINES else 1)))
        assert_nothing_is_cut(page, width)


@SIZES
@pytest.mark.parametrize("kind", [*HIERARCHIES, "level"])
def test_labels_that_are_markup_or_long_are_shown_as_text(kind, width, height, look, tmp_path):
    given = release((8,), label=lambda level, number: HOSTILE[number], hide=False)
    title = HOSTILE[0]
    figure = plot_level(given, 1, title=title) if kind == "level" else plot_tree(given, kind=kind, title=title)
    selector = BARS if kind == "level" else SECTORS
    with look(write_html(figure, tmp_path / "picture.html"), width, height) as page:
        shown = []
        for number in range(page.locator(selector).count()):
            shown.append(re.sub(r"\s", "", hover(page, *middle(page, selector, number))))
            assert_nothing_is_cut(page, width)
            page.mouse.move(1, 1)
            page.wait_for_selector(".hoverlayer .hovertext", state="detached")
        for label in HOSTILE:
            bare = re.sub("[\\s\u202c\u202e]", "", label)
            assert any(bare in text for text in shown), label  # alone, or among those that are drawn together
        assert page.evaluate("window.hacked") is None
        assert page.locator("#picture :is(a, b, i, u, img, script, foreignObject)").count() == 0
        assert page.title() == page.locator("h1").text_content() == title


@SIZES
@pytest.mark.parametrize("kind", HIERARCHIES)
def test_ten_thousand_nodes_stay_usable(kind, width, height, look, tmp_path):
    given = release((50, 20, 10), total=1e6, hide=False)
    assert given.tree.node_count > 10_000
    path = write_html(plot_tree(given, kind=kind), tmp_path / "large.html")
    with look(path, width, height) as page:
        assert 50 < page.locator(SECTORS).count() < 1600
        assert_nothing_is_cut(page, width)
        assert_not_blank(page, tmp_path / "large.png")


@pytest.mark.parametrize("kind", HIERARCHIES)
def test_a_click_goes_into_a_node_and_back_out_and_the_window_may_shrink(kind, look, tmp_path):
    figure = plot_tree(release(), kind=kind)
    below = [place for place, parent in enumerate(figure.data[0].parents) if parent == "0"]
    largest = below[0]
    label = figure.data[0].text[largest].replace("<br>", "")
    with look(write_html(figure, tmp_path / "picture.html"), 1280, 800) as page:
        level = "document.getElementById('picture')._fullData[0].level"
        texts = page.locator(SECTORS).all_text_contents()
        number = next(place for place, text in enumerate(texts) if text and label.startswith(text))
        box = page.locator(SECTORS).nth(number).locator("text").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        until(page, f"{level} === '{largest}'")
        page.mouse.move(1, 1)
        page.wait_for_timeout(1000)  # the transition
        page.set_viewport_size({"width": 390, "height": 844})
        until(page, "document.querySelector('#picture .main-svg').getBoundingClientRect().width === 390")
        assert_nothing_is_cut(page, 390)
        out = page.locator("#picture .pathbar").first if kind != "sunburst" else page.locator(SECTORS).first
        out.click()
        until(page, f"{level} !== '{largest}'")


@SIZES
@pytest.mark.parametrize("name", ["icicle", "treemap", "level of a few", "plan for open nodes"])
def test_little_of_a_page_is_blank(name, width, height, look, tmp_path):
    """What is drawn has most of the window. A plan has a legend, and a footer of three lines or more.

    How wide the labels of bars are, is a matter of the machine's fonts: with them, little is blank; without, half.
    """
    with look(write_html(PICTURES[name][0](), tmp_path / "picture.html"), width, height) as page:
        layer = f"#picture .{name}layer" if name in HIERARCHIES else "#picture .nsewdrag"
        left, right, top, bottom = page.evaluate(BOX, layer)
        labels = page.evaluate(LABELS)
        assert bottom - top > (0.7 if selector_of(name) == LINES else 0.75) * height * (1 if width > 1000 else 0.73)
        assert right - left > (0.85 if width > 1000 else 0.5) * width
        assert right - min(left, *labels, width) > (0.85 if width > 1000 else 0.8) * width


def test_several_pictures_on_one_page_are_all_drawn(look, tmp_path):
    figures = [PICTURES[name][0]() for name in ("icicle", "level", "plan")]
    with look(write_html(figures, tmp_path / "pictures.html"), 1280, 800) as page:
        for place in ("picture", "picture-2", "picture-3"):
            until(page, f"Boolean(document.querySelector('#{place} .main-svg'))")
        assert page.locator("h1").all_text_contents() == [figure.layout.title.text for figure in figures]
        assert_nothing_is_cut(page, 1280)


@SIZES
@pytest.mark.parametrize("dark", [False, True])
def test_notebooks_show_releases_and_plans_without_cutting_or_running_anything(dark, width, height, browser, tmp_path):
    hostile = release((8,), label=lambda level, number: HOSTILE[number], hide=False)
    parts = "".join(each._repr_html_() for each in (release(), hostile, mechanisms("open")))
    colours = "background: #111; color: #ddd" if dark else "background: #fff; color: #111"
    path = tmp_path / "notebook.html"
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body style="{colours}">{parts}', encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.hacked") is None
    assert page.locator(".opendp-tree :is(a, b, i, u, img, script)").count() == 0
    assert page.locator(".opendp-tree tbody tr").count() > 30
    assert page.locator(".opendp-tree svg rect").count() > 25
    assert_not_blank(page, tmp_path / "notebook.png")
    page.close()


def test_images_are_drawn_for_paper(tmp_path, monkeypatch, browser):
    """By Kaleido, in the same Chromium: PNG of twice the size, with colours; SVG with every bar and all texts."""
    monkeypatch.setenv("BROWSER_PATH", chromium())
    tree = write_image(plot_tree(release()), tmp_path / "tree.png", width=800)
    picture = matplotlib.image.imread(tree)[:, :, :3]
    assert picture.shape[1] == 1600
    assert np.unique(picture.reshape(-1, 3), axis=0).shape[0] > 50
    assert (picture.min(axis=2) < 0.98).mean() > 0.3  # most of it is drawn on
    figure = plot_level(release(), 2)
    content = write_image(figure, tmp_path / "level.svg").read_text()
    assert content.startswith("<svg")
    assert content.count('class="point"') >= len(figure.data[0].x)
    for text in (figure.layout.title.text, "95 % interval", "Privacy: "):
        assert text in content
    assert "Click" not in content
    assert len(list(tmp_path.iterdir())) == 2
