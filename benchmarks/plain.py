"""The plain side: a program with `pipe()` in its main thread and nothing of ours around it.

    python -m benchmarks.plain MODEL

It says `ready` once the model is loaded, then runs one request for each line of arguments (JSON)
and answers with the seconds that `pipe()` took and the SHA-256 of the pixels.
"""

import hashlib
import json
import sys
import time

import torch
from diffusers import DiffusionPipeline


def main(model: str) -> None:
    pipe = DiffusionPipeline.from_pretrained(model, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    print("ready", flush=True)
    for line in sys.stdin:
        arguments = json.loads(line)
        generator = torch.Generator().manual_seed(arguments.pop("seed"))
        start = time.perf_counter()
        image = pipe(**arguments, generator=generator).images[0]
        seconds = time.perf_counter() - start
        digest = hashlib.sha256(image.tobytes()).hexdigest()
        print(json.dumps({"seconds": seconds, "digest": digest}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
