from ipaddress import IPv4Address, IPv6Address

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_tree import OpenTree
from opendp_tree.trees.bit_keys import BitKeys, words_of
from opendp_tree.trees.prefix_texts import prefix_integers, prefix_texts


def keys(numbers, width):
    return BitKeys.of_integers(*words_of(numbers), width)


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_ipv4_is_written_as_python_writes_it(numbers):
    tree = OpenTree.bits(32, shown_as="ipv4")
    found = prefix_texts(keys(numbers, 32), np.full(len(numbers), 24), tree)
    assert found.to_list() == [f"{IPv4Address(number)}/24" for number in numbers]


@given(st.lists(st.integers(0, 2**128 - 1) | st.integers(0, 2**16).map(lambda low: low << 96 | 0xFFFF)))
def test_ipv6_is_written_as_python_writes_it(numbers):
    numbers = [number for number in numbers if number >> 32 != 0xFFFF]  # Pythons differ on mapped addresses
    tree = OpenTree.bits(128, shown_as="ipv6")
    found = prefix_texts(keys(numbers, 128), np.full(len(numbers), 128), tree)
    assert found.to_list() == [f"{IPv6Address(number)}/128" for number in numbers]


@given(st.sampled_from([1, 40, 64, 65, 128]), st.data())
def test_integers_are_themselves(width, data):
    numbers = data.draw(st.lists(st.integers(0, 2**width - 1)))
    tree = OpenTree.bits(width)
    assert prefix_integers(keys(numbers, width), tree).to_list() == numbers
    bits = np.full(len(numbers), width)
    assert prefix_texts(keys(numbers, width), bits, tree).to_list() == [f"{number}/{width}" for number in numbers]
