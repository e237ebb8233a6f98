"""`docs/structure.md` names each module there is, and no other."""

import pytest

from tools import structure


def test_the_document_is_what_the_modules_say():
    _, marker, listed = structure.DOCUMENT.read_text().partition(structure.MARKER)
    assert marker, "the marker line is gone"
    assert listed.strip() == structure.render().strip(), "run: make fix"


def test_a_module_is_listed_with_its_first_sentence(tmp_path):
    module = tmp_path / "noun.py"
    module.write_text('"""One sentence, `a.b` in it, over\ntwo lines. Another."""\n')
    assert structure.sentence(module) == "One sentence, `a.b` in it, over two lines."


def test_a_module_without_a_sentence_is_refused_by_name(tmp_path):
    module = tmp_path / "noun.py"
    module.write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"noun\.py"):
        structure.sentence(module)
