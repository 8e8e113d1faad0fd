"""Fixtures: pages opened in a headless browser, and a trace in which every name is malicious markup."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests.inspect.runs import TWO_WAFERS
from tests.traces.conftest import HEADER, write
from wse.tracing.page.page import view_page

SCRIPT = "<script>window.owned=1</script>"
IMAGE = '"><img src=x onerror="window.owned=1">'
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Chromium with the installed chromedriver, once for all tests; skip the test if one is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip install '.[test]')")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium or chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as chrome:
        yield chrome


@pytest.fixture(scope="session")
def open_page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return a function that opens the page of some traces and waits until it is usable.

    With ``again``, the page is loaded anew even if it is open.
    """
    pages: dict[tuple[Path, ...], Path] = {}

    def show(*traces: Path, again: bool = True) -> Any:
        if traces not in pages:
            pages[traces] = tmp_path_factory.mktemp("page") / "report.html"
            pages[traces].write_bytes(view_page(list(traces)))
        if again or browser.current_url != pages[traces].as_uri():
            browser.get_log("browser"), browser.get_log("performance")
            browser.get(pages[traces].as_uri())
            wait_for(browser, "return document.documentElement.dataset.usable")
        return browser

    return show


@pytest.fixture
def story(open_page: Callable[..., Any]) -> Any:
    """Return the browser with the page of a run on two wafers.

    The page is shared and not reset, so tests must not assume a state.
    """
    return open_page(TWO_WAFERS, again=False)


def wait_for(browser: Any, script: str, limit_s: float = 20) -> Any:
    """Run a script until its result is truthy, and return it; fail after ``limit_s`` seconds."""
    until = time.monotonic() + limit_s
    while not (found := browser.execute_script(script)):
        assert time.monotonic() < until, f"{script}: nothing in {limit_s} s; {browser.get_log('browser')}"
        time.sleep(0.02)
    return found


def requested_urls(browser: Any) -> list[str]:
    """Return the addresses that the page requested, without its own."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert any(each["request"]["url"] == browser.current_url for each in requests)
    urls = [each["request"]["url"] for each in requests if each["documentURL"] == browser.current_url]
    return [url for url in urls if url != browser.current_url]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace in which the names of model, ops, kernels and buffers, data types and token texts are markup."""
    markup = {"created_by": SCRIPT, "model": SCRIPT, "wafer": IMAGE, "mapping": IMAGE, "program_digest": SCRIPT}
    header = replace(HEADER, options={SCRIPT: IMAGE}, **markup)
    path = write(tmp_path_factory.mktemp("hostile") / "a&lt;<b>.h5", header, texts=[IMAGE])
    names = {
        "graph/ops/name": [SCRIPT, IMAGE, "</script>"],
        "graph/ops/kind": [IMAGE, SCRIPT, "c"],
        "strings/names": [SCRIPT, IMAGE],
        "sram/buffers/name": [IMAGE],
        "sram/buffers/dtype": [SCRIPT],
    }
    with h5py.File(path, "r+") as file:
        for column, texts in names.items():
            file[column][...] = [text.encode() for text in texts]
    return path
