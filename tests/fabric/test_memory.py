"""What was compiled and timed is let go as soon as nobody has it: a search compiles and times dozens of Programs."""

from __future__ import annotations

import gc

from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer

from wse.backends.fabric.model import Fabric
from wse.compiler.options import Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of

MACHINE = wafer(5, 4, 1 << 20)


def compile_and_time() -> None:
    spec = mixture_spec(MIXTURES["softmax"])
    options = Options(
        mapping="region",
        wafers=1,
        dtype="float16",
        accumulate="float32",
        context=40,
        prompt_tokens=(6,),
        experts="own",
    )
    rewrites = rewrites_of(spec, options)
    choice = Choice(prefill="thin-gemm", prefill_chunk=6, head_chunk=67, rewrites=rewrites)
    fabric = Fabric(compile_choice(spec, MACHINE, SOFTWARE, options, choice), MACHINE, SOFTWARE)
    assert fabric.prefill_cost(0).traffic.hops.any()
    assert fabric.decode_cost(6).traffic.hops.any()


def test_no_cycle_of_references_is_left_for_the_collector() -> None:
    compile_and_time()  # caches of the process are filled
    gc.collect()
    gc.disable()
    try:
        compile_and_time()
        assert gc.collect() == 0
    finally:
        gc.enable()
