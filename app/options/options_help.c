// What --help and --version print: one screen, grouped by use, the keys out of the configuration's own table.
#include "app/options/options.h"
#include "kernels/base/path.h"

#include "engine/backend.h"
#include "kernels/ops.h"

#include <string.h>

enum { HELP_COLUMNS = 100, HELP_INDENT = 14 };

// One line of flags for a section, wrapped.
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
    fputs(
        "palaver [MODEL]: talk with a language model on your own machine.\n"
        "MODEL is a Hugging Face folder, a .gguf file, or a name or part of one that palaver list shows;\n"
        "without one it is the default model (make model), or " BUNDLED_MODEL ", which comes with palaver.\n"
        "\n"
        "Talking     palaver [MODEL]               chat; commands begin with /, /help lists them\n"
        "            palaver [MODEL] < talk.txt    a script: one line one turn, replies on stdout\n"
        "            palaver [MODEL] --jsonl < many.jsonl   conversations, one a line, many at once\n"
        "      --parallel N     so many of them (16); --ordered: answers in the input's order\n"
        "  -p, --prompt TEXT    one question, its reply on stdout; a pipe on stdin is appended, and an "
        "unread\n"
        "                       file: not that of `while read l; do palaver -p \"$l\"; done < list`\n"
        "      --stdin          append stdin whatever it is; --no-stdin (loops over pipes): leave it alone\n"
        "  -s, --system TEXT    the system prompt; @FILE reads it from a file\n"
        "  -r, --resume[=NAME]  go on with the last conversation that was talked in, or a named one (also a\n"
        "                       script's or a question's; --resume NAME, where no model is called so)\n"
        "      --no-save        keep no journal of this conversation\n"
        "      --echo           print a script's turns as well as the replies\n"
        "  -k, --keep-going     go on after a script's failing turn\n"
        "      --plain          no cursor movement, no colour: for screen readers and logs\n"
        "Looking     palaver inspect MODEL          tensors, types, tokenizer, template; --device: the plan\n"
        "            palaver tokenize MODEL [TEXT]  ids and pieces (TEXT or stdin)\n"
        "            palaver perplexity MODEL FILE  of a text, also beyond the context (--against POLICY:\n"
        "                                           how far two overflow policies differ)\n"
        "            palaver bench MODEL            speed and memory (--prefill, --decode, --depth N;\n"
        "                                           --stream N: past the context; --profile: each op;\n"
        "                                           --parallel N [--shared K]; --dispatch; --plot FILE.svg)\n"
        "            palaver tune MODEL             finds the best kernels for it on this GPU, and keeps "
        "them\n"
        "            … --shape NAME                 made-up weights (--weights TYPE)\n"
        "            palaver list [PART]            models that are here, other programs' as well (--json,\n"
        "                                           --names); palaver use NAME makes one the default\n"
        "            palaver pull ORG/NAME[:TYPE]   fetches one from a hub, checked (HF_TOKEN, HF_ENDPOINT)\n"
        "            palaver config [--default]     settings and their origin; a documented file\n"
        "Settings\n"
        "  -c, --config FILE    a TOML file of settings; repeatable, later wins\n"
        "      --profile NAME   the [profile.NAME] section of these files; --context N: tokens of the "
        "context\n"
        "  every key is a flag (--KEY VALUE; switches: --KEY, --no-KEY):\n",
        file);
    size_t n;
    const ConfigKey *keys = settings_keys(&n);
    for (size_t i = 0; i < n; i++)
        // Colours are for files, though their keys are flags as all others are.
        if ((!i || strcmp(keys[i].section, keys[i - 1].section)) && strcmp(keys[i].section, "colors") != 0)
            print_section(file, keys[i].section);
    fputs(
        "Exit status  0 well, 1 failure (also of a turn), 2 wrong usage, 3 no model, 4 the context refused\n"
        "             a turn, 5 a script's command or text is wrong, 130 interrupted, 143 by SIGTERM\n"
        "  -h, --help   -V, --version (and which cards there are, or why none)\n",
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
