"""Prompts of a run as token ids, from token ids, text, a chat message or a file.

A file contains one prompt per user: one per line, or a JSON list of strings if its name ends in
``.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, SupportsIndex

from wse.errors import BadInput, BadModel
from wse.files import read_file
from wse.models.catalogue import BUNDLED
from wse.models.configs.config import generation_end_ids
from wse.models.load import LoadedModel
from wse.models.spec import ModelSpec
from wse.studies.run.request import RunRequest

BUNDLED_PROMPT = "Once upon a time, there was a boy named Tim"

Prompt = str | tuple[int, ...] | None
"""A string, token ids, or None for the model's default prompt (see `prompt_ids`)."""


def prompts_of(request: RunRequest) -> list[Prompt]:
    """Return the prompts of a request, one per user.

    The list contains a single None if the request specifies no prompt.

    Raises:
        BadInput: More than one option specifies prompts, or the prompt file cannot be used.
    """
    inputs = request.inputs
    kinds = {"--prompt": inputs.prompt, "--prompt-ids": inputs.prompt_ids, "--prompts": inputs.prompts}
    options = [name for name, value in kinds.items() if value is not None]
    if len(options) > 1:
        raise BadInput(f"{' and '.join(options)}: give one of the {'two' if len(options) == 2 else 'three'}")
    if inputs.prompts is not None:
        return list(read_prompts(Path(inputs.prompts)))
    if inputs.prompt is not None:
        prompts = [inputs.prompt] if isinstance(inputs.prompt, str) else list(inputs.prompt)
        if not prompts:
            raise BadInput("--prompt: the list is empty; give a text for each user, or leave it out")
        return [*prompts]
    ids: Any = inputs.prompt_ids  # of one user, or a list per user
    if ids is None:
        return [None]
    lists = [ids] if all(isinstance(item, SupportsIndex) for item in ids) else ids
    return [tuple(map(int, user_ids)) for user_ids in lists]


def prompt_ids(prompt: Prompt, request: RunRequest, loaded_model: LoadedModel) -> tuple[int, ...]:
    """Return the token ids of one user's prompt.

    Token ids are used unchanged, and text is tokenized. Without a prompt, a bundled model continues
    a fixed string. Other models start with their begin token. A model with neither a begin token
    nor weights starts with id 0.

    Args:
        prompt: Token ids, a string, or None for the default prompt.
        request: The request, with its chat options.
        loaded_model: The model with its tokenizer.

    Raises:
        BadInput: An id is outside the vocabulary, or the prompt is empty or cannot be used in a
            chat. Or no prompt is specified and the model has no begin token.
        BadModel: The prompt is a string but the model has no tokenizer, or it is a chat but the
            model has no chat template.
    """
    spec, chat, system = loaded_model.spec, request.inputs.chat, request.inputs.system
    if system is not None and not chat:
        raise BadInput(f"--system {system!r}: a system message is part of a chat; give --chat too")
    if isinstance(prompt, tuple):
        if chat:
            raise BadInput(
                "--chat: --prompt-ids are used as they are, without a template; give --prompt, or leave --chat out"
            )
        return _checked_ids(prompt, spec)
    if prompt is None and chat:
        raise BadInput("--chat: the user's message is missing; give it with --prompt")
    if prompt is None and request.model in BUNDLED:
        prompt = BUNDLED_PROMPT
    if prompt is not None:
        return text_ids(prompt, loaded_model, chat=chat, system=system)
    if spec.bos_token_id is not None:
        return (spec.bos_token_id,)
    if loaded_model.checkpoint is None:
        return (0,)  # weights are random, so any id serves as a prompt
    raise BadInput(f"{spec.name}: has no begin token to start from; give --prompt or --prompt-ids")


def _checked_ids(ids: Sequence[int], spec: ModelSpec) -> tuple[int, ...]:
    if not ids:
        raise BadInput("--prompt-ids: the prompt is empty; give at least one id")
    for token in ids:
        if not 0 <= token < spec.vocab_size:
            raise BadInput(
                f"--prompt-ids: {token} is outside the vocabulary of {spec.name}; "
                f"give ids from 0 to {spec.vocab_size - 1:,}"
            )
    return tuple(ids)


def text_ids(text: str, loaded_model: LoadedModel, *, chat: bool, system: str | None) -> tuple[int, ...]:
    """Return the token ids of a string, including special tokens such as the begin token.

    With ``chat``, the text becomes the user's message in the model's chat template. The template
    writes all special tokens itself, so the tokenizer adds none.

    Args:
        text: The prompt.
        loaded_model: The model with its tokenizer.
        chat: True to insert the text into the model's chat template. False to use it as it is.
        system: System message that precedes the user's message. None for no system message.

    Raises:
        BadInput: The text is empty, yields no tokens, or is rejected by the chat template.
        BadModel: The model has no tokenizer, or no usable chat template although ``chat`` is set.
    """
    if text == "":
        raise BadInput("--prompt '': the prompt is empty; leave the option out to start from the model's begin token")
    tokenizer = loaded_model.tokenizer
    if tokenizer is None:
        raise BadModel(
            f"{loaded_model.path}: has no tokenizer (tokenizer.json, tokenizer.model or tokenizer.bin), so text "
            "cannot be read; give token ids with --prompt-ids 1,2,3"
        )
    if chat:
        if tokenizer.chat is None:
            raise BadModel(
                f"{loaded_model.path}: has no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json); leave --chat out"
            )
        first = [] if system is None else [{"role": "system", "content": system}]
        rendered = tokenizer.chat.render([*first, {"role": "user", "content": text}])
        ids = tokenizer.encode(rendered, bare=True)
    else:
        ids = tokenizer.encode(text)
    if not ids:
        raise BadInput(f"--prompt {text!r}: the tokenizer returns no token for it; give other text")
    return tuple(ids)


def end_ids(loaded_model: LoadedModel, *, chat: bool) -> tuple[int, ...]:
    """Return the ids of the tokens that stop generation.

    These are the end tokens of the configuration and the tokenizer. With ``chat``, they include the
    tokens that end a message, from generation_config.json or the GGUF file.

    Raises:
        BadModel: generation_config.json is damaged.
    """
    model_ids = loaded_model.spec.eos_token_ids + (
        () if loaded_model.tokenizer is None else loaded_model.tokenizer.end_ids
    )
    if not chat or loaded_model.tokenizer is None or loaded_model.tokenizer.chat is None:
        return model_ids
    generation_ids = generation_end_ids(loaded_model.path, loaded_model.spec.vocab_size)
    return tuple(dict.fromkeys((*model_ids, *loaded_model.tokenizer.chat.end_ids, *generation_ids)))


LARGEST_BYTES: Final = 16 << 20
MAX_PROMPTS: Final = 4096


def read_prompts(path: Path) -> tuple[str, ...]:
    """Read the prompts from a UTF-8 file, in order.

    A file with the suffix ``.json`` contains a JSON list of strings. Any other file contains one
    prompt per line.

    Raises:
        BadInput: The file is missing, not a regular file, unreadable, too large, not UTF-8, or not
            a JSON list of strings. Or it contains no prompts, too many prompts, or an empty prompt.
    """
    text = _text(path)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    prompts = _parse_list(path, text) if path.suffix == ".json" else lines
    if not prompts:
        _refuse(path, "contains no prompt; give one per line, or a JSON list of texts in a .json file")
    if len(prompts) > MAX_PROMPTS:
        _refuse(path, f"contains {len(prompts):,} prompts; give at most {MAX_PROMPTS:,} in one run")
    place = "item" if path.suffix == ".json" else "line"
    for number, prompt in enumerate(prompts, start=1):
        if not prompt.strip():
            _refuse(path, f"{place} {number} is empty; give each prompt some text")
    return tuple(prompts)


def _text(path: Path) -> str:
    try:
        return read_file(path, LARGEST_BYTES, BadInput, "a file of prompts").decode("utf-8-sig")
    except BadInput as error:
        raise BadInput(f"--prompts {error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"--prompts {path}: byte {error.start} is not UTF-8; save it as UTF-8") from error


def _parse_list(path: Path, text: str) -> list[str]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"--prompts {path}: not JSON at line {error.lineno}, column {error.colno} ({error.msg}); correct it"
        ) from error
    except (RecursionError, ValueError) as error:
        raise BadInput(f"--prompts {path}: not a JSON list of texts; correct it") from error
    if not isinstance(value, list):
        _refuse(path, f'contains a JSON {type(value).__name__}, not a list of texts such as ["One day", "Once"]')
    for number, item in enumerate(value, start=1):
        if not isinstance(item, str):
            _refuse(path, f"item {number} is a {type(item).__name__}, not a text; put it in quotes")
    return list(value)


def _refuse(path: Path, reason: str) -> NoReturn:
    raise BadInput(f"--prompts {path}: {reason}")
