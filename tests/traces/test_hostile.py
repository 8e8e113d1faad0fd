"""Tests of malicious trace files: each gives a message of one line, needs little memory and opens no other file."""

import json
import os
import shutil
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest

# Program that reads each file with a limit on memory. For each file it prints as JSON the message of the first error,
# and then all lines of `problems`.
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


def recreate(file, path="steps/op", **options):
    """Create a dataset anew with other options and its old attributes; return the new dataset."""
    old = file[path]
    attributes = dict(old.attrs)
    settings = {"shape": old.shape, "dtype": old.dtype, "chunks": old.chunks, "maxshape": (None, *old.shape[1:])}
    del file[path]
    dataset = file.create_dataset(path, **{**settings, **options})
    dataset.attrs.update(attributes)
    return dataset


def replace_first_chunk(file, content, path="steps/op"):
    """Store a dataset with gzip only, and replace its first chunk by the given bytes."""
    recreate(file, path, compression="gzip").id.write_direct_chunk((0,), content)


def add_link_loop(file):
    del file["steps"]
    file["graph/steps"] = file["graph"]
    file["steps"] = file["graph/steps"]


def link_one_dataset_three_times(file):
    for name in ("op", "stage"):
        del file["steps"][name]
    file["steps/op"] = file["steps/stage"] = file["steps/layer"]


def replace_by_a_named_type(file):
    del file["steps/op"]
    file["steps/op"] = np.dtype("<i4")


def replace_by_an_external_group(file):
    del file["steps"]
    file["steps"] = h5py.ExternalLink(file.filename, "/graph")


def use_a_plugin_filter(file):
    old = file["steps/op"]
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((4096,))
    settings.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    space, attributes = h5py.h5s.create_simple(old.shape, (h5py.h5s.UNLIMITED,)), dict(old.attrs)
    del file["steps/op"]
    made = h5py.h5d.create(file["steps"].id, b"op", h5py.h5t.STD_I32LE, space, dcpl=settings)
    h5py.Dataset(made).attrs.update(attributes)


# Functions named with_... return a function that damages a file; the others damage the file that they get.


def with_filters(*calls):
    """Return a function that stores steps/op anew with filters, set by these methods of the property list."""

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


def with_attribute(name, value, path="/", **options):
    """Return a function that replaces an attribute of the object at ``path``."""

    def spoil(file):
        del file[path].attrs[name]
        file[path].attrs.create(name, value, **options)

    return spoil


def text(value):
    return np.array(value.encode() if isinstance(value, str) else value)


def with_replacement(make):
    """Return a function that replaces a dataset by the result of ``make(file, path, number of rows)``."""

    def spoil(file, path="steps/op"):
        rows = len(file[path])
        del file[path]
        made = make(file, path, rows)
        if made is not None:
            file[path] = made

    return spoil


def create_virtual(file, path, rows):
    layout = h5py.VirtualLayout((rows,), "<i4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (rows,))
    file.create_virtual_dataset(path, layout)


def with_row_counts(change):
    """Return a function that applies ``change`` to the stored numbers of rows of all tables."""

    def spoil(file):
        file["run/rows"][...] = change(file["run/rows"][...])

    return spoil


def add_many_attributes(file):
    for i in range(200):
        file.attrs[f"x{i}"] = i
    file.attrs["model"] = np.bytes_(b"m" * 70_000)


def set_row_count(file, table, number):
    """Set the stored number of rows of a table, without changing its columns."""
    counts = file["run/rows"]
    counts[counts.attrs["labels"].decode().split(",").index(table)] = number


def with_summary(content):
    """Return a function that replaces the bytes of the report."""

    def spoil(file):
        file["run/summary"].resize((len(content),))
        file["run/summary"][...] = np.frombuffer(content, "u1")
        set_row_count(file, "summary_byte", len(content))

    return spoil


def use_tiny_chunks(file):
    recreate(file, "run/summary", chunks=(1,), shape=(100_000,))
    set_row_count(file, "summary_byte", 100_000)


def with_new_row_counts(**options):
    """Return a function that stores run/rows anew with other options."""

    def spoil(file):
        recreate(file, "run/rows", **options)

    return spoil


def enlarge_mesh(file):
    for name, value in (("rows", 1 << 13), ("cols", 1 << 13)):
        file.attrs.modify(name, np.int64(value))


DAMAGED_CHUNK = "steps/op: the data is damaged (the chunk at (0,): "
INVALID_ROW_COUNTS = "run/rows: missing, or not a short list of integers in this file; the file is damaged"
NO_DATASET = "steps/op: missing, or not a dataset of this file"
CASES = {
    # chunks whose content does not match their description
    "bomb": (
        lambda f: replace_first_chunk(f, zlib.compress(bytes(1 << 24))),
        DAMAGED_CHUNK + "gzip of more than 16,388 B)",
    ),
    "short": (lambda f: replace_first_chunk(f, zlib.compress(b"abc")), DAMAGED_CHUNK + "3 B, needed: 16,384 B)"),
    "cut": (
        lambda f: replace_first_chunk(f, zlib.compress(bytes(16384))[:-6]),
        DAMAGED_CHUNK + "gzip that is cut off)",
    ),
    "no_gzip": (lambda f: replace_first_chunk(f, b"hello"), DAMAGED_CHUNK + "Error -3 while decompressing data"),
    "long": (lambda f: replace_first_chunk(f, bytes(40_000)), "the chunk at (0,) claims 40,000 B"),
    "tiny_chunks": (
        use_tiny_chunks,
        "run/summary: the data is damaged (100,000 chunks to read, the limit is 65,536; read",
    ),
    "fill": (lambda f: recreate(f, fillvalue=7), "steps/op: missing elements read as 7, needed: 0"),
    "plugin": (use_a_plugin_filter, "steps/op: stored with filter 32001, allowed: shuffle, gzip, sum"),
    "twice": (with_filters("set_deflate", "set_deflate"), "steps/op: stored with 2 filters, needed: each at most once"),
    # types that differ from the type of the column
    "big_endian": (lambda f: recreate(f, dtype=">i4"), "steps/op: dtype >i4, needed: <i4"),
    "compound": (lambda f: recreate(f, dtype=[("a", "<i4"), ("b", "<f8")]), "steps/op: dtype [('a', '<i4'), ("),
    "any_length": (lambda f: recreate(f, dtype=h5py.string_dtype()), "steps/op: dtype object, needed: <i4"),
    "region": (lambda f: recreate(f, dtype=h5py.regionref_dtype), "steps/op: dtype object, needed: <i4"),
    # paths that lead to something else than a dataset of the file
    "loop": (add_link_loop, NO_DATASET),
    "alias": (link_one_dataset_three_times, "steps/op: attribute 'unit' is 'layer', needed: 'index'"),
    "type": (replace_by_a_named_type, NO_DATASET),
    "external": (replace_by_an_external_group, NO_DATASET),
    "missing": (with_replacement(lambda file, path, rows: None), NO_DATASET),
    "soft_link": (with_replacement(lambda file, path, rows: h5py.SoftLink("/steps/stage")), NO_DATASET),
    "external_link": (
        with_replacement(lambda file, path, rows: h5py.ExternalLink("other.h5", "/steps/op")),
        NO_DATASET,
    ),
    "group": (with_replacement(lambda file, path, rows: file.create_group(path) and None), NO_DATASET),
    "virtual": (with_replacement(create_virtual), "steps/op: its data is in other files"),
    # sizes
    "scalar": (
        with_replacement(lambda file, path, rows: np.int32(3)),
        "steps/op: shape (), needed: (any) for ('step',)",
    ),
    "few_rows": (lambda f: recreate(f, shape=(3,)), "steps/op: 3 rows, table 'step' has 18"),
    "more_rows": (lambda f: f["steps/op"].resize((20,)), "steps/op: 20 rows, table 'step' has 18"),
    "outside": (
        lambda f: recreate(f, chunks=None, maxshape=None, external=[("/etc/hostname", 0, 72)]),
        "steps/op: its data is in other files",
    ),
    "large_chunks": (
        lambda f: recreate(f, chunks=(1 << 26,)),
        "steps/op: chunks of 268,435,456 B, at most 16,777,216 B",
    ),
    "a_row_more": (
        with_row_counts(lambda rows: rows + 1),
        "run/summary: 50 rows, table 'summary_byte' has 51",
    ),
    "rows_huge": (
        lambda f: f["steps/op"].resize((2**60,)) or with_row_counts(lambda rows: 0 * rows + 2**60)(f),
        "run/summary: 50 rows, table 'summary_byte' has 1152921504606846976",
    ),
    # the numbers of rows, which are read first
    "rows_chunked": (with_new_row_counts(chunks=(1 << 26,)), INVALID_ROW_COUNTS),
    "rows_outside": (
        lambda f: recreate(f, "run/rows", chunks=None, maxshape=None, external=[("/etc/passwd", 0, 512)]),
        INVALID_ROW_COUNTS,
    ),
    "rows_many": (lambda f: recreate(f, "run/rows", shape=(1 << 40,), chunks=None, maxshape=None), INVALID_ROW_COUNTS),
    "rows_type": (lambda f: recreate(f, "run/rows", dtype="<f8", chunks=None, maxshape=None), INVALID_ROW_COUNTS),
    # attributes
    "text_any_length": (
        with_attribute("model", "m", dtype=h5py.string_dtype()),
        "/: attribute 'model' is not one str of at most 1,048,576 B",
    ),
    "text_list": (with_attribute("model", text("m"), shape=(1,)), "/: attribute 'model' is not one str"),
    "text_bytes": (with_attribute("model", text(b"\xff\xfe")), "/: attribute 'model' is not UTF-8"),
    "number_text": (with_attribute("seed", text("7")), "/: attribute 'seed' is not one int"),
    "dense": (
        lambda f: add_many_attributes(f) or enlarge_mesh(f),
        "sram/bytes_per_pe: shape (2, 6, 6, 5), needed: (any, 6, 8192, 8192)",
    ),
    "json_deep": (with_attribute("options", text("[" * 60_000), "run"), "run: maximum recursion depth exceeded"),
    "json_digits": (with_attribute("options", text('{"a": ' + "9" * 60_000 + "}"), "run"), "run: Exceeds the limit"),
    "json_list": (with_attribute("versions", text("[1]"), "run"), "run: attribute 'versions' is not a JSON object"),
    "mesh": (enlarge_mesh, "sram/bytes_per_pe: shape (2, 6, 6, 5), needed: (any, 6, 8192, 8192)"),
    "no_mesh": (
        with_attribute("rows", np.int64(2**40)),
        "/: 2 wafers of 1099511627776x5 PEs, needed: 1 to 268,435,456 PEs",
    ),
    "clock": (with_attribute("clock_hz", np.nan), "/: attribute 'clock_hz' is nan, needed: above 0"),
    # the report
    "report_deep": (with_summary(b"[" * 100_000), "run/summary: not JSON (maximum recursion depth exceeded"),
    "report_bytes": (with_summary(b'{"a": "\xff"}'), "run/summary: not JSON ('utf-8' codec can't decode"),
    "report_large": (with_summary(b" " * ((1 << 24) + 1)), "run/summary: 16,777,217 B, the limit is 16,777,216 B"),
}


@pytest.fixture(scope="module")
def messages_by_file(sample, tmp_path_factory):
    """Damage one copy of the sample per case; return the messages of the reader for each file."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, (spoil, _) in CASES.items():
        shutil.copy(sample, folder / f"{name}.h5")
        with h5py.File(folder / f"{name}.h5", "r+") as file:
            spoil(file)
    code = READER.format(path=sys.path, files=[str(folder / f"{name}.h5") for name in CASES])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("case", CASES)
def test_message_names_the_file_the_place_the_value_and_the_remedy(messages_by_file, case):
    message = CASES[case][1]
    file, (first, *problems) = next(
        (file, found) for file, found in messages_by_file.items() if file.endswith(f"/{case}.h5")
    )
    assert message in first
    assert first.startswith(f"{file}: ")
    assert first.isprintable()
    assert first.endswith(("again", "at once"))
    assert any(message in line for line in problems), problems
