"""Engines that have read their prompts, for measuring the generated tokens."""

from wse.backends.execute.engine import Engine
from wse.models.spec import ModelSpec
from wse.studies.compile.choose import compile_program
from wse.studies.run.prepare import prepare, weights_of
from wse.studies.run.request import RunRequest


def prefilled_engine(request: RunRequest) -> tuple[Engine, ModelSpec]:
    """Return an engine that has compiled its kernels and read its prompts, and its model."""
    prepared = prepare(request, to_run=True)
    engine = Engine(compile_program(prepared), prepared.spec, weights_of(request, prepared.loaded))
    engine.precompile(lambda done, total, kernel: None)
    list(engine.prefill(*prepared.prompts))
    return engine, prepared.spec
