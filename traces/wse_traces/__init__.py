"""Traces of emulated runs: one schema, its writer, its reader and its validator.

``schema`` says what is in a file, ``write`` makes one while a run goes on, ``read`` opens it
lazily, ``validate`` lists all that is wrong with it. Needs numpy and h5py, and no emulator.
"""

from wse_traces.column import Column
from wse_traces.errors import TraceError
from wse_traces.header import RunHeader
from wse_traces.read import Trace, open_trace
from wse_traces.token_rows import Token
from wse_traces.validate import problems
from wse_traces.write import TraceWriter

__all__ = ["Column", "RunHeader", "Token", "Trace", "TraceError", "TraceWriter", "open_trace", "problems"]
