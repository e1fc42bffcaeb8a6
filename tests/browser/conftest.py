"""Headless Chromium, driven by Playwright, without a network."""

import os
import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def chromium():
    """The path of a Chromium."""
    names = (os.environ.get("CHROMIUM") or "", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    assert found, "no Chromium found. Hint: `make test-browser` installs it, or set CHROMIUM to its path"
    return found


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    found = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


def until(page, condition):
    """Wait for a condition. Playwright's own wait evaluates it in the page, which forbids that."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"still not true: {condition}")


@pytest.fixture(scope="session")
def look(browser):
    """Opens a written page at a size. It must ask for nothing, and say nothing on the console."""

    @contextmanager
    def look(path, width, height):
        page = browser.new_page(viewport={"width": width, "height": height})
        said, asked = [], []
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#picture .main-svg", state="attached")
        until(page, "Boolean(document.getElementById('picture')._fullLayout)")
        yield page
        assert said == []
        assert asked == [path.as_uri()]
        page.close()

    return look
