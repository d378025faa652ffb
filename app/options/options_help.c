// What --help and --version print: one screen, grouped by use, the keys out of the configuration's own table.
#include "app/options/options.h"
#include "kernels/base/path.h"

#include "engine/backend.h"
#include "kernels/ops.h"

#include <string.h>

enum { HELP_COLUMNS = 80, HELP_INDENT = 12 };

// The flags of a section; rows end between them.
static void print_section(FILE *file, const char *section) {
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    int column = fprintf(file, "  %-*s", HELP_INDENT - 2, section);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(keys[i].section, section)) continue;
        char flag[80];
        int length = snprintf(flag, sizeof flag, " --%s", keys[i].name);
        for (char *p = flag + 3; *p; p++)
            if (*p == '_') *p = '-';
        if (column + length > HELP_COLUMNS) column = fprintf(file, "\n%*s", HELP_INDENT, "") - 1;
        column += fprintf(file, "%s", flag);
    }
    fputc('\n', file);
}

void options_print_help(FILE *file) {
    fputs("palaver [MODEL]: talk with a language model on your own machine\n"
          "MODEL is a .gguf file, a Hugging Face folder, or a name (or a part of one) that\n"
          "palaver list shows; without it: the default model (make model), or " BUNDLED_MODEL ",\n"
          "which comes with palaver.\n"
          "\n"
          "Talking\n"
          "  palaver [MODEL]                        a chat; /help lists its commands\n"
          "  palaver [MODEL] < talk.txt             a script: a line a turn\n"
          "  palaver [MODEL] --jsonl < many.jsonl   many conversations, one a line\n"
          "  -p, --prompt TEXT      one question, its reply on stdout; a pipe on stdin is\n"
          "                         appended, and a file nobody has read: not the list of\n"
          "                         `while read l; do palaver -p \"$l\"; done < list`\n"
          "      --stdin            append stdin whatever it is; --no-stdin: leave it alone\n"
          "  -s, --system TEXT      the system prompt; @FILE reads it from a file\n"
          "  -r, --resume[=NAME]    go on with the last conversation, or with NAME\n"
          "      --no-save          keep no journal of this conversation\n"
          "      --plain            no cursor movement, no colour: for screen readers, logs\n"
          "      --echo             print a script's turns as well as the replies\n"
          "  -k, --keep-going       go on after a script's failing turn\n"
          "      --parallel N       so many conversations of --jsonl at once (16)\n"
          "      --ordered          answers of --jsonl in the input's order\n"
          "\n"
          "Commands                 palaver COMMAND; palaver help is this text\n"
          "  list [PART]            models here, also other programs' (--json, --names)\n"
          "  use NAME               makes one the default\n"
          "  pull ORG/NAME[:TYPE]   fetches one from a hub, checked (HF_TOKEN, HF_ENDPOINT)\n"
          "  inspect MODEL          tensors, types, tokenizer, template; --device: the plan\n"
          "  tokenize MODEL [TEXT]  ids and pieces of TEXT or stdin\n"
          "  perplexity MODEL FILE  of a text, also beyond the context\n"
          "      --against POLICY   how far two overflow policies differ\n"
          "  bench MODEL            speed and memory: --prefill, --decode, --depth N\n"
          "      --stream N         past the context; --profile: each op; --dispatch: GEMMs\n"
          "      --parallel N       many at once, --shared K of their tokens\n"
          "      --shape NAME       made-up weights (--weights TYPE); --plot FILE.svg\n"
          "  tune MODEL             finds this GPU's best kernels for it, and keeps them\n"
          "  config                 settings and their origin; --default: a documented file\n"
          "\n"
          "Settings\n"
          "  -c, --config FILE      a TOML file of them; repeatable, later wins\n"
          "      --profile NAME     the [profile.NAME] section of these files\n"
          "      --context N        tokens of the context\n"
          "  Every key is a flag: --KEY VALUE; of a switch --KEY and --no-KEY.\n",
          file);
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    for (size_t i = 0; i < n; i++)
        // Colours are for files, though their keys are flags as all others are.
        if ((!i || strcmp(keys[i].section, keys[i - 1].section)) && strcmp(keys[i].section, "colors") != 0)
            print_section(file, keys[i].section);
    fputs("\n"
          "  -h, --help   -V, --version (and which cards there are, or why none)\n"
          "Exit status  0 well, 1 failure (also of a turn), 2 wrong usage, 3 no model,\n"
          "             4 the context refused a turn, 5 text or command of a script is bad,\n"
          "             130 interrupted, 143 by SIGTERM\n",
          file);
}

void options_print_version(FILE *file) {
    const Ops *cuda;
    Error why;
    char devices[400];
    fprintf(file, "palaver %s\nbuild: C11, compiler %s\nbackends: %s", PALAVER_VERSION, __VERSION__,
            ops_cpu()->name);
    if (backend_cuda_ops(&cuda, &why))
        fprintf(file, " (%s)\n", why.message);
    else if (cuda->devices(devices, sizeof devices, &why))
        fprintf(file, "; %s: %s\n", cuda->name, why.message);
    else
        fprintf(file, "; %s\n", devices);
}
