"""The options that several commands have, and how their texts become values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from wse.errors import BadInput

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A Hugging Face model folder, a GGUF file, a config.json, or a name of `wse models`."
    ),
]
Wafer = Annotated[str, typer.Option(metavar="NAME|FILE", help="A name of `wse wafers`, or a TOML file.")]
Mesh = Annotated[
    str | None,
    typer.Option(metavar="ROWSxCOLS", help="Use a smaller mesh of the wafer's PEs. Default: the smallest square."),
]
WholeMesh = Annotated[
    str | None,
    typer.Option(metavar="ROWSxCOLS", help="Use a smaller mesh of the wafer's PEs. Default: the whole wafer."),
]
Wafers = Annotated[str, typer.Option(metavar="N|auto", help="How many wafers; auto: the fewest that hold the model.")]
Mapping = Annotated[str, typer.Option(metavar="NAME", help="A name of `wse mappings`.")]
Region = Annotated[
    str | None, typer.Option(metavar="ROWSxCOLS", help="PEs of one region. Default: the mapping's choice.")
]
Experts = Annotated[
    str, typer.Option(metavar="spread|own", help="Each expert over all columns of a region, or on columns of its own.")
]
Software = Annotated[str, typer.Option(metavar="NAME|FILE", help="The set of software costs: tuned, academic, ...")]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="float32, float16 or bfloat16 throughout; or weights of linear layers as int8 or fp8 (e4m3) with a scale "
        "an output, or as int4 with a scale every 32 inputs. Default: the model's own.",
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE", help="All but quantised weights: float32, float16, bfloat16. Default: the model's own."
    ),
]
Accumulate = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Sums: float32 (default), or float16 with --dtype float16.")
]
Context = Annotated[
    int | None, typer.Option(metavar="N", help="Tokens that the KV cache has room for. Default: prompt + new tokens.")
]
PromptLen = Annotated[int, typer.Option(metavar="N", help="Tokens of each user's prompt.")]
NewTokens = Annotated[int, typer.Option(metavar="N", help="Tokens generated for each user.")]
Batch = Annotated[int, typer.Option(metavar="N", help="Users whose tokens are decoded together.")]
Economics = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Power and prices in a TOML file, in place of those of wse/data/economics.toml."),
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Of what is drawn when the temperature is above 0, for each prompt anew.")
]
Defects = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|RATE",
        help="Dead PEs and links: a CSV file of them, or the share of PEs that are dead, such as 1e-4.",
    ),
]
DefectsSeed = Annotated[int, typer.Option(metavar="N", help="Of the dead PEs that a rate draws.")]
Prompt = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Text to continue. Several of them are answered together.")
]
PromptIds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="1,2,3", help="Token ids to continue, used as they are; needs no tokenizer. As often as wanted."
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Texts to continue together: one a line, or a JSON list in a .json file."),
]
Chat = Annotated[bool, typer.Option("--chat", help="The prompt is a user's turn, in the model's chat template.")]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="The system's turn of a chat, before the user's.")]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(metavar="N", help="Stop after N tokens, if no end token came before. Default: 256, or what fits."),
]
Temperature = Annotated[
    float, typer.Option(metavar="T", help="0 takes the likeliest token on the wafer; above, the host draws.")
]
TopK = Annotated[int, typer.Option(metavar="K", help="Draw among the K likeliest tokens; 0: among all.")]
TopP = Annotated[
    float, typer.Option(metavar="P", help="Draw among the likeliest tokens that have probability P together.")
]
MinP = Annotated[
    float, typer.Option(metavar="P", help="Draw among tokens at least P times as likely as the likeliest.")
]
RepetitionPenalty = Annotated[
    float, typer.Option(metavar="R", help="Above 1: tokens of prompt and text so far become less likely.")
]
AllowNonfinite = Annotated[
    bool, typer.Option("--allow-nonfinite", help="Run weights that hold infinities or what is no number.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]


def request(**given: Any) -> Any:
    """The Request that the options describe.

    Raises:
        BadInput: a number of wafers or a list of ids that is none, prompts of two kinds, or a file of them that cannot
            be used.
    """
    from wse.request.run_request import Request

    given["wafers"] = wafer_count(given["wafers"])
    texts, ids, file = (given.pop(name, None) for name in ("prompt", "prompt_ids", "prompts"))
    return Request(**given, **_prompts(texts or [], ids or [], file))


def _prompts(texts: list[str], ids: list[str], file: str | None) -> dict[str, Any]:
    """The fields of a Request that hold what is to be continued."""
    kinds = {"--prompt": texts, "--prompt-ids": ids, "--prompts": file is not None}
    named = [name for name, value in kinds.items() if value]
    if len(named) > 1:
        message = f"{' and '.join(named)}: give one of the {'two' if len(named) == 2 else 'three'}"
        raise BadInput(message)
    if file is not None:
        from wse.request.prompt_file import read_prompts

        return {"prompts": read_prompts(Path(file))}
    if len(texts) == 1:
        return {"prompt": texts[0]}
    if len(ids) == 1:
        return {"prompt_ids": _ids(ids[0])}
    return {"prompts": (*texts, *map(_ids, ids))}


def trace_path(text: str) -> Path | None:
    """The path of ``--trace``; None for ``none``."""
    if text == "none":
        return None
    if text == "":
        message = "--trace '': the path is empty; give a file name, or none"
        raise BadInput(message)
    return Path(text)


def wafer_count(text: str) -> int | None:
    """The number of ``--wafers``; None for ``auto``. Raises BadInput where it is no number."""
    if text == "auto":
        return None
    number = _whole(text)
    if number is None:
        message = f"--wafers {text!r}: give a whole number of at least 1, or auto"
        raise BadInput(message)
    return number


def _ids(text: str) -> tuple[int, ...]:
    numbers = [_whole(part) for part in text.split(",")] if text.strip() else []
    for part, number in zip(text.split(","), numbers, strict=False):
        if number is None:
            message = f"--prompt-ids: {part!r} is not a token id; give whole numbers with commas between, such as 1,2,3"
            raise BadInput(message)
    return tuple(n for n in numbers if n is not None)


def _whole(text: str) -> int | None:
    """The integer that a text is, in plain decimal digits of sane length."""
    text = text.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def warn(stream: TextIO, message: str) -> None:
    """Say what the user should know though the command goes on."""
    stream.write(f"wse: warning: {message}\n")
    stream.flush()
