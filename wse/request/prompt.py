"""One text of a user as token ids: as it is, or as a turn of a chat."""

from __future__ import annotations

from wse.errors import BadInput, BadModel
from wse.models.configs.generation_config import generation_end_ids
from wse.models.load import LoadedModel


def text_ids(text: str, loaded: LoadedModel, *, chat: bool, system: str | None) -> tuple[int, ...]:
    """Ids of ``text`` and of what the tokenizer puts around it.

    With ``chat`` of the model's template with ``text`` as the user's turn, behind a ``system``'s where there is one; a
    template writes all special tokens itself, so nothing is put around what it gives.

    Raises:
        BadInput: the text is empty or has no token, or the template refuses the turns.
        BadModel: the model has no tokenizer, or with ``chat`` no template or a broken one.
    """
    if text == "":
        message = "--prompt '': the prompt is empty; leave the option out to start from the model's begin token"
        raise BadInput(message)
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        message = (
            f"{loaded.path}: has no tokenizer (tokenizer.json, tokenizer.model or tokenizer.bin), so text cannot be "
            "read; give token ids with --prompt-ids 1,2,3"
        )
        raise BadModel(message)
    if chat:
        if tokenizer.chat is None:
            message = (
                f"{loaded.path}: has no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json); leave --chat out"
            )
            raise BadModel(message)
        first = [] if system is None else [{"role": "system", "content": system}]
        rendered = tokenizer.chat.render([*first, {"role": "user", "content": text}])
        ids = tokenizer.encode(rendered, bare=True)
    else:
        ids = tokenizer.encode(text)
    if not ids:
        message = f"--prompt {text!r}: the tokenizer makes no token of it; give other text"
        raise BadInput(message)
    return tuple(ids)


def end_ids(loaded: LoadedModel, *, chat: bool) -> tuple[int, ...]:
    """The ids that end generation: the config's; with ``chat`` generation_config.json's or a GGUF's end of turn too.

    Raises:
        BadModel: generation_config.json is damaged.
    """
    own = loaded.spec.eos_token_ids
    if not chat or loaded.tokenizer is None or loaded.tokenizer.chat is None:
        return own
    more = generation_end_ids(loaded.path, loaded.spec.vocab_size)
    return tuple(dict.fromkeys((*own, *loaded.tokenizer.chat.end_ids, *more)))
