"""What the steps agree on: the model's name, its control pieces and template, its shapes, its sampling, the seed."""
from llama import Shape

NAME = "parley-9m"
SEED = 20261121
HELD_OUT = 100  # one in so many first prompts is kept for evaluation

# Pieces 0 to 2; ids of the vocabulary's control tokens are fixed by them.
UNKNOWN, IM_START, IM_END = "<unk>", "<|im_start|>", "<|im_end|>"
UNKNOWN_ID, START_ID, END_ID = 0, 1, 2

# ChatML, as palaver's config/chat/chatml.toml has it.
CHAT_TEMPLATE = ("{% for message in messages %}"
                 "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
                 "{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

PIECES = 6144
CONTEXT = 1024
SHAPES = {
    "wide": Shape(vocab=PIECES, hidden=320, ffn=864, layers=7, heads=5, kv_heads=1, head_dim=64, context=CONTEXT),
    "deep": Shape(vocab=PIECES, hidden=256, ffn=704, layers=10, heads=4, kv_heads=2, head_dim=64, context=CONTEXT),
    "tiny": Shape(vocab=PIECES, hidden=96, ffn=256, layers=3, heads=3, kv_heads=1, head_dim=32, context=CONTEXT),
}

# Its makers recommend 0.2 and 0.9. Behind examples, and filtered after, 0.4 is as good and says more different things;
# without the penalty a third of its replies runs into a loop.
TEACHER_TEMPERATURE, TEACHER_TOP_P, TEACHER_PENALTY = 0.4, 0.9, 1.1
TEACHER_LIMIT, TEACHER_END_ID = 220, 2
TEMPERATURE, TOP_P = 0.3, 0.9  # what generation_config.json recommends
REPLY_LIMIT = 256
