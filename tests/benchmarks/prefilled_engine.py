"""An emulation engine that has read its prompts, to measure the time of decoded tokens."""

from __future__ import annotations

from wse.backends.execute.engine import Engine
from wse.models.spec import ModelSpec
from wse.studies.compile.choose import compile_program
from wse.studies.run.prepare import prepare, weights_of
from wse.studies.run.request import RunRequest


def prefilled_engine(request: RunRequest) -> tuple[Engine, ModelSpec]:
    """Return the emulation engine for a request, and the model.

    Its kernels are compiled and its prompts are read, so the next step is to decode a token.
    """
    prepared = prepare(request, to_run=True)
    engine = Engine(compile_program(prepared), prepared.spec, weights_of(request, prepared.loaded))
    engine.precompile(lambda done, total, kernel: None)
    list(engine.prefill(*prepared.prompts))
    return engine, prepared.spec
