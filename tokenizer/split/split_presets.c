// Which names there are, what they share and what goes with them are facts of llama.cpp (src/llama-vocab.cpp); where
// its patterns only stand in for those of the models' own tokenizer.json, the latter are here, as their comments there
// quote them or the makers publish them. Its clean_spaces is about the text that comes back, which is here always the
// tokens' own.
#include "tokenizer/split/split_presets.h"

#include <stdio.h>
#include <string.h>

#define ISOLATE(pattern)                                                                                     \
    { pattern, SPLIT_ISOLATED }
#define JOIN(pattern)                                                                                        \
    { pattern, SPLIT_CONTIGUOUS }
#define BYTE_LEVEL                                                                                           \
    { "", SPLIT_ISOLATED }

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define THREE_DIGITS "\\p{N}{1,3}"

// Words that end where capitals begin, as OpenAI's o200k has them, with `tail` behind a word.
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) LEAD UPPER "*" LOWER "+" tail "|" LEAD UPPER "+" LOWER "*" tail "|"
#define CASED_END "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define GPT4O CASED(CONTRACTION "?") THREE_DIGITS CASED_END
#define TEKKEN CASED("") "\\p{N}" CASED_END
#define YOUTU CASED(CONTRACTION "?") "\\p{N}" CASED_END

// The same with runs of Chinese characters as words of their own.
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI                                                                                                 \
    "[\\p{Han}]+|" LEAD KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTION "?|" LEAD KIMI_UPPER "+" KIMI_LOWER        \
    "*" CONTRACTION "?|" THREE_DIGITS "|" SYMBOLS SPACES

// Words without the letters of other languages' marks (Qwen 3.5), without contractions, with all digits, …
#define QWEN35 CONTRACTION "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES
#define NO_CONTRACTIONS LEAD "\\p{L}+|\\p{N}|" SYMBOLS SPACES
#define MINICPM CONTRACTION "|" LEAD "\\p{L}+|\\p{N}+|" SYMBOLS SPACES
#define SEED_CODER CONTRACTION "|" LEAD "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES
#define BAILING                                                                                              \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"           \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define JAIS2                                                                                                \
    CONTRACTION                                                                                              \
    "|" LEAD "\\p{L}+|" THREE_DIGITS "|" SYMBOLS "\\s*[\\r\\n]+|"                                            \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|"          \
    "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
// (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ in the file, which is the same and needs a stack.
#define EXAONE_MOE                                                                                           \
    CONTRACTION "|" LEAD "\\p{L}[\\p{L}\\p{M}]*+(?: \\p{L}[\\p{L}\\p{M}]*+)*+|\\p{N}|"                       \
                " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

// DeepSeek V3: digits, Chinese and Japanese, then words, which marks belong to.
#define DEEPSEEK_CJK "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define DEEPSEEK_WORDS                                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
#define DEEPSEEK3 DEEPSEEK_WORDS " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define SPARK DEEPSEEK_WORDS " ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"
// DeepSeek's first models: lines, words of letters with case, punctuation, Asian scripts, digits.
#define LINE_END "[\\r\\n]"
#define DEEPSEEK_ASIAN "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_STOPS                                                                                       \
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
// \s+$ in the file: lines are cut before it, so only a whole run can match, and a long one is gone over once.
#define TRAILING_SPACES "(?<!\\s)\\s+$"
#define DEEPSEEK_LETTERS                                                                                     \
    "\\s?["                                                                                                  \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"          \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"                    \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"          \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"          \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"                           \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"                           \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"                   \
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                  \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"         \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"          \
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"          \
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"         \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}"                           \
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"                           \
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"                     \
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"                   \
    "]+"

#define YOUTU_CJK                                                                                            \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}"      \
    "\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"                          \
    "[\\x{3105}-\\x{312F}]+|" DEEPSEEK_CJK
#define AFMOE_ASIAN                                                                                          \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"       \
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}"            \
    "\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"
// Threes of digits from the right.
#define RIGHT_THREES "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define LINES "[^\\n]+|[\\n]+"

static const SplitPreset presets[] = {
    {.rule = "gpt-2",
     .names = " gpt-2 gpt2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
              "gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling ",
     .steps = {ISOLATE(SPLIT_GPT2)}},
    {.rule = "gpt-2", .names = " mpt olmo modern-bert ", .steps = {ISOLATE(SPLIT_GPT2)}, .nfc = true},
    {.rule = "smollm",
     .names = " smollm starcoder refact codeshell exaone minerva-7b mellum2 ",
     .steps = {ISOLATE(SPLIT_DIGIT), ISOLATE(SPLIT_GPT2)}},
    {.rule = "command-r",
     .names = " command-r ",
     .steps = {ISOLATE(SPLIT_DIGIT), ISOLATE(SPLIT_GPT2)},
     .nfc = true},
    {.rule = "bloom", .names = " bloom poro-chat gpt3-finnish ", .steps = {ISOLATE(SPLIT_BLOOM)}},
    {.rule = "viking", .names = " viking ", .steps = {ISOLATE(SPLIT_BLOOM), ISOLATE(SPLIT_DIGIT)}},
    {.rule = "falcon",
     .names = " falcon ",
     .steps = {JOIN(SPLIT_PUNCTUATION), ISOLATE(SPLIT_GPT2), BYTE_LEVEL, JOIN(SPLIT_DIGIT),
               ISOLATE("[0-9][0-9][0-9]")}},
    {.rule = "llama-bpe",
     .names = " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     .steps = {ISOLATE(SPLIT_LLAMA3)},
     .ignore_merges = true,
     .add_bos = true},
    {.rule = "dbrx", .names = " dbrx smaug-bpe gpt-4 glm4 chatglm-bpe ", .steps = {ISOLATE(SPLIT_LLAMA3)}},
    {.rule = "jais-2", .names = " jais-2 ", .steps = {ISOLATE(JAIS2)}},
    {.rule = "minicpm5",
     .names = " minicpm5 ",
     .steps = {ISOLATE(THREE_DIGITS), ISOLATE(MINICPM)},
     .ignore_merges = true},
    {.rule = "qwen2",
     .names = " qwen2 deepseek-r1-qwen kormo f2llmv2 megrez ",
     .steps = {ISOLATE(SPLIT_QWEN2)},
     .nfc = true},
    {.rule = "qwen35", .names = " qwen35 ", .steps = {ISOLATE(QWEN35)}, .nfc = true},
    {.rule = "stablelm2", .names = " stablelm2 hunyuan solar-open grok-2 ", .steps = {ISOLATE(SPLIT_QWEN2)}},
    {.rule = "laguna", .names = " laguna ", .steps = {ISOLATE(LINES), ISOLATE(SPLIT_QWEN2)}},
    {.rule = "ufakzeka", .names = " ufakzeka ", .steps = {ISOLATE(NO_CONTRACTIONS)}},
    {.rule = "seed-coder", .names = " seed-coder ", .steps = {ISOLATE(SEED_CODER)}},
    {.rule = "bailingmoe", .names = " bailingmoe bailingmoe2 llada-moe ", .steps = {ISOLATE(BAILING)}},
    {.rule = "exaone-moe", .names = " exaone-moe ", .steps = {ISOLATE(EXAONE_MOE)}},
    {.rule = "deepseek-llm",
     .names = " deepseek-llm ",
     .steps = {ISOLATE(LINE_END), ISOLATE(DEEPSEEK_LETTERS), ISOLATE(DEEPSEEK_STOPS),
               ISOLATE(TRAILING_SPACES), ISOLATE(DEEPSEEK_ASIAN), ISOLATE(SPLIT_DIGIT)}},
    {.rule = "deepseek-coder",
     .names = " deepseek-coder ",
     .steps = {ISOLATE(LINE_END), ISOLATE("\\s?\\p{L}+"), ISOLATE("\\s?\\p{P}+"), ISOLATE(DEEPSEEK_ASIAN),
               ISOLATE(SPLIT_DIGIT)}},
    {.rule = "deepseek-v3",
     .names = " deepseek-v3 hunyuan-dense joyai-llm hy_v4 ",
     .steps = {ISOLATE(THREE_DIGITS), ISOLATE(DEEPSEEK_CJK), ISOLATE(DEEPSEEK3)}},
    {.rule = "spark2_5",
     .names = " spark2_5 ",
     .steps = {ISOLATE(THREE_DIGITS), ISOLATE(DEEPSEEK_CJK), ISOLATE(SPARK), ISOLATE(SPLIT_DIGIT)}},
    {.rule = "afmoe",
     .names = " afmoe ",
     .steps = {ISOLATE(RIGHT_THREES), ISOLATE(AFMOE_ASIAN), ISOLATE(DEEPSEEK3)}},
    {.rule = "tekken",
     .names = " tekken ",
     .steps = {ISOLATE(TEKKEN)},
     .ignore_merges = true,
     .add_bos = true},
    {.rule = "gpt-4o", .names = " gpt-4o llama4 kanana2 talkie minimax-m2 ", .steps = {ISOLATE(GPT4O)}},
    {.rule = "gpt-4o",
     .names = " granite-embed-multi-97m ",
     .steps = {ISOLATE(GPT4O)},
     .ignore_merges = true},
    {.rule = "youtu",
     .names = " youtu ",
     .steps = {ISOLATE(YOUTU_CJK), ISOLATE(YOUTU)},
     .ignore_merges = true},
    {.rule = "tiny_aya",
     .names = " tiny_aya cohere2moe ",
     .steps = {ISOLATE("\\d{1,3}(?=(?:\\d{3})*\\b)"), ISOLATE(GPT4O)}},
    {.rule = "kimi-k2", .names = " kimi-k2 ", .steps = {ISOLATE(KIMI)}},
    {.rule = "superbpe",
     .names = " superbpe ",
     .steps = {ISOLATE("\\p{N}+"), ISOLATE("(?=(\\d{3})+(?!\\d))")}},
    {.rule = "chameleon",
     .names = " chameleon ",
     .steps = {ISOLATE("<sentinel:[0-9]+>"), ISOLATE("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
               ISOLATE("([\\t\\n]|    |  )"), ISOLATE(SPLIT_DIGIT), ISOLATE(SPLIT_PUNCTUATION),
               ISOLATE(SPLIT_GPT2)},
     .add_bos = true},
    {.rule = "gemma4", .names = " gemma4 granite-embed-multi-311m ", .add_bos = true, .characters = true},
    {.rule = "sarvam-moe", .names = " sarvam-moe ", .characters = true},
    {.rule = "default",
     .names = " default ",
     .steps = {ISOLATE("[\\p{P}\\$\\+<=>\\^~\\|]+"), ISOLATE(SPLIT_GPT2), ISOLATE("\\p{N}+"),
               ISOLATE("[0-9][0-9][0-9]")}},
};

const SplitPreset *split_preset_find(const char *name) {
    char padded[64];
    int n = snprintf(padded, sizeof padded, " %s ", name && *name ? name : "default");
    if ((size_t)n >= sizeof padded || (name && strchr(name, ' '))) return NULL;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strstr(presets[i].names, padded)) return &presets[i];
    }
    return NULL;
}

Status split_preset_add(const SplitPreset *preset, bool space_prefix, SplitRules *rules, Error *error) {
    Status status = STATUS_OK;
    for (const SplitPresetStep *step = preset->steps; step->pattern && !status; step++) {
        bool last = !step[1].pattern;
        if (space_prefix && last) status = split_rules_add_prefix(rules, " ", 1, SPLIT_PREFIX_ALWAYS, error);
        if (status) break;
        status = *step->pattern ? split_rules_add_regex(rules, step->pattern, strlen(step->pattern),
                                                        step->behavior, false, error)
                                : split_rules_add_byte_level(rules, error);
    }
    return status;
}
