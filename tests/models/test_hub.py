"""Tests of models by hub name, with a local server that implements the API of the hub."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wse
from tests.support.local_hub import COMMIT, OLD_COMMIT, LocalHub, local_hub
from wse.errors import BadModel
from wse.models.hub import HubReference, download, hub_reference
from wse.models.load import load_model

constants = pytest.importorskip("huggingface_hub.constants")
STORY = Path(__file__).parents[2] / "wse" / "data" / "story"
READ_FILES = {name: (STORY / name).read_bytes() for name in ("config.json", "tokenizer.json", "model.safetensors")}
UNREAD_FILES = {
    "pytorch_model.bin": b"pickle",
    "original/model.safetensors": b"",
    "consolidated.safetensors": b"",
    "a.py": b"",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """Return a local hub with the bundled model as org/name and other repositories, and use an empty cache."""
    with local_hub(READ_FILES | UNREAD_FILES) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("/{repo_id}")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "".join(template[1:]))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.chdir(tmp_path)
        download.cache_clear()
        yield server
    download.cache_clear()


def test_run_downloads_only_the_files_that_wse_reads(hub: LocalHub) -> None:
    model, bundled = load_model("org/name"), load_model("story")
    assert model.checkpoint is not None
    assert bundled.checkpoint is not None
    assert model.tokenizer is not None
    assert (model.spec.name, model.path.name) == ("name", COMMIT)
    assert model.checkpoint.tensor("embedding").tobytes() == bundled.checkpoint.tensor("embedding").tobytes()
    assert sorted(hub.sent) == sorted(READ_FILES)
    load_model("org/name")
    assert len(hub.sent) == len(READ_FILES)


def test_estimate_downloads_only_the_config(hub: LocalHub) -> None:
    model = load_model("org/name", with_weights=False)
    assert (model.checkpoint, model.spec.hidden_size) == (None, load_model("story").spec.hidden_size)
    options = {"mesh": "24x24", "mapping": "region", "schedule": "baseline", "prompt_len": 8, "new_tokens": 8}
    assert wse.estimate("org/name", **options).model.name == "name"
    assert hub.sent == ["config.json"]


def test_a_revision_is_a_tag_or_a_commit(hub: LocalHub) -> None:
    assert load_model("org/name@v1", with_weights=False).path.name == OLD_COMMIT
    assert load_model(f"org/name@{COMMIT}", with_weights=False).path.name == COMMIT


def test_the_token_is_sent_and_the_cache_is_used_without_a_network(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hf_of_a_test")
    path = load_model("org/name", with_weights=False).path
    assert hub.tokens == {"Bearer hf_of_a_test"}
    download.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("org/name", with_weights=False).path == path
    with pytest.raises(BadModel, match=r"HF_HUB_OFFLINE is set.*the tokenizer's files and the safetensors files by"):
        load_model("org/name")


def test_local_folder_of_the_name_is_used_first(hub: LocalHub, tmp_path: Path) -> None:
    folder = tmp_path / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(READ_FILES["config.json"])
    assert load_model("org/name", with_weights=False).path == Path("org/name")
    with pytest.raises(BadModel, match="no such file or folder"):
        load_model("org/other")  # the folder org exists locally, so this is a path
    assert not hub.sent


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/name@v2", "'org/name@v2': the repository has no such revision"),
        ("org/secret", "'org/secret': no such folder, and the hub has no such repository"),
        ("org/gated", "'org/gated': its owner restricts access; accept the terms"),
    ],
)
def test_refusals_of_the_hub_are_errors(hub: LocalHub, name: str, message: str) -> None:
    with pytest.raises(BadModel) as refusal:
        load_model(name)
    assert str(refusal.value).startswith(message)
    assert not hub.sent


def test_bad_files_of_a_repository_are_refused(hub: LocalHub) -> None:
    hub.files = {"config.json": json.dumps({"model_type": "llama", "hidden_size": -1}).encode()}
    with pytest.raises(BadModel, match=r"config\.json"):
        load_model("org/name", with_weights=False)
    download.cache_clear()
    hub.files = {"../config.json": b"{}", "folder/config.json": b"{}", "model.bin": b""}
    hub.revisions |= dict.fromkeys(("other", "1" * 40), "1" * 40)
    with pytest.raises(BadModel, match=r"'org/name@other': the repository has no config\.json"):
        load_model("org/name@other", with_weights=False)
    assert hub.sent == ["config.json"]


def test_without_a_network_the_message_says_what_to_fetch(hub: LocalHub) -> None:
    hub.server.shutdown()
    hub.server.server_close()
    with pytest.raises(BadModel) as refusal:
        load_model("Qwen/Qwen3-8B", with_weights=False)
    line = str(refusal.value)
    assert "the hub cannot be read" in line
    assert "give qwen3-8b, whose shape comes with wse, or fetch config.json by hand" in line


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    download.cache_clear()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadModel, match=r"install wse\[hub\], or give qwen3-8b"):
        load_model("Qwen/Qwen3-8B", with_weights=False)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("Qwen/Qwen3-8B", HubReference("Qwen/Qwen3-8B")),
        ("some.one/Model_1@refs/pr/3", HubReference("some.one/Model_1", "refs/pr/3")),
        ("llama-3-8b", None),
        ("none/model.gguf", None),
        ("none/config.json", None),
        ("./org/name", None),
        ("a/b/c", None),
        ("org/name@", None),
        ("tests/none", None),
    ],
)
def test_hub_reference_finds_names_of_repositories(
    text: str, reference: HubReference | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert hub_reference(text) == reference
