import pytest

from opendp_tree.engines.sql import quoted


@pytest.mark.parametrize("name", ["", "a\0b", None, 3])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="name"):
        quoted(name)


def test_a_quoted_name_ends_where_it_should():
    for name in ('"', '""', 'a"b', '";--'):
        assert quoted(name)[1:-1].replace('""', "").count('"') == 0
        assert quoted(name)[1:-1].replace('""', '"') == name
