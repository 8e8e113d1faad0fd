"""Read tokenizer_config.json: the tokenizer's class, its special tokens, and where it adds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wse.errors import BadModel
from wse.files import read_file, read_object
from wse.models.configs.config_reader import ConfigReader
from wse.models.tokenizers.chat_template import ChatTemplate

FILE_LIMIT_BYTES: Final = 64 * 2**20
MARKS: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
MORE_MARKS: Final = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is recognised as a whole in any string, before the string is split.

    Attributes:
        text: Text of the token.
        token_id: Id of the token; None if the file does not specify it.
        special: Whether the token has no text when decoded.
        normalized: Whether the token is searched for in the normalised text.
        lstrip, rstrip: Whether spaces before or after the token belong to it.
        single_word: Whether the token is only recognised as a separate word.
    """

    text: str
    token_id: int | None = None
    special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """Settings from tokenizer_config.json, with default values for a folder without this file.

    Attributes:
        tokenizer_class: Name of the class in transformers, without "Fast".
        marks: Names and texts of special tokens, such as bos_token.
        added_tokens: Additional tokens that are recognised as a whole.
        add_bos_token, add_eos_token: Whether to add a BOS token before a sequence and an EOS token
            after it.
        add_prefix_space: True to prepend a space to a string, so that its first word gets the same
            token as inside a text.
        legacy: True to also prepend a space to every text that follows a special token.
        chat_template: Jinja source of the chat template; None if there is none.
    """

    tokenizer_class: str = ""
    marks: tuple[tuple[str, str], ...] = ()
    added_tokens: tuple[AddedToken, ...] = ()
    add_bos_token: bool = False
    add_eos_token: bool = False
    add_prefix_space: bool = True
    legacy: bool = False
    chat_template: str | None = None

    def mark(self, name: str) -> str | None:
        """Return the text of a special token such as ``bos_token``, or None if there is none."""
        return dict(self.marks).get(name)

    def chat(self, folder: Path) -> ChatTemplate | None:
        """Return the chat template of the model, or None if the config has none.

        Args:
            folder: Folder of the model, for messages.
        """
        source = self.chat_template
        return None if source is None else ChatTemplate(source=source, origin=str(folder), marks=self.marks)


def read_tokenizer_config(folder: Path) -> TokenizerConfig:
    """Return the tokenizer settings of a model folder.

    A file chat_template.jinja takes precedence over the template in tokenizer_config.json.

    Raises:
        BadModel: A file is damaged, or a value has the wrong type.
    """
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return TokenizerConfig(chat_template=_template_file(folder))
    config = ConfigReader(path, read_object(path, FILE_LIMIT_BYTES))
    named_tokens = {name: _text(config, name, config.value(name)) for name in MARKS if config.has_value(name)}
    return TokenizerConfig(
        tokenizer_class=_text(config, "tokenizer_class", config.value("tokenizer_class") or "").removesuffix("Fast"),
        marks=tuple(named_tokens.items()),
        added_tokens=(*_added_tokens(config), *_more_marks(config)),
        add_bos_token=config.flag("add_bos_token", default=False),
        add_eos_token=config.flag("add_eos_token", default=False),
        add_prefix_space=config.flag("add_prefix_space", default=True),
        legacy=config.flag("legacy", default=False),
        chat_template=_template_file(folder) or _template(config),
    )


def _text(config: ConfigReader, key: str, value: Any) -> str:
    """Return the text of a token: a string, or the ``content`` of an object."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str):
        config.refuse(key, value, "give a string, or an object with content")
    return str(text)


def _added_tokens(config: ConfigReader) -> list[AddedToken]:
    """Return the tokens in ``added_tokens_decoder`` of tokenizer_config.json, by ascending id."""
    table = config.value("added_tokens_decoder") or {}
    if not isinstance(table, dict):
        config.refuse("added_tokens_decoder", table, "give an object of tokens by id")
    tokens = []
    for key, value in table.items():
        entry_key = f"added_tokens_decoder.{key}"
        if not (key.isascii() and key.isdigit() and len(key) < 10) or not isinstance(value, dict):
            config.refuse(entry_key, value, "give objects by token id")
        flags = {}
        for flag in ("special", "normalized", "lstrip", "rstrip", "single_word"):
            flags[flag] = value.get(flag, False)
            if not isinstance(flags[flag], bool):
                config.refuse(f"{entry_key}.{flag}", flags[flag], "give true or false")
        tokens.append(AddedToken(text=_text(config, entry_key, value), token_id=int(key), **flags))
    return sorted(tokens, key=lambda token: token.token_id or 0)


def _more_marks(config: ConfigReader) -> list[AddedToken]:
    """Return the additional special tokens that tokenizer_config.json lists without ids."""
    special_tokens = []
    for key in MORE_MARKS:
        value = config.value(key) or []
        tokens = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(tokens, list):
            config.refuse(key, value, "give a list of tokens")
        special_tokens += [AddedToken(text=_text(config, key, token)) for token in tokens]
    return special_tokens


def _template(config: ConfigReader) -> str | None:
    """Return the chat template of a tokenizer_config.json, or None if there is none.

    If the config has a list of templates, the one named "default" is returned.
    """
    value = config.value("chat_template")
    if isinstance(value, list):
        templates = {t.get("name"): t.get("template") for t in value if isinstance(t, dict)}
        value = templates.get("default")
        if value is None:
            config.refuse(
                "chat_template", sorted(map(str, templates)), "no template among these is named default; add it"
            )
    if value is not None and not isinstance(value, str):
        config.refuse("chat_template", value, "give a string, or a list of objects with name and template")
    return value


def _template_file(folder: Path) -> str | None:
    """Return the content of chat_template.jinja, or None if there is no such file."""
    path = folder / "chat_template.jinja"
    if not path.exists():
        return None
    try:
        return read_file(path, FILE_LIMIT_BYTES, BadModel).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadModel(f"{path}: byte {error.start} is not UTF-8; fetch the file again") from error
