// One run of palaver: what main() opened for the part of it that was asked for, and the steps that several parts have
// in common. Each part has a function NAME_main() that returns the exit status (exit_status.h): chat, --jsonl, inspect,
// ….
#ifndef PALAVER_APP_PROGRAM_H
#define PALAVER_APP_PROGRAM_H

#include "app/loading/load.h"
#include "app/options/options.h"
#include "app/process/exit_status.h"
#include "app/settings/settings.h"
#include "app/terminal/screen/screen.h"
#include "kernels/base/path.h"

enum { PROGRAM_TEXT_LIMIT = 1 << 30 }; // bytes of a text that a tool reads

typedef struct Program {
    Options options;
    Settings settings;
    Screen *screen;
    Engine *engine;  // NULL: none yet; main's to close
    Engine *guesser; // likewise: the model that guesses for it (model.draft)
    char model[PATH_ROOM];
} Program;

// Says what failed. Returns `status`, or what an interrupt makes of it.
int program_fail(const Program *program, const Error *error, int status);
// The end of a tool that prints: what failed is said.
int program_finish(const Program *program, Status status, const Error *error);

// Finds the model that is asked for, else that of the conversation that goes on (`resumed`, NULL: none), else the
// configured or default one.
Status program_find_model(Program *program, const char *resumed, Error *error);
// What an engine has to have room for: two conversations of the full size are compared, many decoded together.
LoadRoom program_room(const Program *program);
// Opens the model that guesses for another, if the settings name one and anything is to be guessed: before the other, which has
// what is left of the memory.
Status program_load_guesser(Program *program, Error *error);
// Opens the engine with the model that was found.
Status program_load_model(Program *program, Error *error);

#endif
