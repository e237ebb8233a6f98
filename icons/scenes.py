"""A prompt of the icon model as the scene that it asks for, and back."""

import re
from dataclasses import dataclass

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# The order of each list is the order of the judge's outputs.
OBJECTS = (
    *("circle", "square", "triangle", "star", "heart", "diamond", "hexagon"),
    *("moon", "sun", "cloud", "tree", "flower", "leaf"),
    *("cat", "dog", "fish", "bird", "butterfly"),
    *("car", "airplane", "rocket", "house", "key", "bell", "anchor", "umbrella"),
    *("mushroom", "ghost", "crown", "apple", "cup"),
    *DIGITS,
)
COLOURS = (
    *("red", "orange", "yellow", "green", "blue"),
    *("purple", "pink", "black", "white", "gray"),
)
SIZES = ("small", "medium", "large")
BACKGROUNDS = ("white", "black", "yellow", "blue", "green", "pink")
DEFAULT_BACKGROUND = "white"

_SYNONYMS = {
    **{"grey": "gray", "tiny": "small", "little": "small", "big": "large", "huge": "large"},
    **{str(value): word for value, word in enumerate(DIGITS)},
}
_PROMPT = re.compile(
    r"(?:an? )?(?:(?P<size>\w+) )?(?P<colour>\w+) (?P<object>\w+)"
    r"(?: on (?:an? )?(?P<background>\w+)(?: background)?)?"
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One object on a plain background; `size` None leaves the size open."""

    object: str
    colour: str
    background: str = DEFAULT_BACKGROUND
    size: str | None = None

    def __str__(self) -> str:
        """The canonical prompt: `a small red heart on a white background`."""
        words = " ".join(word for word in (self.size, self.colour, self.object) if word)
        article = "an" if words[0] in "aeiou" else "a"
        return f"{article} {words} on a {self.background} background"


def parse(prompt: str) -> Scene:
    """The scene of a prompt such as `a small red heart on a white background`.

    Size and background may be left out; a background left out is white. Raises `ValueError` with
    the word that the model does not know.
    """
    match = _PROMPT.fullmatch(prompt.strip().lower())
    if match is None:
        raise ValueError(
            f"prompt {prompt!r}; expected: a [SIZE] COLOUR OBJECT [on a BACKGROUND background]"
        )
    size, background = match["size"], match["background"]
    return Scene(
        object=_known("object", match["object"], OBJECTS),
        colour=_known("colour", match["colour"], COLOURS),
        background=_known("background", background or DEFAULT_BACKGROUND, BACKGROUNDS),
        size=None if size is None else _known("size", size, SIZES),
    )


def _known(what: str, word: str, allowed: tuple[str, ...]) -> str:
    word = _SYNONYMS.get(word, word)
    if word not in allowed:
        raise ValueError(f"{what} {word!r}; allowed: {', '.join(allowed)}")
    return word
