"""Every picture in a real browser, on a wide screen and on a telephone."""

import re
import time

import matplotlib.image
import numpy as np
import pytest

from opendp_tree import plot_depths, plot_level, plot_plan, plot_tree, write_html
from tests.pictures import HOSTILE, depths, plan, release

pytestmark = pytest.mark.browser
SIZES = [(1280, 800), (390, 844)]
SECTORS, BARS, LINES = "#picture .slice", "#picture .barlayer .point", "#picture .scatterlayer .trace"
HIERARCHIES = ("icicle", "treemap", "sunburst")
PICTURES = {
    **{kind: (lambda kind=kind: plot_tree(release(), kind=kind), SECTORS) for kind in HIERARCHIES},
    "level": (lambda: plot_level(release(), 2), BARS),
    "level of a few": (lambda: plot_level(release(), 1), BARS),
    "plan": (lambda: plot_plan(plan()), LINES),
    "depths": (lambda: plot_depths(depths()), LINES),
}
HOVERS = {
    **dict.fromkeys(HIERARCHIES, r"estimate [\d,]+95 % interval [\d,−]+ to [\d,−]+ \(±[\d.]+ %\)"),
    **dict.fromkeys(("level", "level of a few"), r"region \d.*estimate [\d,]+95 % interval [\d,−]+ to [\d,]+"),
    "plan": r"weight [\d,.]+error \d+",
    "depths": r"depth \d+error [\d.]+",
}
TEXTS = """() => [...document.querySelectorAll("h1, header p, footer p, #picture text")].map(node => {
    const box = node.getBoundingClientRect();
    return [node.textContent, box.left, box.right, box.top + scrollY, box.bottom + scrollY];
}).filter(([text, left, right, top, bottom]) => text && right > left && bottom > top)"""
BOX = "selector => { const b = document.querySelector(selector).getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; }"
POINT = """([selector, number]) => {
    const path = document.querySelectorAll(selector)[number].querySelector("path");
    const at = path.getPointAtLength(path.getTotalLength() / 2), matrix = path.getScreenCTM();
    return [at.x * matrix.a + matrix.e, at.y * matrix.d + matrix.f];
}"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Each picture, drawn and written once."""
    folder, done = tmp_path_factory.mktemp("pictures"), {}

    def write(name):
        if name not in done:
            figure = PICTURES[name][0]()
            done[name] = figure, write_html(figure, folder / f"{name}.html")
        return done[name]

    return write


def marks(figure):
    first = figure.data[0]
    return len(first.ids) if "ids" in first else len(first.x) if first.type == "bar" else len(figure.data)


def centre(page, selector, number):
    box = page.locator(selector).nth(number).locator("path").first.bounding_box()
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
        assert left >= 0, text
        assert right <= width + 0.5, text
        assert top >= 0, text
        assert bottom <= tall + 0.5, text


def assert_not_blank(page, path):
    page.screenshot(path=path)
    pixels = matplotlib.image.imread(path)[:, :, :3]
    assert np.mean((pixels < 0.98).any(axis=2)) > 0.02
    assert len(np.unique((255 * pixels).astype(int).reshape(-1, 3), axis=0)) > 20


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_there_whole_and_fits(name, width, height, written, look, tmp_path):
    figure, path = written(name)
    with look(path, width, height) as page:
        assert page.title() == page.locator("h1").text_content() == figure.layout.title.text
        assert page.locator(PICTURES[name][1]).count() == marks(figure)
        assert_nothing_is_cut(page, width)
        _, _, top, _ = page.evaluate(BOX, "#picture")
        assert page.evaluate(BOX, "header")[3] <= top
        assert page.evaluate(BOX, "footer")[2] >= page.evaluate(BOX, "#picture")[3]
        assert page.evaluate("document.documentElement.scrollHeight") >= height  # it fills the window
        assert_not_blank(page, tmp_path / f"{name}-{width}.png")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", PICTURES)
def test_hovers_tell_the_figures_and_stay_on_the_screen(name, width, height, written, look):
    _, path = written(name)
    with look(path, width, height) as page:
        if name in ("plan", "depths"):
            place = page.evaluate(POINT, [LINES, 0])
        elif name == "sunburst":
            place = centre(page, SECTORS, page.locator(SECTORS).count() - 1)
            texts = [number for number in range(page.locator(SECTORS).count()) if number]
            place = page.evaluate(POINT, [SECTORS, texts[-1]])
        else:
            place = centre(page, PICTURES[name][1], 1)
        assert re.search(HOVERS[name], hover(page, *place))
        assert_nothing_is_cut(page, width)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", HIERARCHIES)
def test_the_colour_bar_is_whole_and_explains_itself(kind, width, height, written, look):
    _, path = written(kind)
    with look(path, width, height) as page:
        bar = page.locator("#picture .colorbar, #picture [class*='cbtitle']")
        texts = " ".join(
            bar.locator("text").all_text_contents() + page.locator("#picture .infolayer text").all_text_contents()
        )
        for text in ("Relative error: half the 95 % interval ÷ estimate", "≤ 0.1 %", "1 %", "10 %", "≥ 100 %"):
            assert text in texts
        left, right, top, bottom = page.evaluate(BOX, "#picture .cbfills")
        assert left >= 0
        assert right <= width
        drawn = [page.evaluate(BOX, ".trace." + kind)] if page.locator(".trace." + kind).count() else []
        assert all(box[3] <= top + 1 for box in drawn)
        assert bottom <= page.evaluate(BOX, "footer")[2]


@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_texts_lie_inside_their_sectors(kind, written, look):
    _, path = written(kind)
    inside = """() => [...document.querySelectorAll("#picture .slice")].map(slice => {
        const text = slice.querySelector("text"), box = slice.querySelector("path").getBoundingClientRect();
        if (!text) return null;
        const words = text.getBoundingClientRect();
        return words.width ? [box.left - words.left, words.right - box.right, box.top - words.top, words.bottom - box.bottom] : null;
    }).filter(Boolean)"""
    for width, height in SIZES:
        with look(path, width, height) as page:
            over = np.array(page.evaluate(inside))
            assert len(over) > 5
            assert (over <= 1.5).all()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", HIERARCHIES)
def test_labels_that_are_markup_or_long_are_shown_as_text(kind, width, height, look, tmp_path):
    given = release((8,), label=lambda level, number: HOSTILE[number], hide=False)
    pages = [
        write_html(plot_tree(given, kind=kind, title=HOSTILE[0]), tmp_path / "tree.html"),
        write_html(plot_level(given, 1, title=HOSTILE[1]), tmp_path / "level.html"),
    ]
    for path, selector in zip(pages, (SECTORS, BARS), strict=True):
        with look(path, width, height) as page:
            shown = set()
            for number in range(page.locator(selector).count()):
                place = (
                    centre(page, selector, number)
                    if kind != "sunburst" or selector == BARS
                    else page.evaluate(POINT, [selector, number])
                )
                shown.add(re.sub(r"\s", "", hover(page, *place)))
                assert_nothing_is_cut(page, width)
                page.mouse.move(1, 1)
                page.wait_for_selector(".hoverlayer .hovertext", state="detached")
            for label in HOSTILE:
                bare = re.sub("[\\s\u202c\u202e]", "", label)
                assert any(text.startswith(bare) for text in shown), label
            assert page.evaluate("window.hacked") is None
            assert page.locator("#picture :is(a, b, i, u, img, script, foreignObject)").count() == 0
            assert page.title() in (HOSTILE[0], HOSTILE[1])


@pytest.mark.parametrize("kind", HIERARCHIES)
def test_a_click_goes_into_a_node_and_out_again(kind, written, look):
    figure, path = written(kind)
    for width, height in SIZES:
        with look(path, width, height) as page:
            level = "document.getElementById('picture')._fullData[0].level"
            target = next(number for number, parent in enumerate(figure.data[0].parents) if parent == "0")
            label = figure.data[0].labels[target]
            slices = page.locator(SECTORS)
            number = next(n for n in range(slices.count()) if (slices.nth(n).text_content() or "").startswith(label))
            x, y = page.evaluate(POINT, [SECTORS, number]) if kind == "sunburst" else _corner(page, number)
            page.mouse.click(x, y)
            page.wait_for_function(f"{level} === '{target}'")
            page.wait_for_timeout(1000)
            assert_nothing_is_cut(page, width)
            if kind == "sunburst":
                page.mouse.click(*centre(page, SECTORS, 0))
            else:
                page.locator("#picture .pathbar").first.click()
            page.wait_for_function(f"{level} === '0' || {level} === ''")


def _corner(page, number):
    box = page.locator(SECTORS).nth(number).locator("path").first.bounding_box()
    return box["x"] + 8, box["y"] + 8


@pytest.mark.parametrize("kind", HIERARCHIES)
def test_ten_thousand_nodes_stay_usable(kind, look, tmp_path):
    given = release((50, 20, 10), total=1e6, hide=False)
    assert given.tree.node_count > 10_000
    path = write_html(plot_tree(given, kind=kind), tmp_path / "large.html")
    for width, height in SIZES:
        start = time.perf_counter()
        with look(path, width, height) as page:
            assert time.perf_counter() - start < 30  # alone on the machine: about three seconds
            assert 500 < page.locator(SECTORS).count() < 3000
            assert_nothing_is_cut(page, width)
            assert_not_blank(page, tmp_path / f"large-{width}.png")


def test_the_window_may_change_its_size(written, look):
    _, path = written("treemap")
    with look(path, 1280, 800) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function("document.querySelector('#picture .main-svg').getBoundingClientRect().width <= 390")
        assert_nothing_is_cut(page, 390)
