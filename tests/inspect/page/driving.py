"""Helpers that operate a page in a browser and read what it shows."""

import io
from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By


def scroll_to(browser: Any, selector: str) -> Any:
    """Scroll an element to the middle of the window and return it.

    Scrolling hides tooltips, so the function waits until it has ended.
    """
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_async_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
        "requestAnimationFrame(() => requestAnimationFrame(arguments[1]))",
        element,
    )
    return element


def texts(browser: Any, selector: str) -> list[str]:
    """Return the texts of all elements that match a CSS selector."""
    return list(
        browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
    )


def choose(browser: Any, name: str, value: str) -> None:
    """Select an option of the list with id ``name``."""
    scroll_to(browser, f"#{name} option[value='{value}']").click()


def wait_until_drawn(browser: Any) -> None:
    """Wait until the page has drawn the last changes."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 30))")


def screenshot(element: Any) -> np.ndarray:
    """Return a picture of an element, int ``[height, width, 3]`` from 0 to 255."""
    from matplotlib.image import imread

    return (255 * imread(io.BytesIO(element.screenshot_as_png))[..., :3]).astype(int)


def move_over(browser: Any, element: Any, x: float, y: float) -> ActionChains:
    """Return the action that moves the mouse to a place of an element; ``x`` and ``y`` are fractions of its size."""
    size = element.size
    left, top = (round((at - 0.5) * size[side]) for at, side in ((x, "width"), (y, "height")))
    return ActionChains(browser, duration=20).move_to_element_with_offset(element, left, top)


def tooltip(browser: Any) -> str:
    """Wait for the tooltip and return its text."""
    return str(wait_for(browser, "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText"))


def shown_cycles(browser: Any) -> list[int]:
    """Return the first and the last cycle that the timeline shows, and the last cycle of the pass."""
    words = browser.find_element(By.ID, "window").text.replace(",", "").split()
    return [int(words[1]), int(words[3]), int(words[5].rstrip(":"))]


def count_colours(browser: Any, canvas: str) -> int:
    """Return the number of different colours on a canvas."""
    script = (
        "const c = document.getElementById(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return new Set(new Uint32Array(d.data.buffer)).size"
    )
    return int(browser.execute_script(script, canvas))


def tooltip_of(browser: Any, selector: str) -> str:
    """Move the mouse to the middle of an element and return the text of its tooltip."""
    move_over(browser, scroll_to(browser, selector), 0.5, 0.5).perform()
    return tooltip(browser)
