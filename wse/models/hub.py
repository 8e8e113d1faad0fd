"""Download models from a hub by repository name, using the cache and token of huggingface_hub.

Only files that wse can read are downloaded: the configuration, the tokenizer and safetensors files.
None of these contain code, and their readers treat them as untrusted. The package
``huggingface_hub`` is imported only if a model is specified by its repository.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from wse.errors import BadModel
from wse.files import path_exists
from wse.models.catalogue import name_of_repository

CONFIG: Final = "config.json"
TOKENIZER: Final = (
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "chat_template.jinja"),
    "generation_config.json",
)
WEIGHTS: Final = ("model*.safetensors", "model.safetensors.index.json")
_OTHER_FOLDERS: Final = "*/*"
_REFERENCE: Final = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(\w[\w./-]*))?")
_FILE_SUFFIXES: Final = (".json", ".gguf", ".safetensors", ".toml")


@dataclass(frozen=True, slots=True)
class HubReference:
    """A model on a hub.

    Attributes:
        repository: Owner and name of the repository, such as ``Qwen/Qwen3-8B``.
        revision: Branch, tag or commit; None for the default branch.
    """

    repository: str
    revision: str | None = None

    @property
    def name(self) -> str:
        """Name of the repository without its owner."""
        return self.repository.partition("/")[2]

    def __str__(self) -> str:
        """Return the reference as users write it."""
        return self.repository if self.revision is None else f"{self.repository}@{self.revision}"


def hub_reference(text: str) -> HubReference | None:
    """Return the model on a hub that a string names: ``org/name`` or ``org/name@revision``.

    The result is None if the string is a path instead: if such a file or folder exists, if the part
    before the first slash exists, or if the string has the suffix of a file.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or text.endswith(_FILE_SUFFIXES) or path_exists(text) or path_exists(text.partition("/")[0]):
        return None
    return HubReference(match[1], match[2])


@cache
def download(reference: HubReference, *, with_weights: bool) -> Path:
    """Download a model from the hub into the cache of ``huggingface_hub``, if it is not there yet.

    The result is cached, so that the hub is asked once per process.

    Args:
        reference: Repository and revision of the model.
        with_weights: True to download config.json, the tokenizer and the weights. False to download
            only config.json, which is enough to time a model.

    Returns:
        Folder with the files.

    Raises:
        BadModel: The package is not installed, the hub cannot be reached, or the repository or the
            revision does not exist or may not be read.
    """
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as fault:
        raise BadModel(
            f"'{reference}': no such folder, and the package that downloads models is missing; install wse[hub], "
            f"or {_remedy(reference, with_weights=with_weights)}"
        ) from fault
    patterns = [CONFIG, *TOKENIZER, *WEIGHTS] if with_weights else [CONFIG]
    try:
        path = snapshot_download(
            reference.repository,
            revision=reference.revision,
            allow_patterns=patterns,
            ignore_patterns=[_OTHER_FOLDERS],
            library_name="wse",
        )
    except errors.GatedRepoError as fault:
        reason = "its owner restricts access; accept the terms on its page and log in with hf auth login, or"
        raise BadModel(f"'{reference}': {reason} {_remedy(reference, with_weights=with_weights)}") from fault
    except errors.RepositoryNotFoundError as fault:
        reason = "no such folder, and the hub has no such repository; check the name, or log in to read a private one"
        raise BadModel(f"'{reference}': {reason}") from fault
    except errors.RevisionNotFoundError as fault:
        raise BadModel(
            f"'{reference}': the repository has no such revision; give a branch, tag or commit of it after the @"
        ) from fault
    except Exception as fault:  # the errors of the HTTP client, which differs between versions of the package
        is_offline = isinstance(fault.__cause__, errors.OfflineModeIsEnabled)
        reason = "HF_HUB_OFFLINE is set" if is_offline else _first_line(fault.__cause__ or fault)
        raise BadModel(
            f"'{reference}': no such folder, not in the cache, and the hub cannot be read ({reason}); "
            f"connect to it, or {_remedy(reference, with_weights=with_weights)}"
        ) from fault
    folder = Path(path)
    if not (folder / CONFIG).is_file():
        raise BadModel(
            f"'{reference}': the repository has no {CONFIG}; give one of a model in the format of transformers"
        )
    return folder


def _remedy(reference: HubReference, *, with_weights: bool) -> str:
    """Return the end of an error message: what the user can do if a model cannot be downloaded.

    The text names the bundled configuration of the model, if any, and the files to fetch by hand.
    """
    bundled_name = name_of_repository(reference.repository)
    by_name = "" if bundled_name is None or with_weights else f"give {bundled_name}, whose shape comes with wse, or "
    files = f"{CONFIG}, the tokenizer's files and the safetensors files" if with_weights else CONFIG
    return f"{by_name}fetch {files} by hand into a folder {reference.name} and give its path, ./{reference.name}"


def _first_line(fault: BaseException) -> str:
    """Return the start of the first line of an error's message, or its class if it has none."""
    return next(iter(str(fault).splitlines()), "")[:200] or type(fault).__name__
