"""The page of typical mistakes holds what they are told."""

import re

import pytest

from tests.repo import mistakes


@pytest.fixture(scope="module")
def page():
    return mistakes.page()


def test_the_page_holds_what_is_told(page):
    assert page == mistakes.PAGE.read_text(), "python -m tests.repo.mistakes"


def test_there_are_ten_and_all_are_told_what_to_do(page):
    assert len(mistakes.MISTAKES) == 10
    messages = re.findall(r"(?m)^(?:\w*Error|opendp-tree): (.*)$", page)
    assert len(messages) == sum(len(calls) for _, calls in mistakes.MISTAKES.values())
    for message in messages:
        assert re.search(r"(Hint: |must )", message), message


def test_no_message_speaks_of_what_the_caller_has_not_written(page):
    for word in ("input_metric", "input_domain", "_chain", "Traceback", "<lambda>"):
        assert word not in page
