"""Files made to mislead a reader: one line each, within a bound on memory, and no other file is opened."""

import json
import os
import shutil
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest

# Reads each file as tools do, with a limit on memory: the first message of opening and reading, and all problems.
READER = """
import json, resource, sys
sys.path[:] = {path!r}
import numpy as np
from wse_traces import TraceError, open_trace, problems
if sys.platform == "linux":
    has = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + (1 << 28),) * 2)
lines = {{}}
for file in {files!r}:
    first = ""
    try:
        with open_trace(file, limit_bytes=1 << 26) as trace:
            for column in trace:
                trace[column][:]
            trace.report()
    except TraceError as error:
        first = str(error)
    lines[file] = [first, *problems(file, limit_bytes=1 << 26)]
print(json.dumps(lines))
"""


def replace(file, path="steps/op", **options):
    """Make a dataset anew with other options, its attributes kept."""
    old = file[path]
    attributes = dict(old.attrs)
    settings = {"shape": old.shape, "dtype": old.dtype, "chunks": old.chunks, "maxshape": (None, *old.shape[1:])}
    del file[path]
    made = file.create_dataset(path, **{**settings, **options})
    made.attrs.update(attributes)
    return made


def chunk_of(file, content, path="steps/op"):
    """Put bytes instead of the first chunk of a dataset that is stored with gzip alone."""
    replace(file, path, compression="gzip").id.write_direct_chunk((0,), content)


def link_loop(file):
    del file["steps"]
    file["graph/steps"] = file["graph"]
    file["steps"] = file["graph/steps"]


def same_twice(file):
    for name in ("op", "stage"):
        del file["steps"][name]
    file["steps/op"] = file["steps/stage"] = file["steps/layer"]


def named_type(file):
    del file["steps/op"]
    file["steps/op"] = np.dtype("<i4")


def group_elsewhere(file):
    del file["steps"]
    file["steps"] = h5py.ExternalLink(file.filename, "/graph")


def filter_of_a_plugin(file):
    old = file["steps/op"]
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((4096,))
    settings.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    space, attributes = h5py.h5s.create_simple(old.shape, (h5py.h5s.UNLIMITED,)), dict(old.attrs)
    del file["steps/op"]
    made = h5py.h5d.create(file["steps"].id, b"op", h5py.h5t.STD_I32LE, space, dcpl=settings)
    h5py.Dataset(made).attrs.update(attributes)


def filters_on(*calls):
    def spoil(file):
        old = file["steps/op"]
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((4096,))
        for name in calls:
            getattr(settings, name)()
        space = h5py.h5s.create_simple(old.shape, (h5py.h5s.UNLIMITED,))
        del file["steps/op"]
        h5py.h5d.create(file["steps"].id, b"op", h5py.h5t.STD_I32LE, space, dcpl=settings)

    return spoil


def attribute(name, value, path="/", **options):
    def spoil(file):
        del file[path].attrs[name]
        file[path].attrs.create(name, value, **options)

    return spoil


def text(value):
    return np.array(value.encode() if isinstance(value, str) else value)


def instead(make):
    """Put something else instead of a dataset; ``make`` gets the file, the path and the number of rows."""

    def spoil(file, path="steps/op"):
        rows = len(file[path])
        del file[path]
        made = make(file, path, rows)
        if made is not None:
            file[path] = made

    return spoil


def virtual(file, path, rows):
    layout = h5py.VirtualLayout((rows,), "<i4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (rows,))
    file.create_virtual_dataset(path, layout)


def all_rows(change):
    def spoil(file):
        file["run/rows"][...] = change(file["run/rows"][...])

    return spoil


def dense_attributes(file):
    for i in range(200):
        file.attrs[f"x{i}"] = i
    file.attrs["model"] = np.bytes_(b"m" * 70_000)


def count(file, table, number):
    """Say that a table has so many rows."""
    counts = file["run/rows"]
    counts[counts.attrs["labels"].decode().split(",").index(table)] = number


def summary(content):
    def spoil(file):
        file["run/summary"].resize((len(content),))
        file["run/summary"][...] = np.frombuffer(content, "u1")
        count(file, "summary_byte", len(content))

    return spoil


def tiny_chunks(file):
    replace(file, "run/summary", chunks=(1,), shape=(100_000,))
    count(file, "summary_byte", 100_000)


def rows(**options):
    def spoil(file):
        replace(file, "run/rows", **options)

    return spoil


def mesh(file):
    for name, value in (("rows", 1 << 13), ("cols", 1 << 13)):
        file.attrs.modify(name, np.int64(value))


WHOLE = "steps/op: the data is damaged (the chunk at (0,): "
PLAIN = "run/rows: missing, or not a short list of integers in this file; the file is damaged"
ABSENT = "steps/op: missing, or not a dataset of this file"
CASES = {
    # chunks that are not what they say
    "bomb": (lambda f: chunk_of(f, zlib.compress(bytes(1 << 24))), WHOLE + "gzip of more than 16,388 B)"),
    "short": (lambda f: chunk_of(f, zlib.compress(b"abc")), WHOLE + "3 B, needed: 16,384 B)"),
    "cut": (lambda f: chunk_of(f, zlib.compress(bytes(16384))[:-6]), WHOLE + "gzip that is cut off)"),
    "no_gzip": (lambda f: chunk_of(f, b"hello"), WHOLE + "Error -3 while decompressing data"),
    "long": (lambda f: chunk_of(f, bytes(40_000)), "the chunk at (0,) claims 40,000 B"),
    "tiny_chunks": (tiny_chunks, "run/summary: the data is damaged (100,000 chunks to read, the limit is 65,536; read"),
    "fill": (lambda f: replace(f, fillvalue=7), "steps/op: missing elements read as 7, needed: 0"),
    "plugin": (filter_of_a_plugin, "steps/op: stored with filter 32001, allowed: shuffle, gzip, sum"),
    "twice": (filters_on("set_deflate", "set_deflate"), "steps/op: stored with 2 filters, needed: each at most once"),
    "order": (
        filters_on("set_fletcher32", "set_deflate"),
        "steps/op: stored with 2 filters, needed: each at most once",
    ),
    # types that a column does not have
    "big_endian": (lambda f: replace(f, dtype=">i4"), "steps/op: dtype >i4, needed: <i4"),
    "compound": (lambda f: replace(f, dtype=[("a", "<i4"), ("b", "<f8")]), "steps/op: dtype [('a', '<i4'), ("),
    "any_length": (lambda f: replace(f, dtype=h5py.string_dtype()), "steps/op: dtype object, needed: <i4"),
    "reference": (lambda f: replace(f, dtype=h5py.ref_dtype), "steps/op: dtype object, needed: <i4"),
    "region": (lambda f: replace(f, dtype=h5py.regionref_dtype), "steps/op: dtype object, needed: <i4"),
    "wide": (lambda f: replace(f, dtype="<i8"), "steps/op: dtype int64, needed: <i4"),
    # what a path leads to
    "loop": (link_loop, ABSENT),
    "alias": (same_twice, "steps/op: attribute 'unit' is 'layer', needed: 'index'"),
    "type": (named_type, ABSENT),
    "external": (group_elsewhere, ABSENT),
    "missing": (instead(lambda file, path, rows: None), ABSENT),
    "soft_link": (instead(lambda file, path, rows: h5py.SoftLink("/steps/stage")), ABSENT),
    "external_link": (instead(lambda file, path, rows: h5py.ExternalLink("other.h5", "/steps/op")), ABSENT),
    "group": (instead(lambda file, path, rows: file.create_group(path) and None), ABSENT),
    "virtual": (instead(virtual), "steps/op: its data is in other files"),
    # sizes
    "scalar": (instead(lambda file, path, rows: np.int32(3)), "steps/op: shape (), needed: (any) for ('step',)"),
    "few_rows": (lambda f: replace(f, shape=(3,)), "steps/op: 3 rows, table 'step' has 18"),
    "more_rows": (lambda f: f["steps/op"].resize((20,)), "steps/op: 20 rows, table 'step' has 18"),
    "outside": (
        lambda f: replace(f, chunks=None, maxshape=None, external=[("/etc/hostname", 0, 72)]),
        "steps/op: its data is in other files",
    ),
    "large_chunks": (
        lambda f: replace(f, chunks=(1 << 26,)),
        "steps/op: chunks of 268,435,456 B, at most 16,777,216 B",
    ),
    "a_row_more": (all_rows(lambda rows: rows + 1), "run/summary: 50 rows, table 'summary_byte' has 51"),
    "rows_huge": (
        lambda f: f["steps/op"].resize((2**60,)) or all_rows(lambda rows: 0 * rows + 2**60)(f),
        "run/summary: 50 rows, table 'summary_byte' has 1152921504606846976",
    ),
    # the counts of rows, which are read first
    "rows_chunked": (rows(chunks=(1 << 26,)), PLAIN),
    "rows_outside": (
        lambda f: replace(f, "run/rows", chunks=None, maxshape=None, external=[("/etc/passwd", 0, 512)]),
        PLAIN,
    ),
    "rows_many": (lambda f: replace(f, "run/rows", shape=(1 << 40,), chunks=None, maxshape=None), PLAIN),
    "rows_type": (lambda f: replace(f, "run/rows", dtype="<f8", chunks=None, maxshape=None), PLAIN),
    # attributes
    "text_any_length": (
        attribute("model", "m", dtype=h5py.string_dtype()),
        "/: attribute 'model' is not one str of at most 1,048,576 B",
    ),
    "text_list": (attribute("model", text("m"), shape=(1,)), "/: attribute 'model' is not one str"),
    "text_bytes": (attribute("model", text(b"\xff\xfe")), "/: attribute 'model' is not UTF-8"),
    "number_text": (attribute("seed", text("7")), "/: attribute 'seed' is not one int"),
    "dense": (
        lambda f: dense_attributes(f) or mesh(f),
        "sram/bytes_per_pe: shape (2, 6, 6, 5), needed: (any, 6, 8192, 8192)",
    ),
    "json_deep": (attribute("options", text("[" * 60_000), "run"), "run: maximum recursion depth exceeded"),
    "json_digits": (attribute("options", text('{"a": ' + "9" * 60_000 + "}"), "run"), "run: Exceeds the limit"),
    "json_list": (attribute("versions", text("[1]"), "run"), "run: attribute 'versions' is not a JSON object"),
    "json_text": (attribute("versions", text("{"), "run"), "run: Expecting property name"),
    "mesh": (mesh, "sram/bytes_per_pe: shape (2, 6, 6, 5), needed: (any, 6, 8192, 8192)"),
    "no_mesh": (attribute("rows", np.int64(2**40)), "/: 2 wafers of 1099511627776x5 PEs, needed: 1 to 268,435,456 PEs"),
    "clock": (attribute("clock_hz", np.nan), "/: attribute 'clock_hz' is nan, needed: above 0"),
    # the report
    "report_deep": (summary(b"[" * 100_000), "run/summary: not JSON (maximum recursion depth exceeded"),
    "report_bytes": (summary(b'{"a": "\xff"}'), "run/summary: not JSON ('utf-8' codec can't decode"),
    "report_cut": (summary(b'{"a":'), "run/summary: not JSON (Expecting value"),
    "report_large": (summary(b" " * ((1 << 24) + 1)), "run/summary: 16,777,217 B, the limit is 16,777,216 B"),
}


@pytest.fixture(scope="module")
def lines(sample, tmp_path_factory):
    """What a reader with little memory says of each file, by case."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, (spoil, _) in CASES.items():
        shutil.copy(sample, folder / f"{name}.h5")
        with h5py.File(folder / f"{name}.h5", "r+") as file:
            spoil(file)
    code = READER.format(path=sys.path, files=[str(folder / f"{name}.h5") for name in CASES])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_the_file_the_place_the_value_and_the_remedy(lines, case):
    message = CASES[case][1]
    file, (first, *problems) = next((file, found) for file, found in lines.items() if file.endswith(f"/{case}.h5"))
    assert message in first
    assert first.startswith(f"{file}: ")
    assert first.isprintable()
    assert first.endswith(("again", "at once"))
    assert any(message in line for line in problems), problems
