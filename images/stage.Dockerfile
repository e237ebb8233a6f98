# One replica of a stage: `diffusion-stage serve …`, as a user without rights, on a root file system
# that may be read-only; only /tmp is written. From the root of the repository:
#
#   docker build --file images/stage.Dockerfile --tag stage .
#
# Packages and our code lie in layers of their own: a change of code ships a megabyte, not gigabytes.
# `python -m images build stage` gives DEPS=BASE to get our layers alone and puts them on top of
# the packages that it already has, so nothing below `FROM ${DEPS}` may read the packages.
# Behind a proxy with a certificate authority of its own: --secret id=ca,src=/path/to/bundle.pem

ARG BASE=docker.io/library/python:3.11-slim
ARG DEPS=deps

FROM ${BASE} AS tools
ARG UV_VERSION=0.13.9
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir uv==${UV_VERSION} hatchling

# The list of packages: a change of uv.lock that leaves it alone leaves the layer below alone.
FROM tools AS lock
COPY pyproject.toml uv.lock /lock/
RUN /opt/tools/bin/uv export --project=/lock --extra=stage --no-default-groups --frozen \
    --no-emit-project --output-file=/lock/requirements.txt --quiet

# uv's cache lies on the layer's own file system, so files are linked, not copied. The byte code
# must be there, for pods cannot write it. `.pth`: where our code will be. The tools come from `lock`,
# for buildah 1.28 mounts a cached stage only after a COPY from it.
FROM ${BASE} AS deps
COPY --from=lock /lock/requirements.txt /opt/venv/requirements.txt
RUN --mount=type=bind,from=lock,source=/opt/tools,target=/opt/tools \
    --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi \
 && export UV_CACHE_DIR=/opt/venv/.cache UV_PYTHON_DOWNLOADS=never \
 && /opt/tools/bin/uv venv --quiet --allow-existing --python=python3 /opt/venv \
 && /opt/tools/bin/uv pip install --python=/opt/venv --compile-bytecode --require-hashes \
    --requirements=/opt/venv/requirements.txt \
 && echo /opt/diffusion-stage >"$(echo /opt/venv/lib/python3*/site-packages)/diffusion-stage.pth" \
 && rm -r /opt/venv/.cache

# The wheel, installed beside the packages; its script starts the interpreter of the packages.
FROM tools AS code
COPY pyproject.toml README.md LICENSE /src/
COPY stage /src/stage
COPY operator /src/operator
COPY charts/diffusion-operator/crds /src/charts/diffusion-operator/crds
RUN python3 -m venv --without-pip /opt/venv \
 && /opt/tools/bin/uv build /src --quiet --offline --wheel --no-build-isolation \
    --python=/opt/tools --out-dir=/dist \
 && /opt/tools/bin/uv pip install --python=/opt/venv --offline --no-deps --compile-bytecode \
    --target=/opt/diffusion-stage /dist/*.whl

FROM ${DEPS} AS stage
COPY --from=code /opt/diffusion-stage /opt/diffusion-stage
# No user database entry has this number: HOME and USER answer whoever asks for one.
ENV PATH=/opt/diffusion-stage/bin:/opt/venv/bin:$PATH \
    HOME=/tmp \
    USER=stage \
    HF_HOME=/tmp/hf \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
ENTRYPOINT ["diffusion-stage"]
CMD ["serve", "--help"]

# A stage that brings its model along, `model: {uri: /models/icons-zimage-tiny}`: --target=demo
FROM stage AS demo
COPY --chown=10001:10001 models/icons-zimage-tiny /models/icons-zimage-tiny

FROM stage
