"""Tests of the Python API: same arguments and results as the commands, no output, no heavy imports."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

import pytest

import wse
from wse.cli import main
from wse.cli.reference import argument_docs
from wse.errors import BadInput, BadTrace, UnknownName
from wse.hardware.quantity import TOKEN
from wse.studies.compare.request import CompareRequest
from wse.studies.compile.request import CompileRequest
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import argument_name, parameter_types
from wse.studies.options.option import RequestField, options_of, union_parts
from wse.studies.pattern.request import PatternRequest
from wse.studies.run.request import RunRequest
from wse.studies.serve_sim.request import ServeRequest


class Argument(NamedTuple):
    """An argument of an API function, as an option of the command line defines it.

    Attributes:
        type: Type annotation.
        default: Default value, or ``inspect.Parameter.empty``.
        form: Accepted texts in the ``Args:`` section, such as ``ROWSxCOLS``, or empty.
        meaning: Description in the ``Args:`` section.
    """

    type: Any
    default: Any
    form: str
    meaning: str


def _argument(field: RequestField) -> Argument:
    """Return the argument of one option; option names in its text become argument names."""
    option = field.option
    doc = re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), option.doc)
    none = f" None is {option.none}." if option.none not in ("", "none") and field.default is None else ""
    unit = f" A number is in {option.unit}; a string has a unit." if option.unit not in ("", TOKEN) else ""
    form = option.metavar if option.metavar and not option.metavar.isupper() else ""
    default = inspect.Parameter.empty if option.required else field.default
    return Argument(_type(field), default, form, f"{doc}{none}{unit}")


def _type(field: RequestField) -> Any:
    """Return the type annotation of an option: tuples accept any sequence, options read from text also accept str."""
    parts = [Sequence[get_args(part)[0]] if get_origin(part) is tuple else part for part in union_parts(field.hint)]  # type: ignore[misc]
    if field.is_text and str not in parts:
        parts.append(str)
    return reduce(or_, sorted(parts, key=lambda part: part is NoneType))


FUNCTIONS = {
    "run": RunRequest,
    "estimate": EstimateRequest,
    "compile": CompileRequest,
    "compare": CompareRequest,
    "serve": EndpointRequest,
    "serve_sim": ServeRequest,
    "what_if": EstimateRequest,
    "pattern": PatternRequest,
}
SMALL = {"mesh": "24x24", "mapping": "region", "prompt_len": 16, "new_tokens": 8}
HEAVY_LIBRARIES = ("numba", "matplotlib", "h5py", "rich", "numpy", "networkx", "ray")


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Return the JSON output of a command without "emulation", which depends on the speed of this computer."""
    assert main([*arguments, "--json"]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return {key: value for key, value in report.items() if key != "emulation"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_have_the_types_defaults_and_descriptions_of_the_options(name: str) -> None:
    function = getattr(wse, name)
    parameters = inspect.signature(function, eval_str=False).parameters
    docs = argument_docs(wse.estimate.__doc__ or "") | argument_docs(function.__doc__)
    hints = parameter_types(function)
    expected_arguments = {argument_name(field): _argument(field) for field in options_of(FUNCTIONS[name]).values()}
    for argument, expected in expected_arguments.items():
        assert (argument, hints[argument]) == (argument, expected.type)
        assert parameters[argument].default == expected.default
        assert docs[argument] == (expected.form, expected.meaning)
    assert set(argument_docs(function.__doc__)) <= set(parameters) <= set(docs)


def test_estimate_equals_the_output_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    progress: list[tuple[int, int, str]] = []
    result = wse.estimate("story", **SMALL, on_progress=lambda *piece: progress.append(piece))
    assert capsys.readouterr() == ("", "")
    assert [done for done, _, _ in progress] == list(range(len(progress)))
    options = ["--mesh", "24x24", "--mapping", "region", "--prompt-len", "16", "--new-tokens", "8"]
    assert json.loads(json.dumps(result.to_dict())) == printed_json(capsys, "estimate", "story", *options)
    assert result.decode.tokens_per_s_per_user == result.to_dict()["decode"]["tokens_per_s_per_user"]


def test_run_equals_the_output_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    options = {"mesh": "16x16", "mapping": "region", "schedule": "baseline", "new_tokens": 4}
    result = wse.run(**options, trace=None, on_text=texts.append)
    assert capsys.readouterr() == ("", "")
    assert "".join(texts) == result.text
    report = {key: value for key, value in result.to_dict().items() if key != "emulation"}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert json.loads(json.dumps(report)) == printed_json(capsys, "run", *words, "--trace", "none")


def test_claims_equal_the_output_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "claims.md"
    result = wse.claims(7, 11, page=page)
    assert capsys.readouterr() == ("", "")
    assert json.loads(json.dumps(result.to_dict())) == printed_json(capsys, "claims", "7", "11")
    assert "## Claim 11" in page.read_text()
    with pytest.raises(BadInput, match="give the number of a claim, 1 to 17"):
        wse.claims(18)
    with pytest.raises(BadInput, match="numbers"):
        wse.claims("seven")


def test_compilation_equals_the_output_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    result = wse.compile("story", mesh="24x24", mapping="region", schedule="baseline")
    assert capsys.readouterr() == ("", "")
    options = ("--mesh", "24x24", "--mapping", "region", "--schedule", "baseline")
    assert json.loads(json.dumps(result.to_dict())) == printed_json(capsys, "compile", "story", *options)


def test_results_are_shown_as_tables_in_notebooks() -> None:
    result = wse.estimate("story", **SMALL)
    html = result._repr_html_()
    assert html.count("<table") == len(result.tables()) > 3
    assert "SRAM of the fullest PE" in html


def test_errors_have_the_documented_classes(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="story"):
        wse.estimate("stroy")
    with pytest.raises(BadInput, match="--prompt-len 0"):
        wse.estimate("story", prompt_len=0)
    with pytest.raises(BadTrace, match="nothing"):
        wse.open_trace(tmp_path / "nothing.h5")
    with pytest.raises(BadInput, match="--batch '2x': give a whole number, such as 8"):
        wse.estimate("story", batch="2x")
    with pytest.raises(TypeError, match="unknown argument 'prompt_length': did you mean 'prompt_len'"):
        wse.estimate("story", prompt_length=3)
    assert not hasattr(wse, "nothing")


@pytest.mark.parametrize(
    ("name", "arguments", "named", "message"),
    [
        ("compare", (None,), {}, "model=None: give a text or a path"),
        ("compare", ("story",), {"question": 5}, "question=5: give a text or None"),
        ("compare", ("story",), {"jobs": "a"}, "jobs='a': give a whole number or None"),
        ("compare", ("story",), SMALL | {"jobs": -3}, "--jobs -3: give a number of processes from 1 to 4,096"),
        ("compare", ("story",), {"wafers": []}, "--wafers: there is no value; give at least one, or leave it out"),
        ("run", (), {"on_text": 3}, "on_text=3: give a function or None"),
        ("run", (), {"prompt": [], "trace": None}, "--prompt: the list is empty; give a text for each user, or leave "),
        ("sweep", ({5: 1},), {}, "source={5: 1}: give a mapping of texts or a text or a path"),
        ("sweep", ({"model": "story"}, ["x"]), {}, "sets=('x',): settings are given as a mapping; put these values"),
        ("sweep", ("story", "context=0x"), {}, "--set: context = '0x': give a whole number"),
        ("validate", (["a.csv"],), {}, "files=(['a.csv'],): give a list of texts or paths"),
        ("open_trace", (3,), {}, "path=3: give a text or a path"),
    ],
    ids=str,
)
def test_invalid_argument_is_refused_in_one_line(
    name: str, arguments: tuple[object, ...], named: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        getattr(wse, name)(*arguments, **named)
    assert str(caught.value).startswith(message)


def test_star_import_keeps_builtin_names() -> None:
    names: dict[str, object] = {}
    exec("from wse import *", names)
    assert "compare" in names
    assert "compile" not in names
    assert {"compile", "__version__"} <= set(dir(wse))


def test_import_loads_no_heavy_libraries() -> None:
    code = "import wse; wse.estimate; wse.run; wse.open_trace"
    script = f"{code}\nimport sys\nprint([name for name in {HEAVY_LIBRARIES!r} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def test_paths_are_accepted_for_names_and_files(tmp_path: Path) -> None:
    (tmp_path / "dead.csv").write_text("row,col\n")
    report = wse.estimate(Path("story"), wafer=Path("wse3"), defects=tmp_path / "dead.csv", **SMALL).to_dict()
    assert report["inputs"]["model"] == "story"
