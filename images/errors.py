"""Every error of the images package, and who must act on it.

ImageError
├── EngineError     whoever runs the machine: no engine to build with, or what it said
├── BaseError       whoever runs the machine: no base image to be had
├── ArchiveError    the developers: an archive is not what was expected
└── TargetError     the caller: no way to bring an image to that cluster
"""


class ImageError(Exception):
    """The root of the tree."""


class EngineError(ImageError):
    """No engine is there, or it failed; the message ends with its last words."""


class BaseError(ImageError):
    """No registry can be reached, and no base could be made here either."""


class ArchiveError(ImageError):
    """An archive lacks a part, or two of them do not fit together."""


class TargetError(ImageError):
    """The cluster has no known way to take an image; the message says what is possible."""
