"""The sixteen prompts of the demo, and how it asks for them."""

from typing import Final

STEPS: Final = 20
GUIDANCE: Final = 2.0
SIDE: Final = 64

PROMPTS: Final = (
    "a large red heart on a white background",
    "a small blue star on a yellow background",
    "a green tree on a white background",
    "a yellow moon on a black background",
    "a large orange fish on a blue background",
    "a white ghost on a black background",
    "a pink flower on a green background",
    "a blue rocket on a white background",
    "a purple crown on a yellow background",
    "a black anchor on a white background",
    "a large red apple on a pink background",
    "a blue umbrella on a white background",
    "an orange cup on a black background",
    "a white cloud on a blue background",
    "a green five on a yellow background",
    "a red house on a green background",
)
