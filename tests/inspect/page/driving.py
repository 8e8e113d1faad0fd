"""What a person does with a page, and what they see: for tests that drive a browser."""

import io
from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By


def found(browser: Any, selector: str) -> Any:
    """The element in the middle of the window, once the page has scrolled there: tips go as it scrolls."""
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_async_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
        "requestAnimationFrame(() => requestAnimationFrame(arguments[1]))",
        element,
    )
    return element


def texts(browser: Any, selector: str) -> list[str]:
    return list(
        browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
    )


def choose(browser: Any, name: str, value: str) -> None:
    found(browser, f"#{name} option[value='{value}']").click()


def settled(browser: Any) -> None:
    """Wait until what was requested is drawn."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 30))")


def shot(element: Any) -> np.ndarray:
    from matplotlib.image import imread

    return (255 * imread(io.BytesIO(element.screenshot_as_png))[..., :3]).astype(int)


def over(browser: Any, element: Any, x: float, y: float) -> ActionChains:
    """To a place of an element, as fractions of its size."""
    size = element.size
    left, top = (round((at - 0.5) * size[side]) for at, side in ((x, "width"), (y, "height")))
    return ActionChains(browser, duration=20).move_to_element_with_offset(element, left, top)


def tip(browser: Any) -> str:
    return str(wait_for(browser, "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText"))


def window(browser: Any) -> list[int]:
    """First and last cycle that the timeline shows, and the end of the pass."""
    words = browser.find_element(By.ID, "window").text.replace(",", "").split()
    return [int(words[1]), int(words[3]), int(words[5].rstrip(":"))]


def painted(browser: Any, canvas: str) -> int:
    """The number of colours a canvas has."""
    script = (
        "const c = document.getElementById(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return new Set(new Uint32Array(d.data.buffer)).size"
    )
    return int(browser.execute_script(script, canvas))


def tip_of(browser: Any, selector: str) -> str:
    over(browser, found(browser, selector), 0.5, 0.5).perform()
    return tip(browser)
