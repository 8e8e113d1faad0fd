"""Tests of how far predictions are from measurements on silicon, with the tolerances that this project states.

No constant is fitted to prefill. The constants for the other rows are fitted by tools/calibrate.py.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.measured.models import configuration_of
from wse.studies.validate.predictors.prediction import unless_declined
from wse.studies.validate.predictors.services import service_request
from wse.studies.validate.study import compare, default_files
from wse.studies.validate.summary import ComparedRow, summarise

Rows = list[ComparedRow]
Pick = Callable[[Measurement], bool]


ONE_WORKER = pytest.mark.xdist_group("accuracy")
"""Run all tests that share the predictions of all rows in one worker."""


@pytest.fixture(scope="module")
def every_row() -> Rows:
    """Return the comparison of all rows except services, which take seconds each and are tested in `test_services`."""
    rows = [m for path in default_files() for m in read(path)]
    services = [m for m in rows if unless_declined(service_request, m)]
    assert (len(rows), len(services)) == (3701, 21)
    return compare([m for m in rows if not unless_declined(service_request, m)], lambda *_: None)


@pytest.fixture(scope="module")
def kernels(every_row: Rows) -> Rows:
    """Return the comparison of the rows about WaferLLM and its kernels."""
    return [row for row in every_row if Path(row.measurement.file).name == "waferllm_measured.csv"]


def errors(rows: Rows, pick: Pick) -> list[float]:
    """Return the absolute errors in percent of the predicted rows that `pick` selects."""
    return [abs(row.error_pct or 0.0) for row in rows if pick(row.measurement) and row.prediction.value is not None]


@pytest.mark.slow
@ONE_WORKER
def test_every_row_has_one_answer(every_row: Rows) -> None:
    for r in every_row:
        assert (r.prediction.value is None) == bool(r.prediction.reason)
        assert bool(r.prediction.method) == (r.prediction.value is not None)
        assert r.prediction.reason.isprintable()
    summary = summarise(every_row)
    assert sum(reason.rows for reason in summary.reasons) == summary.rows - summary.predicted
    assert sum(group.rows for group in summary.by_source_and_kernel) == summary.rows


@pytest.mark.slow
@ONE_WORKER
def test_all_rows_of_modelled_kernels_are_predicted(kernels: Rows) -> None:
    """Rows without a prediction are of other systems, whole applications, or variants that are not modelled."""
    assert sum(row.prediction.value is not None for row in kernels) == 542
    assert len(kernels) == 762


@pytest.mark.slow
@ONE_WORKER
@pytest.mark.parametrize(("phase", "rows", "max_pct"), [("decode", 9, 3.0), ("prefill", 7, 4.0)])
def test_layers_of_8b_and_72b_are_within_tolerance_on_three_grids(
    kernels: Rows, phase: str, rows: int, max_pct: float
) -> None:
    found = errors(
        kernels, lambda m: m.text("system") == "WaferLLM" and m.text("phase") == phase and m.text("source") != ""
    )
    assert len(found) == rows
    assert max(found) <= max_pct, f"{phase}: worst {max(found):.2f} %, stated {max_pct} %"


@pytest.mark.slow
@ONE_WORKER
@pytest.mark.parametrize(
    ("kernel", "rows", "median_pct", "max_pct"),
    [("MeshGEMV", 119, 3.0, 10.0), ("MeshGEMM", 131, 3.0, 10.0), ("Shift", 108, 5.0, 25.0)],
)
def test_kernels_on_wse3_silicon_are_within_tolerance(
    kernels: Rows, kernel: str, rows: int, median_pct: float, max_pct: float
) -> None:
    found = errors(kernels, lambda m: m.text("system").startswith(kernel) and m.text("hardware") == "Cerebras WSE-3")
    assert len(found) == rows
    assert median(found) <= median_pct, f"{kernel}: median {median(found):.2f} %, stated {median_pct} %"
    assert max(found) <= max_pct, f"{kernel}: worst {max(found):.2f} %, stated {max_pct} %"


HEADER = (
    "source,evidence,system,hardware,workload,phase,grid_w,grid_h,seq_in,seq_out,M,N,K,batch,dtype,metric,value,note\n"
)


def compared_row(folder: Path, line: str) -> ComparedRow:
    """Return the comparison of a file with one row."""
    file = folder / "rows.csv"
    file.write_text(HEADER + line + "\n")
    (row,) = compare(read(file), lambda *_: None)
    return row


def model_row(name: str, phase: str, grid: str, tokens: str = "4096,1", note: str = "") -> str:
    """Return a row about the tokens per second of a model with WaferLLM."""
    return f"x,paper-table,WaferLLM,Cerebras WSE-2,{name},{phase},{grid},{tokens},,,,1,fp16,tokens_per_s,1,{note}"


def test_request_takes_its_prefill_and_then_its_decode_steps(tmp_path: Path) -> None:
    note = '"prefill 660x660, decode 360x360"'
    with_note = compared_row(tmp_path, model_row("LLaMA3-8B", "end2end", ",", "2048,512", note)).prediction.value or 0.0
    without_note = compared_row(tmp_path, model_row("LLaMA3-8B", "end2end", ",", "2048,512")).prediction.value
    assert with_note == without_note  # the note has the grids that the source states for this model
    prefill = compared_row(tmp_path, model_row("LLaMA3-8B", "prefill", "660,660", "2048,1")).prediction.value or 0.0
    first = compared_row(tmp_path, model_row("LLaMA3-8B", "decode", "360,360", "2048,1")).prediction.value or 0.0
    last = compared_row(tmp_path, model_row("LLaMA3-8B", "decode", "360,360", "2560,1")).prediction.value or 0.0
    assert 512 / (2048 / prefill + 512 / last) <= with_note <= 512 / (2048 / prefill + 512 / first)


def test_row_of_one_layer_says_whether_all_layers_fit(tmp_path: Path) -> None:
    row = compared_row(tmp_path, model_row("TinyLlama-1.1B", "decode", "660,660")).as_row().to_dict()
    assert row["sram"] == {"fits": True}
    row = compared_row(tmp_path, model_row("LLaMA3-8B", "decode", "420,420")).as_row().to_dict()
    assert row["sram"] == {"fits": False}


def test_model_that_does_not_fit_can_be_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    models = ("TinyLlama-1.1B", "LLaMA3-8B")
    file.write_text(HEADER + "".join(model_row(name, "decode", "660,660") + "\n" for name in models))
    allowed = compare(read(file), lambda *_: None)
    refused = compare(read(file), lambda *_: None, "refuse")
    assert all(row.prediction.value for row in allowed)
    assert refused[0].prediction == allowed[0].prediction
    assert refused[1].prediction.value is None
    assert "not all layers" in refused[1].prediction.reason


def kernel_row(system: str, grid: str, sizes: str, note: str, hardware: str = "Cerebras WSE-3") -> str:
    """Return a row about the mean cycles of a kernel in a hardware log; `sizes` are its M, N and K."""
    return f"x,hardware-log,{system},{hardware},X,x,{grid},,,{sizes},1,fp16,mean_cycles,1,{note}"


def test_more_work_takes_longer(tmp_path: Path) -> None:
    def cycles(*row: str) -> float:
        return compared_row(tmp_path, kernel_row(*row)).prediction.value or 0.0

    gemv = ("MeshGEMV", "96,96")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles(*gemv, "1,192,768", "group_num=8")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles(*gemv, "1,192,192", "group_num=2")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles("MeshGEMV", "192,192", "1,192,192", "group_num=8")
    gemm = ("MeshGEMM", "24,24")
    assert cycles(*gemm, "24,48,48", "") < cycles(*gemm, "24,48,96", "") < cycles(*gemm, "192,48,96", "")
    communication, once, twice = (cycles(*gemm, "24,96,96", f"compute repeated {n} times") for n in (0, 1, 2))
    assert communication < once < twice
    assert once - communication < twice - once  # transfers overlap with the first product
    shift = ("Shift kernel", "64,64", "64,64,")
    assert cycles(*shift, '"shift distance L=4 columns, tile 2x2"') < cycles(
        *shift, '"shift distance L=4 columns, tile 8x8"'
    )
    assert cycles(*shift, '"shift distance L=4 columns, tile 2x2"') < cycles(
        *shift, '"shift distance L=9 columns, tile 2x2"'
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (model_row("Some-9B", "decode", "420,420"), "shape of the model"),
        (model_row("LLaMA3-8B", "decode", "420,"), "grid of PEs"),
        (model_row("LLaMA3-8B", "decode", "2000,2000"), "larger than the mesh"),
        (model_row("LLaMA3-8B", "prefill", "400,500"), "squares"),
        (model_row("QWen2-72B", "end2end", ",", "2048,512"), "grids of prefill and of decode"),
        (model_row("LLaMA3-8B", "end2end", ",", ","), "tokens of the prompt"),
        (model_row("LLaMA3-8B", "end2end", ",", "1,10000000"), "too many numbers of cache slots"),
        (model_row("LLaMA3-8B", "decode", "420,420").replace(",1,fp16", ",4,fp16"), "a single user only"),
        (model_row("LLaMA3-8B", "decode", "420,420").replace("tokens_per_s", "ms"), "not tokens per second"),
        (kernel_row("MeshGEMV", "96,96", "2,192,192", "group_num=8"), "one vector"),
        (kernel_row("MeshGEMV", "96,96", "1,192,192", "group_num=97"), "do not fit"),
        (kernel_row("MeshGEMV", ",", "1,192,192", ""), "grid of PEs"),
        (kernel_row("MeshGEMM", "96,48", "96,96,96", ""), "squares"),
        (kernel_row("MeshGEMM", "96,96", "96,,96", ""), "M, N and K"),
        (kernel_row("MeshGEMM", "96,96", "96,96,96", "two-hop transfers disabled"), "variant"),
        (kernel_row("MeshGEMM", "96,96", "96,96,96", "", "some machine"), "generation"),
        (kernel_row("Shift kernel", "96,96", "96,96,", "no distance"), "distance"),
    ],
)
def test_row_without_a_prediction_has_a_reason(tmp_path: Path, line: str, reason: str) -> None:
    row = compared_row(tmp_path, line)
    assert row.prediction.value is None
    assert reason in row.prediction.reason


@pytest.mark.parametrize(
    ("published", "name"),
    [
        ("decode LLaMA3-8B", "llama-3-8b"),
        ("Llama-3.3-70B-Instruct", "llama-3.3-70b-instruct"),
        ("Llama-3.1-8B-Instruct", "llama-3-8b"),
        ("Mistral-7B", "mistral-7b-v0.1"),
        ("Falcon-180B", None),
    ],
)
def test_published_names_find_their_configuration(published: str, name: str | None) -> None:
    assert configuration_of(published) == name
