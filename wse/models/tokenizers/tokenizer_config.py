"""tokenizer_config.json: which class a tokenizer is of, its marks, and what it puts around a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wse.errors import BadModel
from wse.files import read_file
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.json_file import read_object
from wse.models.tokenizers.chat_template import ChatTemplate

FILE_LIMIT_BYTES: Final = 64 * 2**20
MARKS: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
MORE_MARKS: Final = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is matched whole in any text. ``token_id`` is None where the file does not state it."""

    text: str
    token_id: int | None = None
    special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """The settings of tokenizer_config.json; defaults are those of a folder without the file.

    Attributes:
        tokenizer_class: Name of the class in transformers, without "Fast".
        marks: The named special tokens by name, such as bos_token.
        added: Further tokens that are found whole in a text.
        legacy: Whether a space is put before every stretch of text between special tokens, not only before the first.
        chat_template: Jinja source.
    """

    tokenizer_class: str = ""
    marks: tuple[tuple[str, str], ...] = ()
    added: tuple[AddedToken, ...] = ()
    add_bos_token: bool = False
    add_eos_token: bool = False
    add_prefix_space: bool = True
    legacy: bool = False
    chat_template: str | None = None

    def mark(self, name: str) -> str | None:
        """Return the token of a name such as bos_token."""
        return dict(self.marks).get(name)

    def chat(self, folder: Path) -> ChatTemplate | None:
        """Return the template, where there is one."""
        source = self.chat_template
        return None if source is None else ChatTemplate(source=source, where=str(folder), marks=self.marks)


def read_tokenizer_config(folder: Path) -> TokenizerConfig:
    """Return the settings of a model folder; chat_template.jinja takes precedence.

    Raises:
        BadModel: a file is damaged, or a value of it is of the wrong kind.
    """
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return TokenizerConfig(chat_template=_template_file(folder))
    config = ConfigReader(path, read_object(path, FILE_LIMIT_BYTES))
    named = {name: _text(config, name, config.value(name)) for name in MARKS if config.has(name)}
    return TokenizerConfig(
        tokenizer_class=(_text(config, "tokenizer_class", config.value("tokenizer_class") or "")).removesuffix("Fast"),
        marks=tuple(named.items()),
        added=(*_added_tokens(config), *_more_marks(config)),
        add_bos_token=config.flag("add_bos_token", default=False),
        add_eos_token=config.flag("add_eos_token", default=False),
        add_prefix_space=config.flag("add_prefix_space", default=True),
        legacy=config.flag("legacy", default=False),
        chat_template=_template_file(folder) or _template(config),
    )


def _text(config: ConfigReader, key: str, value: Any) -> str:
    """Return a token: a string, or an object with its ``content``."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str):
        config.refuse(key, value, "give a string, or an object with content")
    return str(text)


def _added_tokens(config: ConfigReader) -> list[AddedToken]:
    table = config.value("added_tokens_decoder") or {}
    if not isinstance(table, dict):
        config.refuse("added_tokens_decoder", table, "give an object of tokens by id")
    added = []
    for key, value in table.items():
        where = f"added_tokens_decoder.{key}"
        if not (key.isascii() and key.isdigit() and len(key) < 10) or not isinstance(value, dict):
            config.refuse(where, value, "give objects by token id")
        flags = {}
        for flag in ("special", "normalized", "lstrip", "rstrip", "single_word"):
            flags[flag] = value.get(flag, False)
            if not isinstance(flags[flag], bool):
                config.refuse(f"{where}.{flag}", flags[flag], "give true or false")
        added.append(AddedToken(text=_text(config, where, value), token_id=int(key), **flags))
    return sorted(added, key=lambda token: token.token_id or 0)


def _more_marks(config: ConfigReader) -> list[AddedToken]:
    added = []
    for key in MORE_MARKS:
        value = config.value(key) or []
        tokens = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(tokens, list):
            config.refuse(key, value, "give a list of tokens")
        added += [AddedToken(text=_text(config, key, token)) for token in tokens]
    return added


def _template(config: ConfigReader) -> str | None:
    """Return the only template, or the one named default."""
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
    path = folder / "chat_template.jinja"
    if not path.exists():
        return None
    try:
        return read_file(path, FILE_LIMIT_BYTES, BadModel).decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{path}: byte {error.start} is not UTF-8; fetch the file again"
        raise BadModel(msg) from error
