"""The page of typical mistakes has the current messages."""

import re

import pytest

from docs import mistakes


@pytest.fixture(scope="module")
def page():
    return mistakes.page()


def test_the_page_has_the_current_messages(page):
    assert page == mistakes.PAGE.read_text(), "python -m docs.mistakes"


def test_there_are_ten_and_every_message_says_what_to_do(page):
    assert len(mistakes.MISTAKES) == 10
    messages = re.findall(r"(?m)^(?:\w*Error|opendp-tree): (.*)$", page)
    assert len(messages) == sum(len(calls) for _, calls in mistakes.MISTAKES.values())
    for message in messages:
        assert re.search(r"(Hint: |must )", message), message


def test_no_message_mentions_internals(page):
    for word in ("input_metric", "input_domain", "_chain", "Traceback", "<lambda>"):
        assert word not in page
