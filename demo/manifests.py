"""The manifests of this folder, with the image that was brought in."""

from pathlib import Path

HERE = Path(__file__).parent
PLACE = "docker.io/diffusionstage/demo:TAG"


def read(name: str, image: str) -> str:
    """The text of `name`, `image` in the place of the tag that only a build knows."""
    return (HERE / name).read_text().replace(PLACE, image)
