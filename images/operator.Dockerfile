# The operator: watches DiffusionStages and turns them into pods, as a user without rights, on a
# root file system that may be read-only. From the root of the repository:
#
#   docker build --file images/operator.Dockerfile --tag operator .
#
# Its parts are those of stage.Dockerfile, with the packages of the operator; the reasons are there.

ARG BASE=docker.io/library/python:3.11-slim
ARG DEPS=deps

FROM ${BASE} AS tools
ARG UV_VERSION=0.13.9
RUN --mount=type=secret,id=ca \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir uv==${UV_VERSION} hatchling

FROM tools AS lock
COPY pyproject.toml uv.lock /lock/
RUN /opt/tools/bin/uv export --project=/lock --extra=operator --no-default-groups --frozen \
    --no-emit-project --output-file=/lock/requirements.txt --quiet

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

FROM ${DEPS} AS operator
COPY --from=code /opt/diffusion-stage /opt/diffusion-stage
ENV PATH=/opt/diffusion-stage/bin:/opt/venv/bin:$PATH \
    HOME=/tmp \
    USER=operator \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
ENTRYPOINT ["kopf"]
CMD ["run", "--module=diffusion_operator.handlers", "--all-namespaces", "--standalone", \
     "--liveness=http://0.0.0.0:8080/healthz", "--log-format=json"]
