"""Traces of emulated runs: the schema of the files, a writer, a reader and a validator.

``schema`` describes the contents of a file, ``write`` writes a file while a run proceeds, ``read``
opens a file lazily, and ``validate`` lists all problems of a file. The package needs only numpy and
h5py, and not the emulator.
"""

from wse_traces.errors import TraceError
from wse_traces.header import RunHeader
from wse_traces.reader.column import Column
from wse_traces.reader.read import Trace, open_trace
from wse_traces.validator.validate import problems
from wse_traces.writer.write import Token, TraceWriter

__all__ = ["Column", "RunHeader", "Token", "Trace", "TraceError", "TraceWriter", "open_trace", "problems"]
