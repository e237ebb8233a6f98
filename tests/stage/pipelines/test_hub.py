"""Models of a hub: what is loaded, from where, and what is told of everything that goes wrong."""

import errno
import logging
import os
import shutil
import subprocess

import pytest
import torch
from huggingface_hub import constants, hf_api

from diffusion_stage.errors import ModelError
from diffusion_stage.pipelines.hub import explain
from diffusion_stage.pipelines.loader import load
from diffusion_stage.pipelines.source import ModelSource, find
from tests.fakes.hub import COMMIT, TOKEN, FakeHub

pytestmark = pytest.mark.filterwarnings("ignore")  # of diffusers and transformers, as they load

WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system: run it as root")


@pytest.fixture
def hub(icons_model):
    hub = FakeHub(icons_model)
    yield hub
    hub.stop()


@pytest.fixture
def cache(hub, tmp_path, monkeypatch):
    """The cache's folder, in a process that asks the fake hub.

    huggingface_hub reads its environment once, when it is imported.
    """
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    ask(monkeypatch, hub.address)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return use_cache(monkeypatch, tmp_path / "cache")


def ask(monkeypatch, address):
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(hf_api.api, "endpoint", address)
    files = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)


def use_cache(monkeypatch, folder):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    return folder


def load_from_hub(repo="org/open", revision=None):
    return load(
        find(f"hf://{repo}", revision),
        device=torch.device("cpu"),
        dtype=torch.float32,
        pipeline_class=None,
    )


def trouble(repo="org/open", revision=None):
    """What is told of a model that cannot be loaded."""
    with pytest.raises(ModelError) as failed:
        load_from_hub(repo, revision)
    assert failed.value.exit_code == 66
    return str(failed.value)


def test_a_model_is_downloaded_once_and_then_loaded_without_the_hub(hub, cache):
    assert type(load_from_hub()).__name__ == "ZImagePipeline"
    assert hub.sent_bytes[WEIGHTS] == hub.files[WEIGHTS].stat().st_size
    hub.requests.clear()
    for revision in (None, "main", COMMIT):
        load_from_hub(revision=revision)
    assert hub.requests == []


def test_a_private_model_is_read_with_the_token(cache, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert type(load_from_hub("org/private")).__name__ == "ZImagePipeline"


@pytest.mark.parametrize(
    ("repo", "revision", "token", "words"),
    [
        ("org/gone", None, None, "no such repository, or hides it as private; it was asked w"),
        ("org/gone", None, TOKEN, "no such repository, or hides it as private; the token is that"),
        ("org/private", None, None, "it was asked without a token"),
        ("org/private", None, "hf_bad", "does not accept the token in HF_TOKEN"),
        ("org/gated", None, None, "to those alone who were granted access; it was asked without"),
        ("org/gated", None, TOKEN, "who were granted access; the token is that in HF_TOKEN"),
        ("org/open", "v2", None, "knows no revision 'v2' of it"),
        ("org/broken", None, None, "answers with status 500"),
    ],
)
def test_what_the_hub_refuses_is_told(cache, monkeypatch, repo, revision, token, words):
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    said = trouble(repo, revision)
    at = f" at {revision}" if revision else ""
    assert said.startswith(f"model hf://{repo}{at}: {constants.ENDPOINT} ")
    assert words in said
    assert "hf_" not in said.replace(f"hf://{repo}", "")


def test_a_repository_that_is_no_pipeline_is_told(hub, cache):
    del hub.files["model_index.json"]
    assert "has no model_index.json in it" in trouble()


def test_a_hub_that_cannot_be_reached_is_told(hub, cache, monkeypatch):
    address = "http://127.0.0.1:1"
    ask(monkeypatch, address)
    assert f"{address} cannot be reached, or broke off: ConnectError: " in trouble()


def test_a_hub_that_may_not_be_asked_is_told(cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert f"it is not whole in {cache}, and HF_HUB_OFFLINE keeps from the hub" in trouble()


def test_a_connection_that_breaks_is_taken_up_where_it_ended(hub, cache, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 16)
    hub.cut, hub.cuts = WEIGHTS, 1
    load_from_hub()
    size_bytes = hub.files[WEIGHTS].stat().st_size
    assert size_bytes <= hub.sent_bytes[WEIGHTS] < size_bytes + (1 << 16)


def test_after_a_download_that_broke_off_only_the_rest_is_downloaded(hub, cache):
    hub.cut, hub.cuts = WEIGHTS, 1000
    assert "cannot be reached, or broke off" in trouble()
    hub.cuts = 0
    load_from_hub()
    whole = [name for name in hub.files if name.endswith(".safetensors") and name != WEIGHTS]
    assert len(whole) == 2
    assert [hub.sent_bytes[name] - hub.files[name].stat().st_size for name in whole] == [0, 0]


def test_a_download_that_was_not_finished_is_no_model_without_the_hub(hub, cache, monkeypatch):
    load_from_hub()
    next(cache.glob(f"*/snapshots/*/{WEIGHTS}")).unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "it is not whole in" in trouble()


def test_what_is_missing_in_the_cache_is_downloaded_again(hub, cache):
    load_from_hub()
    weights = next(cache.glob(f"*/snapshots/*/{WEIGHTS}"))
    weights.resolve().unlink()
    weights.unlink()
    load_from_hub()
    assert weights.is_file()


def test_a_damaged_cache_is_told_with_its_place(hub, cache):
    load_from_hub()
    blob = next(cache.glob(f"*/snapshots/*/{WEIGHTS}")).resolve()
    blob.write_bytes(blob.read_bytes()[:100_000])
    assert f"if the cache is damaged, delete its folder in {cache}" in trouble()


@pytest.fixture
def volume(tmp_path):
    """Mounts a file system of its own size, and unmounts it."""
    folder = tmp_path / "volume"
    folder.mkdir()

    def mount(options):
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        return folder

    yield mount
    if folder.is_mount():
        subprocess.run(["umount", folder], check=True)


@NEEDS_ROOT
def test_a_disk_that_the_model_does_not_fit_on_is_told_with_what_is_free(
    cache, volume, monkeypatch
):
    full = use_cache(monkeypatch, volume("size=1m"))
    said = trouble()
    assert f"bytes are free at {full}; allowed: a volume that the model fits on" in said
    free = int(said.partition("the disk is full: ")[2].split()[0])
    assert free == shutil.disk_usage(full).free


@NEEDS_ROOT
def test_a_cache_that_is_mounted_read_only_needs_no_hub(hub, cache, volume, monkeypatch):
    load_from_hub()
    mounted = volume("size=16m")
    shutil.copytree(cache, mounted / "hub", symlinks=True)
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    use_cache(monkeypatch, mounted / "hub")
    hub.requests.clear()
    load_from_hub()
    assert hub.requests == []


@NEEDS_ROOT
def test_a_cache_that_cannot_be_written_is_told(cache, volume, monkeypatch):
    folder = volume("size=16m,ro")
    use_cache(monkeypatch, folder / "hub")
    said = trouble()
    assert f"{folder}/hub" in said
    assert f"Read-only file system, as user {os.geteuid()}" in said


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_that_is_not_ours_to_read_is_told_with_the_user(is_local):
    error = OSError("cannot load")
    error.__cause__ = PermissionError(
        errno.EACCES, "Permission denied", "/models/m/vae/config.json"
    )
    words = f"/models/m/vae/config.json: Permission denied, as user {os.geteuid()}"
    assert explain(error, ModelSource("m", None, is_local=is_local)) == words


def test_the_log_says_that_the_hub_is_asked(cache, caplog):
    caplog.set_level(logging.INFO, "diffusion_stage")
    load_from_hub()
    assert "hf://org/open is not in the cache, so the hub is asked" in caplog.text
