"""The operator with a clock that is wrong by `SKEW_S` seconds: `kopf run --module=skewed`."""

import datetime
import os
import sys

from diffusion_operator import handlers  # noqa: F401  # declares them, as Kopf expects of a module

SKEW = datetime.timedelta(seconds=float(os.environ["SKEW_S"]))


class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + SKEW


for name, module in list(sys.modules.items()):
    if name.startswith("diffusion_operator.") and hasattr(module, "datetime"):
        module.datetime = Skewed
