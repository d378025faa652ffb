// What options_parse.c takes from options_scope.c: which flags have a meaning where. One that would change nothing is
// refused, not ignored.
#ifndef PALAVER_APP_OPTIONS_INTERNAL_H
#define PALAVER_APP_OPTIONS_INTERNAL_H

#include "app/options/options.h"

// STATUS_USAGE: a flag that the subcommand, or the way of talking, does not look at. Settings in files and in the
// environment are for all of them, and are not looked at here.
Status options_check_scope(const Options *options, Error *error);

#endif
