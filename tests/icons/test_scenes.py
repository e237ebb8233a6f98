import pytest
from hypothesis import given
from hypothesis import strategies as st

from icons.prompts import PROMPTS
from icons.scenes import BACKGROUNDS, COLOURS, OBJECTS, SIZES, Scene, parse

SCENES = st.builds(
    Scene,
    object=st.sampled_from(OBJECTS),
    colour=st.sampled_from(COLOURS),
    background=st.sampled_from(BACKGROUNDS),
    size=st.none() | st.sampled_from(SIZES),
)


@given(SCENES)
def test_a_scene_survives_its_canonical_prompt(scene):
    assert parse(str(scene)) == scene


@pytest.mark.parametrize(
    ("prompt", "scene"),
    [
        ("a red heart", Scene(object="heart", colour="red")),
        ("an orange sun on a blue background", Scene("sun", "orange", "blue")),
        ("a tiny grey dog on pink", Scene("dog", "gray", "pink", "small")),
        ("A huge black 7 on a white background", Scene("seven", "black", "white", "large")),
    ],
)
def test_synonyms_and_short_forms_are_understood(prompt, scene):
    assert parse(prompt) == scene


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("a red dragon", "object 'dragon'"),
        ("a crimson heart", "colour 'crimson'"),
        ("a red heart on a gray background", "background 'gray'"),
        ("a heavy red heart", "size 'heavy'"),
        ("hello", "prompt 'hello'"),
    ],
)
def test_a_prompt_that_the_model_does_not_know_is_refused_by_word(prompt, word):
    with pytest.raises(ValueError, match=word):
        parse(prompt)


def test_the_demo_asks_for_sixteen_different_scenes():
    assert len({parse(prompt) for prompt in PROMPTS}) == 16
