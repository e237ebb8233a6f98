import pytest

from testcluster.layout import Layout
from testcluster.spec import Spec


@pytest.mark.parametrize("nodes", [-1, 10])
def test_a_count_of_nodes_out_of_range_is_named(nodes):
    with pytest.raises(ValueError, match=f"nodes is {nodes}; allowed are 0 to 9"):
        Spec(nodes, gpus=0, binaries="/bin", ephemeral=False)


def test_negative_gpus_are_refused():
    with pytest.raises(ValueError, match="gpus is -1"):
        Spec(1, gpus=-1, binaries="/bin", ephemeral=False)


def test_a_store_is_named_by_a_word():
    with pytest.raises(ValueError, match=r"store is '\.\./x'"):
        Spec(1, gpus=0, binaries="/bin", ephemeral=False, store="../x")


def test_a_spec_is_read_as_it_was_written(tmp_path):
    spec = Spec(2, gpus=8, binaries="/somewhere", ephemeral=True)
    spec.write(Layout(tmp_path))
    assert Spec.read(Layout(tmp_path)) == spec
    assert list(spec.numbers) == [1, 2]


def test_a_folder_names_its_control_groups_the_same_way_each_time(tmp_path):
    assert Layout(tmp_path).id == Layout(tmp_path).id
    assert Layout(tmp_path / "a").id != Layout(tmp_path / "b").id
