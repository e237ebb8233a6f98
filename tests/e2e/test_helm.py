"""`helm test`: it passes on an installation that works, and fails on others with the reason."""

import pytest

from tests.e2e.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
CHART = ROOT / "charts" / "diffusion-operator"
NAMESPACE = "diffusion-system"
RELEASE = "diffusion-operator"
KINDS = "diffusionstages,statefulsets,serviceaccounts,roles,rolebindings,configmaps"


def choose(product, **values):
    """Upgrade to these values of `tests`."""
    chosen = {"stageImage": product.stage_image, **values}
    settings = [f"tests.{name}={value}" for name, value in chosen.items()]
    product.helm(
        *("upgrade", RELEASE, str(CHART), "-n", NAMESPACE, "--wait", "--reuse-values"),
        *(word for each in settings for word in ("--set", each)),
    )


def helm_test(product):
    """Exit code and all that was printed."""
    command = ("helm", "test", RELEASE, "-n", NAMESPACE, "--logs", "--timeout", "5m")
    done = product.cluster.run(*command, timeout_s=330, check=False)
    return done.returncode, done.stdout + done.stderr


def left_over(product):
    listed = product.kubectl("get", KINDS, "-n", NAMESPACE, "-o", "name")
    return [name for name in listed.splitlines() if "test" in name]


def test_it_passes_and_leaves_only_the_log(product):
    choose(product)
    code, said = helm_test(product)
    assert code == 0
    for step in ("Ready after", "became an image of (64, 64)", "killed the worker"):
        assert step in said
    assert "the status tells of the death: WorkerDied, exit 71" in said
    assert left_over(product) == []


@pytest.mark.slow
def test_a_model_that_is_not_there_fails_it_with_the_stages_own_words(product):
    choose(product, model="/models/none")
    code, said = helm_test(product)
    assert code != 0
    assert "FAILED: the stage will not get Ready: ModelUnavailable" in said
    assert "/models/none" in said
    assert left_over(product) == []


@pytest.mark.slow
def test_an_operator_that_does_nothing_fails_it_in_time(product):
    choose(product, model="/models/icons-zimage-tiny", timeoutSeconds=60)
    scale = ("scale", "deploy", RELEASE, "-n", NAMESPACE)
    product.kubectl(*scale, "--replicas=0")
    try:
        code, said = helm_test(product)
    finally:
        product.kubectl(*scale, "--replicas=1")
    product.kubectl("scale", "deploy", RELEASE, "-n", NAMESPACE, "--replicas=1")
    assert code != 0
    assert "FAILED: not done within 30 s" in said
    assert "no status yet" in said
    assert left_over(product) == []
