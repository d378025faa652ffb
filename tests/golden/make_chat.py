"""What the models' own chat templates make of a few talks: the text by jinja2, the ids by the tokenizers package.

    python3 tests/golden/make_chat.py FOLDER

FOLDER holds the Jinja texts as NAME.jinja for the names in TEMPLATES: the chat_template of the tokenizer_config.json of
the models named there. Of alpaca, vicuna-lines and zephyr-trim: from github.com/chujiezheng/chat_templates, without line
ends and indents, as its README says; of vicuna: as in use for Vicuna 1.5, whose model has none; of smollm2: from the
GGUF file of the default model. The texts are not kept here, only their hashes: beside each stands a template of our own that says the same. jinja2 is set up as transformers sets it up. The tokenizers are those of make_tokenizers.py with
the models' special tokens added.

    chat.json           the talks, and for each template what each talk becomes
    chat/NAME/          tokenizers as Hugging Face folders
"""
import hashlib
import json
import os
import sys

import jinja2
import jinja2.ext
import tokenizers
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))

# name of the Jinja text: (our template, tokenizer, the model it is of)
TEMPLATES = {
    "chatml": ("chatml", "bytes", "teknium/OpenHermes-2.5-Mistral-7B"),
    "smollm2": ("chatml", "bytes", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    "qwen-2.5": ("chatml", "bytes", "Qwen/Qwen2.5-7B-Instruct"),
    "qwen-3": ("qwen-3", "bytes", "Qwen/Qwen3-8B, without the part about tools"),
    "qwen-3-thinking": ("qwen-3-thinking", "bytes", "Qwen/Qwen3-4B-Thinking-2507, without the part about tools"),
    "llama-2": ("llama-2", "prepend", "meta-llama/Llama-2-7b-chat-hf"),
    "llama-3": ("llama-3", "bytes", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "llama-3.1": ("llama-3.1", "bytes", "meta-llama/Llama-3.1-8B-Instruct, without the parts about tools"),
    "mistral-v1": ("mistral-v1", "prepend", "mistralai/Mistral-7B-Instruct-v0.2, first form"),
    "mistral-v2": ("mistral-v2", "metaspace", "mistralai/Mistral-7B-Instruct-v0.2"),
    "mistral-v3": ("mistral-v3", "metaspace", "mistralai/Mistral-Large-Instruct-2407, without the parts about tools"),
    "mistral-v3-tekken": ("mistral-v3-tekken", "bytes", "mistralai/Mistral-Nemo-Instruct-2407, without the parts about tools"),
    "mistral-v7": ("mistral-v7", "metaspace", "mistralai/Mistral-Large-Instruct-2411"),
    "zephyr": ("zephyr", "prepend", "HuggingFaceH4/zephyr-7b-beta, TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
    "zephyr-trim": ("zephyr", "metaspace", "zephyr of chujiezheng/chat_templates"),
    "gemma": ("gemma", "metaspace", "google/gemma-2-2b-it"),
    "gemma-3": ("gemma", "metaspace", "google/gemma-3-1b-it"),
    "phi-3": ("phi-3", "prepend", "microsoft/Phi-3-mini-4k-instruct"),
    "phi-3-first": ("phi-3", "prepend", "microsoft/Phi-3-mini-4k-instruct, first form"),
    "vicuna": ("vicuna", "prepend", "lmsys/vicuna-7b-v1.5"),
    "vicuna-lines": ("vicuna-lines", "prepend", "vicuna of chujiezheng/chat_templates"),
    "alpaca": ("alpaca", "prepend", "alpaca of chujiezheng/chat_templates"),
}
def each(body, before="", after=""):
    return before + "{% for m in messages %}" + body + "{% endfor %}" + after


def by_role(system, user, assistant):
    return "{% if m.role == 'system' %}" + system + "{% elif m.role == 'user' %}" + user + "{% else %}" + assistant + "{% endif %}"


def prompt(text):
    return "{% if add_generation_prompt %}{{ '" + text + "' }}{% endif %}"


def chatml(standard=""):
    system = "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\n" + standard + "<|im_end|>\\n' }}{% endif %}" if standard else ""
    return each("{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}", system, prompt("<|im_start|>assistant\\n"))


def qwen_3(opening):
    forget = ("{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}")
    content = ("{% set c = m.content %}{% if m.role == 'assistant' and '</think>' in c and loop.index0 < ns.last %}"
               "{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}")
    return each(content + "{{ '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}", forget, prompt(opening))


def llama_3(first, standard=False):
    system = "{% if messages[0].role != 'system' %}" + first + "{{ '<|eot_id|>' }}{% endif %}" if standard else ""
    body = "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}{{ m.content | trim + '<|eot_id|>' }}"
    if standard:
        body = "{% if m.role == 'system' %}" + first + "{{ m.content | trim + '<|eot_id|>' }}{% else %}" + body + "{% endif %}"
    return each(body, "{{ bos_token }}" + system, prompt("<|start_header_id|>assistant<|end_header_id|>\\n\\n"))


DATES = "{{ '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n' }}"
ONE_SYSTEM = "{% set s = messages[0].content if messages[0].role == 'system' else none %}"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
ALTERNATE = ("{% for m in (messages[1:] if messages[0].role == 'system' else messages) %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
             "{{ raise_exception('Roles must alternate') }}{% endif %}{% endfor %}")
FIRST = "{% set first = loop.index == 1 or (loop.index == 2 and s is not none) %}"
LAST = "{% set last = loop.last %}"
SYSTEM_MESSAGE = "{% if messages[0].role == 'system' %}{{ messages[0].content | trim + '\\n\\n' }}{% endif %}"


def mistral(open_, close, said, before="", where="last"):
    user = "{% if s is not none and " + where + " %}{{ '" + open_ + "' + s + '\\n\\n' + m.content + '" + close + "' }}{% else %}{{ '" + open_ + "' + m.content + '" + close + "' }}{% endif %}"
    return each(FIRST + LAST + by_role("", user, said), "{{ bos_token }}" + before + ALTERNATE + ONE_SYSTEM)


def with_instructions(user, assistant, standard, opening):
    system = "{{ (messages[0].content | trim if messages[0].role == 'system' else '" + standard + "') }}"
    return each(by_role("", user, assistant), "{{ bos_token }}" + ALTERNATE + system, prompt(opening))


# The least that says the same as the models' own templates, each of which main() renders beside it.
MINIMAL = {
    "chatml": chatml(),
    "smollm2": chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    "qwen-2.5": chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    "qwen-3": qwen_3("<|im_start|>assistant\\n"),
    "qwen-3-thinking": qwen_3("<|im_start|>assistant\\n<think>\\n"),
    "llama-2": each(FIRST + by_role(
        "", "{{ bos_token + '[INST] ' + (('<<SYS>>\\n' + s + '\\n<</SYS>>\\n\\n' if s is not none and first else '') + m.content).strip() + ' [/INST]' }}",
        "{{ ' ' + m.content.strip() + ' ' + eos_token }}"), ALTERNATE + ONE_SYSTEM),
    "llama-3": llama_3(""),
    "llama-3.1": llama_3(DATES, True),
    "mistral-v1": mistral("[INST] ", " [/INST]", "{{ m.content + eos_token }}", NO_SYSTEM),
    "mistral-v2": mistral(" [INST] ", " [/INST]", "{{ ' ' + m.content + eos_token }}", where="first"),
    "mistral-v3": mistral("[INST] ", "[/INST]", "{{ ' ' + m.content | trim + eos_token }}"),
    "mistral-v3-tekken": mistral("[INST]", "[/INST]", "{{ m.content + eos_token }}"),
    "mistral-v7": each(by_role("{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}", "{{ '[INST] ' + m.content + '[/INST]' }}",
                               "{{ ' ' + m.content + eos_token }}"), "{{ bos_token }}"),
    "zephyr": each("{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}", "", prompt("<|assistant|>\\n")),
    "zephyr-trim": each("{{ '<|' + m.role + '|>\\n' + m.content | trim + eos_token + '\\n' }}", "", prompt("<|assistant|>\\n")),
    "gemma": each("{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | trim + '<end_of_turn>\\n' }}",
                  "{{ bos_token }}" + NO_SYSTEM + ALTERNATE, prompt("<start_of_turn>model\\n")),
    "gemma-3": each(FIRST + "{% if m.role != 'system' %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
                    "{{ s + '\\n\\n' if s is not none and first }}{{ m.content | trim + '<end_of_turn>\\n' }}{% endif %}",
                    "{{ bos_token }}" + ALTERNATE + ONE_SYSTEM, prompt("<start_of_turn>model\\n")),
    "phi-3": each("{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}", "", prompt("<|assistant|>\\n")),
    "phi-3-first": each("{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}", NO_SYSTEM, prompt("<|assistant|>\\n")),
    "vicuna": with_instructions(
        "{{ ' USER: ' + m.content.strip() }}", "{{ ' ASSISTANT: ' + m.content.strip() + eos_token }}",
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.",
        " ASSISTANT:").replace("messages[0].content | trim if", "messages[0].content if"),
    "vicuna-lines": each(by_role("", "{{ 'USER: ' + m.content | trim + '\\n' }}", "{{ 'ASSISTANT: ' + m.content | trim + eos_token + '\\n' }}"),
                         "{{ bos_token }}" + ALTERNATE + SYSTEM_MESSAGE, prompt("ASSISTANT:")),
    "alpaca": each(by_role("", "{{ '### Instruction:\\n' + m.content | trim + '\\n\\n' }}", "{{ '### Response:\\n' + m.content | trim + eos_token + '\\n\\n' }}"),
                   "{{ bos_token }}" + ALTERNATE + SYSTEM_MESSAGE, prompt("### Response:\\n")),
}


# base of make_tokenizers.py, BOS, EOS, whether BOS is added, special tokens, those that swallow the space behind them
TOKENIZERS = {
    "bytes": ("llama3", "<|begin_of_text|>", "<|eot_id|>", False,
              ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]"], []),
    "prepend": ("llama2", "<s>", "</s>", True, [], ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]),
    "metaspace": ("mistral", "<s>", "</s>", True,
                  ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<start_of_turn>", "<end_of_turn>"], []),
}
# Their templates close an unanswered talk in ways that no reply could go on from.
ONLY_WITH_PROMPT = {"phi-3", "phi-3-first", "qwen-3", "qwen-3-thinking"}
SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
TALKS = [
    [(USER, "Hello")],
    [(SYSTEM, "You are a helpful assistant."), (USER, "What is the capital of France?")],
    [(SYSTEM, "Be brief."), (USER, "Hello, who are you?"), (ASSISTANT, "I am an assistant."), (USER, "And I?")],
    [(USER, "Count to 3."), (ASSISTANT, "1, 2, 3"), (USER, "Now to 5,\nplease."), (ASSISTANT, "1 2 3 4 5"), (USER, "Thanks")],
    [(SYSTEM, "Réponds en français, s'il te plaît."), (USER, "Schöne Grüße aus Köln 👩‍👩‍👧‍👦"), (ASSISTANT, "你好，世界！"), (USER, "مرحبا 𝒳 日本語")],
    [(SYSTEM, "  padded \n"), (USER, " \n leading and trailing\t \n\n"), (ASSISTANT, "   I am an assistant   "), (USER, "\u00a0\u3000no-break\u2003")],
    [(USER, "  two spaces, no system  "), (ASSISTANT, "\n\nanswer\n"), (USER, "\tx\t")],
    [(SYSTEM, ""), (USER, ""), (ASSISTANT, ""), (USER, " ")],
    [(USER, "def f(x):\n    return {'a': [x, 1234567890]}  # 100%\n\n\n```\n\\n \\\\ \"quoted\" it's"), (ASSISTANT, "{bos}{eos} {{ x }}"), (USER, "    \n    indented")],
    [(USER, "Hello"), (ASSISTANT, "Hi there")],
    [(SYSTEM, "S"), (USER, "a"), (ASSISTANT, "b"), (USER, "c"), (ASSISTANT, "d "), (USER, "e"), (ASSISTANT, "f")],
]
THOUGHTS = [
    [(USER, "2+2?"), (ASSISTANT, "<think>\nEasy: 4.\n</think>\n\nFour."), (USER, "3+3?")],
    [(USER, "a"), (ASSISTANT, "x</think>y</think>\n\n z"), (USER, "b"), (ASSISTANT, "no thoughts"), (USER, "c")],
]


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, **more: json.dumps(x, ensure_ascii=False, **more)
    env.globals["raise_exception"] = raise_exception
    return env


def make_tokenizer(name):
    base, bos, eos, add_bos, special, greedy = TOKENIZERS[name]
    folder = f"{HERE}/chat/{name}"
    os.makedirs(folder, exist_ok=True)
    tok = Tokenizer.from_file(f"{HERE}/tokenizers/{base}/tokenizer.json")
    tok.add_special_tokens(special + [AddedToken(piece, rstrip=True, normalized=False) for piece in greedy])
    if name == "bytes":
        tok.add_tokens([AddedToken(piece, normalized=False) for piece in ("<think>", "</think>")])
    tok.save(f"{folder}/tokenizer.json")
    for path, value in [("tokenizer.json", json.load(open(f"{folder}/tokenizer.json"))),
                        ("tokenizer_config.json", dict(bos_token=bos, eos_token=eos, add_bos_token=add_bos))]:
        with open(f"{folder}/{path}", "w") as f:
            json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
    return tok, bos, eos, add_bos


def main():
    folder, env = sys.argv[1], environment()
    toks = {name: make_tokenizer(name) for name in TOKENIZERS}
    talks = [[{"role": r, "content": c} for r, c in talk] for talk in TALKS + THOUGHTS]
    out = []
    for name, (ours, tokenizer, model) in TEMPLATES.items():
        jinja = open(f"{folder}/{name}.jinja").read()
        template, minimal = env.from_string(jinja), env.from_string(MINIMAL[name])
        tok, bos, eos, add_bos = toks[tokenizer]
        cases = []
        for number, talk in enumerate(talks):
            thoughtful = number >= len(TALKS)
            if thoughtful and "qwen-3" not in name:
                continue
            prompt = talk[-1]["role"] == USER
            if not prompt and name in ONLY_WITH_PROMPT or name == "phi-3-first" and talk[0]["role"] == SYSTEM:
                continue
            context = dict(messages=talk, add_generation_prompt=prompt, bos_token=bos, eos_token=eos)
            try:
                text = template.render(**context)
            except jinja2.exceptions.TemplateError:
                continue  # no system prompts here
            assert minimal.render(**context) == text, name
            ids = tok.encode(text, add_special_tokens=False).ids
            if add_bos and not text.startswith(bos):
                text, ids = bos + text, [tok.token_to_id(bos)] + ids
            cases.append({"talk": number, "prompt": prompt, "text": text, "ids": " ".join(map(str, ids))})
        out.append({"jinja": name, "model": model, "sha256": hashlib.sha256(jinja.encode()).hexdigest(), "template": ours,
                    "tokenizer": tokenizer, "minimal": MINIMAL[name], "cases": cases})
        print(f"  {name}: {len(cases)} talks")
    with open(f"{HERE}/chat.json", "w") as f:
        json.dump({"provenance": f"make_chat.py with jinja2 {jinja2.__version__}, tokenizers {tokenizers.__version__}",
                   "talks": talks, "templates": out}, f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
