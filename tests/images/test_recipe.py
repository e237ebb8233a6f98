import dataclasses
import shutil

import pytest

from images.recipe import CODE, DEMO, OPERATOR, STAGE, Recipe, packages, stages_of

LOCK = {
    "package": [
        {
            "name": "app",
            "dependencies": [{"name": "wire"}],
            "optional-dependencies": {"stage": [{"name": "torch", "extra": ["opt"]}]},
            "dev-dependencies": {"dev": [{"name": "pytest"}]},
        },
        {"name": "wire", "version": "1"},
        {"name": "wire", "version": "2"},
        {
            "name": "torch",
            "dependencies": [{"name": "cuda"}],
            "optional-dependencies": {"opt": [{"name": "einsum"}], "other": [{"name": "pytest"}]},
        },
        {"name": "cuda", "dependencies": [{"name": "torch"}]},
        {"name": "einsum"},
        {"name": "pytest"},
    ]
}


def names(extra):
    return [(each["name"], each.get("version")) for each in packages(LOCK, "app", extra)]


def test_packages_are_those_that_an_extra_leads_to():
    assert names("stage") == [
        ("cuda", None),
        ("einsum", None),
        ("torch", None),
        ("wire", "1"),
        ("wire", "2"),
    ]


def test_without_the_extra_only_the_common_packages_are_needed():
    assert names("") == [("wire", "1"), ("wire", "2")]


@pytest.fixture
def recipe(tmp_path):
    """A copy of what the stage is made of."""
    for source in (*CODE, "uv.lock"):
        origin, copy = STAGE.root / source, tmp_path / source
        if origin.is_dir():
            shutil.copytree(origin, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(origin, copy)
    dockerfile = tmp_path / "stage.Dockerfile"
    shutil.copy(STAGE.dockerfile, dockerfile)
    return dataclasses.replace(STAGE, root=tmp_path, dockerfile=dockerfile)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def raise_version(recipe, package):
    head = f'[[package]]\nname = "{package}"\nversion = "'
    edit(recipe.root / "uv.lock", head, f"{head}9")


def keys(recipe: Recipe):
    return recipe.packages_key("base"), recipe.key("base")


def test_the_same_files_have_the_same_keys(recipe):
    assert keys(recipe) == keys(STAGE)


def test_a_change_of_code_changes_the_image_and_no_packages(recipe):
    before = keys(recipe)
    edit(recipe.root / "stage/diffusion_stage/errors.py", '"""', '"""Changed. ')
    after = keys(recipe)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_byte_code_changes_nothing(recipe):
    before = keys(recipe)
    (recipe.root / "stage/diffusion_stage/__pycache__").mkdir()
    (recipe.root / "stage/diffusion_stage/__pycache__/errors.cpython-311.pyc").touch()
    assert keys(recipe) == before


def test_another_version_of_a_package_changes_both(recipe):
    before = keys(recipe)
    raise_version(recipe, "torch")
    after = keys(recipe)
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_another_version_of_a_development_tool_changes_nothing(recipe):
    before = keys(recipe)
    raise_version(recipe, "pytest")
    assert keys(recipe) == before


def test_a_comment_in_the_dockerfile_changes_nothing(recipe):
    before = keys(recipe)
    recipe.dockerfile.write_text("# Hello.\n" + recipe.dockerfile.read_text())
    assert keys(recipe) == before


def test_a_setting_of_the_image_changes_no_packages(recipe):
    before = keys(recipe)
    edit(recipe.dockerfile, "HF_HOME=/tmp/hf", "HF_HOME=/tmp/hub")
    after = keys(recipe)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_another_base_changes_both(recipe):
    assert recipe.packages_key("other") != recipe.packages_key("base")
    assert recipe.key("other") != recipe.key("base")


def test_stage_and_demo_share_their_packages():
    assert DEMO.packages_key("base") == STAGE.packages_key("base") != OPERATOR.packages_key("base")
    assert DEMO.key("base") != STAGE.key("base")


def test_the_dockerfiles_differ_in_packages_and_settings_alone():
    stage, operator = (stages_of(each.dockerfile.read_text()) for each in (STAGE, OPERATOR))
    for name in ("tools", "deps", "code"):
        assert stage[name] == operator[name]
    assert stage["lock"].replace("--extra=stage", "--extra=operator") == operator["lock"]
    assert set(stage) - set(operator) == {"stage", "demo"}


@pytest.mark.parametrize("recipe", [STAGE, OPERATOR], ids=lambda each: each.target)
def test_images_run_without_rights(recipe):
    assert "USER 10001:10001\n" in stages_of(recipe.dockerfile.read_text())[recipe.target]
