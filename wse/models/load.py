"""Load a model from a folder, a GGUF file, a config.json or a hub, or by its bundled name.

The readers of weights and tokenizers are imported only when needed. This halves the time needed to
read only a config.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wse.errors import BadModel, UnknownName
from wse.files import path_exists
from wse.known_names import known_name
from wse.models.catalogue import BUNDLED, CONFIGURATIONS, names
from wse.models.configs.config import config_states_dtype, read_config
from wse.models.hub import download, hub_reference
from wse.models.spec import ModelSpec

if TYPE_CHECKING:
    from wse.models.tensors.checkpoint import Checkpoint
    from wse.models.tensors.tensor_entry import TensorEntry
    from wse.models.tokenizers.token_text import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model loaded from its files.

    Attributes:
        spec: Shape and mathematics of the model.
        checkpoint: The weights; None if there are none. A model without weights can be timed but
            not executed.
        tokenizer: The tokenizer; None if the folder has none in a known format.
        path: The folder or the file.
        note: Sentence that names the assumed element type if the files do not specify one;
            otherwise None.
    """

    spec: ModelSpec
    checkpoint: Checkpoint | None
    tokenizer: Tokenizer | None
    path: Path
    note: str | None = None


def load_model(name_or_path: str | Path, *, with_weights: bool = True, fetches_weights: bool = True) -> LoadedModel:
    """Load a model: a bundled name, a folder, a GGUF file, a config file, or a repository of a hub.

    A bundled name takes precedence over a folder of the same name; write ``./name`` for the folder.
    A folder takes precedence over a repository of the same name. Bundled names are case-insensitive
    unless a file or folder has exactly the given name. A config file or a bundled configuration has
    no weights and no tokenizer.

    Args:
        name_or_path: Name or path of the model.
        with_weights: True to open the weights, so that the model can be executed. If False, the
            result has no checkpoint. Weights in a folder are then opened only to find an element
            type that config.json does not specify.
        fetches_weights: Whether to download the weights of a repository, if they are to be opened.
            Otherwise config.json alone is downloaded, and there is no checkpoint.

    Raises:
        UnknownName: ``name_or_path`` looks like a name, but no bundled model has it.
        BadModel: The folder or file does not exist, its content cannot be used, or the repository
            cannot be downloaded.
    """
    reference = hub_reference(str(name_or_path))
    if reference is not None:
        with_weights = with_weights and fetches_weights
        folder = download(reference, with_weights=with_weights)
        return _folder(folder, folder / "config.json", with_weights=with_weights, name=reference.name)
    name_or_path, path = _name_and_path(str(name_or_path))
    config = path / "config.json"
    try:
        is_folder, exists, has_config = path.is_dir(), path.exists(), config.exists()
    except OSError as error:
        raise BadModel(f"{path}: cannot be read ({error}); check the path and its permissions") from error
    if not exists or not name_or_path or (name_or_path in BUNDLED and not has_config):
        raise _not_found(name_or_path, path, with_weights=with_weights)
    if not is_folder:
        return _one_file(path, with_weights=with_weights)
    if not has_config:
        raise BadModel(f"{path}: has no config.json; give the folder of a Hugging Face model, or a config file")
    return _folder(path, config, with_weights=with_weights)


def _name_and_path(name_or_path: str) -> tuple[str, Path]:
    """Return the name and path of a model that the user specifies by name or path.

    Bundled names are matched case-insensitively, and the proper name is returned.
    """
    bundled = BUNDLED | CONFIGURATIONS
    if name_or_path not in bundled and not path_exists(name_or_path):
        name_or_path = known_name(name_or_path, bundled) or name_or_path
    return name_or_path, bundled.get(name_or_path, Path(name_or_path))


def _folder(path: Path, config: Path, *, with_weights: bool, name: str | None = None) -> LoadedModel:
    """Load a model from a folder with config.json, and weights and a tokenizer if there are any.

    If config.json does not specify an element type, the type of the weights is used.

    Args:
        path: The folder.
        config: Path of config.json.
        with_weights: True to open the weights, so that the model can be executed. If False, the
            result has no checkpoint.
        name: Name of the model; None for that of the folder.
    """
    from wse.models.tokenizers.tokenizer import load_tokenizer

    spec = read_config(config, name=name)  # before the weights, so that faults of the config are reported first
    states_dtype = config_states_dtype(config)
    entries = _open_weights(path, spec) if with_weights or not states_dtype else None
    if entries is None:
        note = None if states_dtype else _dtype_note(config, spec)
        return LoadedModel(spec=spec, checkpoint=None, tokenizer=load_tokenizer(path, spec), path=path, note=note)
    from wse.models.tensors.checkpoint import Checkpoint
    from wse.models.tensors.tensor_entry import FLOATS

    weight_dtype = next((FLOATS[entry.kind] for entry in entries.values() if entry.kind in FLOATS), "float32")
    spec = read_config(config, unstated_dtype=weight_dtype, name=name)
    checkpoint = Checkpoint(spec, entries) if with_weights else None
    return LoadedModel(spec=spec, checkpoint=checkpoint, tokenizer=load_tokenizer(path, spec), path=path)


def _open_weights(path: Path, spec: ModelSpec) -> dict[str, TensorEntry] | None:
    """Return the tensors in a model folder, keyed by name, or None if there are no weight files.

    Matrices that the checkpoint stores in a packed format are decoded when they are read.
    """
    from wse.models.tensors.packed_tensors import unpack
    from wse.models.tensors.safetensors_file import open_model_files

    entries = open_model_files(path)
    return None if entries is None else unpack(entries, spec.packing)


def _dtype_note(config: Path, spec: ModelSpec) -> str:
    """Return a note on the element type assumed for a model whose files do not specify one."""
    subject = "weights" if spec.weight_type == spec.dtype else f"all weights except {spec.weight_type} ones"
    return f"{config.name} states no torch_dtype: {subject} are assumed to be {spec.dtype}"


def _one_file(path: Path, *, with_weights: bool) -> LoadedModel:
    """Load a model from a single file: a config.json or a GGUF file.

    Raises:
        BadModel: The file is of another type.
    """
    if path.suffix == ".json":
        spec = read_config(path)
        note = None if config_states_dtype(path) else _dtype_note(path, spec)
        return LoadedModel(spec=spec, checkpoint=None, tokenizer=None, path=path, note=note)
    if path.suffix == ".safetensors":
        raise BadModel(f"{path}: weights alone are not enough; give the folder {path.parent}, with its config.json")
    if path.suffix == ".gguf":
        return _gguf(path, with_weights=with_weights)
    raise BadModel(
        f"{path}: is neither a folder, a config.json nor a GGUF file; give one of them, or a name of `wse models`"
    )


def _gguf(path: Path, *, with_weights: bool) -> LoadedModel:
    """Load a model from a GGUF file."""
    from wse.models.gguf.file import GgufFile
    from wse.models.gguf.model import read_gguf
    from wse.models.gguf.tokenizer import gguf_tokenizer
    from wse.models.tensors.checkpoint import Checkpoint

    gguf = GgufFile(path)
    spec, entries = read_gguf(gguf)
    tokenizer = gguf_tokenizer(gguf, spec)
    checkpoint = Checkpoint(spec, entries) if with_weights else None
    return LoadedModel(spec=spec, checkpoint=checkpoint, tokenizer=tokenizer, path=path)


def _not_found(name_or_path: str, path: Path, *, with_weights: bool) -> Exception:
    """Build the error for a model that does not exist.

    The error depends on whether the user appears to have entered a bundled name or a path. If the
    weights are needed, it also names the bundled models that have them.
    """
    if name_or_path in BUNDLED:
        return BadModel(f"{path}: the bundled model {name_or_path!r} is missing; install wse again")
    if name_or_path and path.name == name_or_path and not path.suffix[1:].isalpha():  # a name, such as "llama-3.1-8b"
        note = f"; of these, {' and '.join(BUNDLED)} have weights" if with_weights else ""
        return UnknownName("model or folder", name_or_path, names(), listed_by="wse models", note=note)
    return BadModel(
        f"{name_or_path!r}: no such file or folder; give a model folder, a GGUF file, a config.json, "
        "or a name of `wse models`"
    )
