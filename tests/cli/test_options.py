import pytest

from opendp_tree.cli.options import build_parser
from opendp_tree.cli.terminal import CommandError, Exit


def test_plan_takes_every_option_of_release():
    commands = build_parser("1")._subparsers._group_actions[0].choices
    taken = {name: set(commands[name]._option_string_actions) for name in ("plan", "release")}
    assert taken["plan"] == taken["release"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("plan --by a", "--epsilon --rho is required"),
        ("plan --epsilon 1", "arguments are required: --by"),
        ("plan --by a --epsilon nan", "nan must be a number"),
        ("plan --by a --epsilon inf", "inf must be a number"),
        ("plan --by a --epsilon one", "one must be a number"),
        ("plan --by a --epsilon 1_0", "1_0 must be a number"),
        ("plan --by a --epsilon １", "must be a number"),
        ("plan --by a --epsilon 0x1", "0x1 must be a number"),
        ("plan --by a --epsilon 1 --delta 1_0e-9", "must be a number"),
        ("plan --by a --rho 1_0", "1_0 must be a number"),
        ("plan --by a --rho 1 --epsilon 1", "not allowed with"),
        ("plan --by a --epsilon 1 --leaves-per-unit 0", "0 must be a whole number, 1 or more"),
        ("plan --by a --epsilon 1 --rows-per-unit ²", "must be a whole number"),
        ("plan --by a,,b --epsilon 1", "must stand in quotes if it is empty"),
        ("plan --by a,a --epsilon 1", "must differ"),
        ("plan --by calendar(a,levels=(month,year)) --epsilon 1", "levels"),
        ("plan --by path(a,separator='') --epsilon 1", "separator ('') must be a non-empty text"),
        ("plan --by number(a,low=3,high=2,bins=1) --epsilon 1", "low (3) must be below high (2)"),
        ("plan --by number(a,bins=1) --epsilon 1", "number(a, low=..., high=..."),
        ("release f --by a --epsilon 1 -o x.csv --quantiles 0_1,1", "must be numbers from 0 to 1"),
        ("release f --by a --rho 1 -o x.csv --total-rho 1 --total-epsilon 1", "not allowed with"),
        ("release f --by a --epsilon 1", "-o/--output"),
        ("release f --by a --epsilon 1 -o x.csv --method magic", "invalid choice"),
        ("release f.ndjson --format ndjson --by a --epsilon 1 -o x.csv", "invalid choice: 'ndjson'"),
        ("release f --by a --epsilon 1 -o x.csv --quiet --verbose", "not allowed with"),
        ("", "required"),
        ("fly", "invalid choice"),
    ],
)
def test_wrong_arguments_are_named(words, complaint):
    with pytest.raises(CommandError) as caught:
        build_parser("1").parse_args(words.split())
    assert caught.value.code is Exit.USAGE
    assert complaint in str(caught.value)
    assert str(caught.value).count(" Hint: ") == 1
