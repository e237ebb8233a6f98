import pytest
from pydantic import ValidationError

from diffusion_operator.settings import Settings


def test_settings_come_from_variables_with_the_prefix_alone():
    settings = Settings.from_environ({"DIFFUSION_OPERATOR_RESYNC_S": "60", "PATH": "/bin"})
    assert settings == Settings(resync_s=60)


def test_an_operator_without_rights_on_the_cluster_scans_nothing():
    assert Settings().scan_cluster
    assert not Settings.from_environ({"DIFFUSION_OPERATOR_SCAN_CLUSTER": "false"}).scan_cluster


@pytest.mark.parametrize(
    "environ", [{"DIFFUSION_OPERATOR_WORKERS": "0"}, {"DIFFUSION_OPERATOR_RESYNCH_S": "60"}]
)
def test_a_wrong_value_and_an_unknown_name_are_refused(environ):
    with pytest.raises(ValidationError):
        Settings.from_environ(environ)
