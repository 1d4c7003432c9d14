"""Turns a GGUF file into a folder that vLLM serves, while an image is built: `python gguf_to_hf.py FILE FOLDER`."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> int:
    """Convert one model: weights as bfloat16, tokenizer, configuration."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    # The weights are dequantised by now; what is saved must not say otherwise.
    model.is_quantized, model.hf_quantizer = False, None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
