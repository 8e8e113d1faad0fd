"""How far predictions of silicon are off: the tolerances that this project states, row by row where they are so stated.

None of the constants is fitted on prefill; those of the other rows are fitted by tools/calibrate.py.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.measured.text_numbers import configuration_of
from wse.studies.validate.predictors.services import ServiceRequest, service_request
from wse.studies.validate.study import compare, default_files
from wse.studies.validate.summary import ComparedRow, summarise

Rows = list[ComparedRow]
Pick = Callable[[Measurement], bool]


ONE_WORKER = pytest.mark.xdist_group("accuracy")
"""Mark of the tests that share the predictions of all rows."""


@pytest.fixture(scope="module")
def every_row() -> Rows:
    """All rows except services, each of which is an estimate of seconds: `test_services` has some."""
    rows = [m for path in default_files() for m in read(path)]
    services = [m for m in rows if isinstance(service_request(m), ServiceRequest)]
    assert (len(rows), len(services)) == (3701, 20)
    return compare([m for m in rows if not isinstance(service_request(m), ServiceRequest)], lambda *_: None)


@pytest.fixture(scope="module")
def kernels(every_row: Rows) -> Rows:
    return [row for row in every_row if Path(row.measurement.file).name == "waferllm_measured.csv"]


def errors(rows: Rows, pick: Pick) -> list[float]:
    return [abs(row.error_pct or 0.0) for row in rows if pick(row.measurement) and row.prediction.value is not None]


def table(phase: str) -> Pick:
    return lambda m: m.text("system") == "WaferLLM" and m.text("phase") == phase and m.text("source") != ""


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
def test_no_row_of_the_kernels_that_are_modelled_goes_unpredicted(kernels: Rows) -> None:
    """Others are of other systems, of whole applications, or of variants that are not modelled."""
    assert sum(row.prediction.value is not None for row in kernels) == 542
    assert len(kernels) == 762


def log(kernel: str) -> Pick:
    return lambda m: m.text("system").startswith(kernel) and m.text("hardware") == "Cerebras WSE-3"


@pytest.mark.slow
@ONE_WORKER
@pytest.mark.parametrize(("phase", "rows", "most"), [("decode", 9, 3.0), ("prefill", 7, 4.0)])
def test_layers_of_8b_and_72b_on_three_grids_each(kernels: Rows, phase: str, rows: int, most: float) -> None:
    found = errors(kernels, table(phase))
    assert len(found) == rows
    assert max(found) <= most, f"{phase}: worst {max(found):.2f} %, stated {most} %"


@pytest.mark.slow
@ONE_WORKER
@pytest.mark.parametrize(
    ("kernel", "rows", "middle", "worst"),
    [("MeshGEMV", 119, 3.0, 10.0), ("MeshGEMM", 131, 3.0, 10.0), ("Shift", 108, 5.0, 25.0)],
)
def test_kernels_on_wse3_silicon(kernels: Rows, kernel: str, rows: int, middle: float, worst: float) -> None:
    found = errors(kernels, log(kernel))
    assert len(found) == rows
    assert median(found) <= middle, f"{kernel}: median {median(found):.2f} %, stated {middle} %"
    assert max(found) <= worst, f"{kernel}: worst {max(found):.2f} %, stated {worst} %"


HEADER = (
    "source,evidence,system,hardware,workload,phase,grid_w,grid_h,seq_in,seq_out,M,N,K,batch,dtype,metric,value,note\n"
)


def predicted(folder: Path, line: str) -> ComparedRow:
    file = folder / "rows.csv"
    file.write_text(HEADER + line + "\n")
    (row,) = compare(read(file), lambda *_: None)
    return row


def model(name: str, phase: str, grid: str, tokens: str = "4096,1", note: str = "") -> str:
    return f"x,paper-table,WaferLLM,Cerebras WSE-2,{name},{phase},{grid},{tokens},,,,1,fp16,tokens_per_s,1,{note}"


def test_a_request_takes_its_prefill_and_then_its_tokens(tmp_path: Path) -> None:
    note = '"prefill 660x660, decode 360x360"'
    told = predicted(tmp_path, model("LLaMA3-8B", "end2end", ",", "2048,512", note)).prediction.value or 0.0
    stated = predicted(tmp_path, model("LLaMA3-8B", "end2end", ",", "2048,512")).prediction.value
    assert told == stated  # the grids that the source states for this model
    prefill = predicted(tmp_path, model("LLaMA3-8B", "prefill", "660,660", "2048,1")).prediction.value or 0.0
    first = predicted(tmp_path, model("LLaMA3-8B", "decode", "360,360", "2048,1")).prediction.value or 0.0
    last = predicted(tmp_path, model("LLaMA3-8B", "decode", "360,360", "2560,1")).prediction.value or 0.0
    assert 512 / (2048 / prefill + 512 / last) <= told <= 512 / (2048 / prefill + 512 / first)


def test_whether_all_layers_fit_is_told_beside_the_time_of_one(tmp_path: Path) -> None:
    row = predicted(tmp_path, model("TinyLlama-1.1B", "decode", "660,660")).as_row().to_dict()
    assert row["sram"] == {"fits": True}
    assert predicted(tmp_path, model("LLaMA3-8B", "decode", "420,420")).as_row().to_dict()["sram"] == {"fits": False}


def test_what_does_not_fit_can_be_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    models = ("TinyLlama-1.1B", "LLaMA3-8B")
    file.write_text(HEADER + "".join(model(name, "decode", "660,660") + "\n" for name in models))
    told = compare(read(file), lambda *_: None)
    refused = compare(read(file), lambda *_: None, "refuse")
    assert all(row.prediction.value for row in told)
    assert refused[0].prediction == told[0].prediction
    assert refused[1].prediction.value is None
    assert "not all layers" in refused[1].prediction.reason


def kernel(system: str, grid: str, sizes: str, note: str, hardware: str = "Cerebras WSE-3") -> str:
    return f"x,hardware-log,{system},{hardware},X,x,{grid},,,{sizes},1,fp16,mean_cycles,1,{note}"


def test_more_work_takes_longer(tmp_path: Path) -> None:
    def cycles(*row: str) -> float:
        return predicted(tmp_path, kernel(*row)).prediction.value or 0.0

    gemv = ("MeshGEMV", "96,96")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles(*gemv, "1,192,768", "group_num=8")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles(*gemv, "1,192,192", "group_num=2")
    assert cycles(*gemv, "1,192,192", "group_num=8") < cycles("MeshGEMV", "192,192", "1,192,192", "group_num=8")
    gemm = ("MeshGEMM", "24,24")
    assert cycles(*gemm, "24,48,48", "") < cycles(*gemm, "24,48,96", "") < cycles(*gemm, "192,48,96", "")
    communication, once, twice = (cycles(*gemm, "24,96,96", f"compute repeated {n} times") for n in (0, 1, 2))
    assert communication < once < twice
    assert once - communication < twice - once  # the first product hides what the transfers take
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
        (model("Some-9B", "decode", "420,420"), "shape of the model"),
        (model("LLaMA3-8B", "decode", "420,"), "grid of PEs"),
        (model("LLaMA3-8B", "decode", "2000,2000"), "larger than the mesh"),
        (model("LLaMA3-8B", "prefill", "400,500"), "squares"),
        (model("QWen2-72B", "end2end", ",", "2048,512"), "grids of prefill and of decode"),
        (model("LLaMA3-8B", "end2end", ",", ","), "tokens of the prompt"),
        (model("LLaMA3-8B", "end2end", ",", "1,10000000"), "too many numbers of cache slots"),
        (model("LLaMA3-8B", "decode", "420,420").replace(",1,fp16", ",4,fp16"), "a single user only"),
        (model("LLaMA3-8B", "decode", "420,420").replace("tokens_per_s", "ms"), "not tokens per second"),
        (kernel("MeshGEMV", "96,96", "2,192,192", "group_num=8"), "one vector"),
        (kernel("MeshGEMV", "96,96", "1,192,192", "group_num=97"), "do not fit"),
        (kernel("MeshGEMV", ",", "1,192,192", ""), "grid of PEs"),
        (kernel("MeshGEMM", "96,48", "96,96,96", ""), "squares"),
        (kernel("MeshGEMM", "96,96", "96,,96", ""), "M, N and K"),
        (kernel("MeshGEMM", "96,96", "96,96,96", "two-hop transfers disabled"), "variant"),
        (kernel("MeshGEMM", "96,96", "96,96,96", "", "some machine"), "generation"),
        (kernel("Shift kernel", "96,96", "96,96,", "no distance"), "distance"),
    ],
)
def test_why_a_row_is_not_predicted(tmp_path: Path, line: str, reason: str) -> None:
    row = predicted(tmp_path, line)
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
