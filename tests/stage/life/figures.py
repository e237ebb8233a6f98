"""Times that a test saw, for people: printed, and never what decides the test."""

import statistics


def show(what, seconds):
    """One line with the median and the range, in milliseconds."""
    ordered = sorted(seconds)
    middle = statistics.median(ordered)
    print(  # noqa: T201  # `pytest -rP` shows it
        f"{what}: median {1000 * middle:.0f} ms, "
        f"{1000 * ordered[0]:.0f} to {1000 * ordered[-1]:.0f} ms, n = {len(ordered)}"
    )
    return middle
