import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.trees.bits import BitKeys, prefix_integers, prefix_texts, words_of

WIDE = st.integers(0, 2**64 - 1) | st.integers(0, 2)
WIDTHS = [1, 7, 63, 64, 65, 100, 127, 128]


def test_bits_outside_the_width_count_nowhere():
    tree = OpenTree.bits(4)
    for keys in ([3, 16, -1, 2**200, None, 2.0, True, "3"], np.array([3, 16, -1]), np.array([3, 16], dtype=np.uint64)):
        assert tree.count(keys).occupied.counts.tolist() == [1]
    wide = np.array([[0, 3], [0, 16], [1, 3]], dtype=np.uint64)
    assert tree.count(wide).occupied.counts.tolist() == [1]
    assert OpenTree.bits(65).count(np.array([[1, 3], [2, 3]], dtype=np.uint64)).occupied.counts.tolist() == [1]


@given(st.sampled_from(WIDTHS), st.lists(st.integers(0, 2**128 - 1), max_size=10))
def test_moving_left_and_right_gives_the_integers_back(width, integers):
    high, low = words_of([integer % 2**width for integer in integers])
    back = BitKeys.of_integers(high, low, width).to_the_right(width)
    assert [word.tolist() for word in back] == [high.tolist(), low.tolist()]


@given(
    st.lists(st.integers(0, 2**128 - 1) | st.integers(0, 3).map(lambda top: (top << 64) + 5), max_size=30), st.data()
)
def test_order_is_that_of_the_integers(integers, data):
    lows = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(integers), max_size=len(integers)))
    keys = [(integer >> 64 << 64) | low for integer, low in zip(integers, lows, strict=True)]
    assert [keys[at] for at in BitKeys(*words_of(keys)).order()] == sorted(keys)


@given(st.integers(0, 2**128 - 1), st.integers(0, 128))
def test_common_bits_are_those_before_the_first_that_differs(key, place):
    other = key ^ (1 << (127 - place)) if place < 128 else key
    one, two = BitKeys(*words_of([key])), BitKeys(*words_of([other]))
    assert one.common_bits(two).tolist() == [place]
    prefix = one.first(np.array([place])).to_the_right(128)
    assert (int(prefix[0][0]) << 64) + int(prefix[1][0]) == key >> (128 - place) << (128 - place)


@given(st.lists(st.tuples(WIDE, WIDE), max_size=30))
def test_sorted_keys_are_those_of_python(pairs):
    high, low = (np.array(column, dtype=np.uint64) for column in (zip(*pairs, strict=True) if pairs else ([], [])))
    found = BitKeys(high, low).sorted()
    assert list(zip(found.high.tolist(), found.low.tolist(), strict=True)) == sorted(pairs)
    assert found.is_sorted()
    assert BitKeys(high, low).is_sorted() == (pairs == sorted(pairs))


def keys(numbers, width):
    return BitKeys.of_integers(*words_of(numbers), width)


@given(st.sampled_from([1, 40, 64, 65, 128]), st.data())
def test_integers_are_themselves(width, data):
    numbers = data.draw(st.lists(st.integers(0, 2**width - 1)))
    tree = OpenTree.bits(width)
    assert prefix_integers(keys(numbers, width), tree).to_list() == numbers
    bits = np.full(len(numbers), width)
    assert prefix_texts(keys(numbers, width), bits, tree).to_list() == [f"{number}/{width}" for number in numbers]
