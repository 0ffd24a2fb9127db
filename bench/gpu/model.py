"""Makes a model without weights, and LoRA adapters for it: python3 model.py FOLDER [LAYERS]

FOLDER/model has the shape of a Llama of 7 billion parameters (with 36 layers) and a tokenizer;
vllm serve makes up its weights with --load-format dummy. FOLDER/l1 to FOLDER/l4 are adapters in the
format of PEFT. Nothing is downloaded, and Python needs no packages.
"""

import json
import pathlib
import random
import string
import struct
import sys

HIDDEN, HEADS, KEY_HEADS, CONTEXT = 4096, 32, 8, 32768
LAYERS = int(sys.argv[2]) if len(sys.argv) > 2 else 36
SPECIAL = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_characters():
    """The characters that stand for the 256 bytes in a byte-level tokenizer."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + n) for n, b in enumerate(rest)}


def tokenizer():
    """Byte pairs in which a space with up to three small letters behind it is one token."""
    characters = byte_characters()
    space = characters[32]
    tokens, merges, longest = SPECIAL + list(characters.values()), [], [space]
    for _ in range(3):
        merges += [[start, letter] for start in longest for letter in string.ascii_lowercase]
        longest = [start + letter for start in longest for letter in string.ascii_lowercase]
        tokens += longest
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": n, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
            for n, t in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: n for n, t in enumerate(tokens)}, "merges": merges},
    }


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def adapter(folder, seed, rank=8):
    """Writes random weights for the queries and the values of all layers."""
    source, header, data = random.Random(seed), {}, bytearray()
    keys = HIDDEN // HEADS * KEY_HEADS
    for layer in range(LAYERS):
        for name, out in ("q_proj", HIDDEN), ("v_proj", keys):
            for half, shape in ("A", (rank, HIDDEN)), ("B", (out, rank)):
                count = shape[0] * shape[1]
                numbers = bytearray(source.randbytes(2 * count))
                # The high byte of a bfloat16: the sign, and 0x3C for about a hundredth.
                numbers[1::2] = bytes(0x3C | high & 0x80 for high in numbers[1::2])
                start = len(data)
                data += numbers
                header[f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{half}.weight"] = {
                    "dtype": "BF16", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    write(folder / "adapter_config.json", {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "m", "r": rank, "lora_alpha": rank,
        "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"], "inference_mode": True,
        "fan_in_fan_out": False, "modules_to_save": None, "use_rslora": False, "use_dora": False})


def main():
    folder = pathlib.Path(sys.argv[1])
    tokens = tokenizer()
    write(folder / "model/tokenizer.json", tokens)
    write(folder / "model/tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>",
        "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE})
    write(folder / "model/generation_config.json", {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1})
    write(folder / "model/config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": HIDDEN, "intermediate_size": 3 * HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": HIDDEN // HEADS,
        "vocab_size": len(tokens["model"]["vocab"]), "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 0,
        "eos_token_id": 1, "pad_token_id": 1})
    for n in range(1, 5):
        adapter(folder / f"l{n}", n)


main()
