import os
import re

import plotly.graph_objects as go
import pytest

from opendp_tree import plot_level, plot_tree
from opendp_tree.plots import write_html, write_image
from tests.plots.test_tree import small


def test_a_page_is_whole_and_needs_nothing_else(tmp_path):
    path = write_html(plot_tree(small()), tmp_path / "tree.html")
    page = path.read_text(encoding="utf-8")
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "<title>Private counts by side, place</title>" in page
    assert "<h1>Private counts by side, place</h1>" in page
    assert "<footer><p>Privacy: epsilon 1 for adding or removing one row.</p>" in page
    assert "plotly.js v" in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert os.listdir(tmp_path) == ["tree.html"]


def test_changed_titles_count_and_are_text(tmp_path):
    figure = plot_tree(small())
    figure.update_layout(title_text="Mine &amp; <b>yours</b> &lt;script&gt;")
    page = write_html(figure, tmp_path / "tree.html").read_text(encoding="utf-8")
    assert "<h1>Mine &amp;  yours  &lt;script&gt;</h1>" in page


def test_any_figure_can_be_written_and_texts_cannot_end_the_script(tmp_path):
    page = write_html(go.Figure(go.Bar(x=["</script><script>alert(1)"], y=[1])), tmp_path / "a.html").read_text("utf-8")
    assert "</script><script>alert(1)" not in page
    assert "<title>opendp-tree</title>" in page


def test_many_pictures_share_one_copy_of_plotly(tmp_path):
    one = write_html(plot_tree(small()), tmp_path / "one.html").read_text("utf-8")
    figures = [plot_tree(small(), title=f"Picture {number}") for number in range(5)]
    many = write_html(figures, tmp_path / "many.html").read_text("utf-8")
    assert len(many) < len(one) + 100_000
    assert re.findall(r"<h1>(Picture \d)</h1>", many) == [f"Picture {number}" for number in range(5)]
    places = ["picture", "picture-2", "picture-3", "picture-4", "picture-5"]
    assert re.findall(r'<div id="(picture[-\d]*)"', many) == places
    with pytest.raises(ValueError, match="figure must hold at least one figure"):
        write_html([], tmp_path / "none.html")
    with pytest.raises(TypeError, match="figure"):
        write_html([figures[0], 3], tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_images_need_a_library_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr("opendp_tree.plots.page.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"need Kaleido\. Hint: pip install kaleido"):
        write_image(plot_tree(small()), tmp_path / "a.svg")
    with pytest.raises(ValueError, match=r"path \('a.html'\) must end in .svg or .png. Hint: write_html"):
        write_image(plot_tree(small()), tmp_path / "a.html")
    with pytest.raises(ValueError, match="width"):
        write_image(plot_tree(small()), tmp_path / "a.svg", width=0)


def test_images_are_whole_or_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("opendp_tree.plots.page.find_spec", lambda name: name)
    asked = []
    monkeypatch.setattr(go.Figure, "to_image", lambda self, form, **size: asked.append((form, size)) or b"drawn")
    assert write_image(plot_tree(small()), tmp_path / "a.PNG", height=300).read_bytes() == b"drawn"
    write_image(plot_level(small(), 1), tmp_path / "a.svg")
    sizes = {"width": 1000, "height": 300, "scale": 2}, {"width": 1000, "height": None, "scale": 1}
    assert asked == [("png", sizes[0]), ("svg", sizes[1])]

    def fail(*_, **__):
        raise RuntimeError("no Chrome")

    monkeypatch.setattr(go.Figure, "to_image", fail)
    with pytest.raises(RuntimeError, match=r"could not draw the picture .* needs a Chrome or Chromium"):
        write_image(plot_tree(small()), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == b"drawn"
    assert sorted(os.listdir(tmp_path)) == ["a.PNG", "a.svg"]
