import pytest

from opendp_tree.plots import plot_means
from tests.releases.test_values import release


def test_points_are_means_with_their_intervals_the_highest_first():
    points, line = plot_means(release("amount"), 1).data
    assert list(points.x) == [3.0, 3.0]
    assert list(points.error_x.array) == list(points.error_x.arrayminus) == [1.0, 1.0]
    assert list(line.x) == [3.0, 3.0]
    assert "amount clipped to [0, 5]" in plot_means(release("amount"), 1).layout.title.subtitle.text


def test_one_of_several_values_is_drawn_by_its_name():
    made = release("amount", "delay")
    assert plot_means(made, "country").layout.title.text == "Private means of amount by country"
    assert plot_means(made, "country", value="delay").layout.title.text == "Private means of delay by country"


def test_the_root_is_drawn_without_a_line_for_all():
    assert len(plot_means(release("amount"), 0).data) == 1


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="release must have a value"):
        plot_means(release(), 1)
    with pytest.raises(ValueError, match="value"):
        plot_means(release("amount"), 1, value="delay")
    with pytest.raises(ValueError, match="level"):
        plot_means(release("amount"), 7)
    with pytest.raises(ValueError, match="top"):
        plot_means(release("amount"), 1, top=0)
    with pytest.raises(TypeError, match="TreeRelease"):
        plot_means("release", 1)
