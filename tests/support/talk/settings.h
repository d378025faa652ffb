// A configuration under test, and how it stands.
#ifndef PALAVER_TESTS_SETTINGS_H
#define PALAVER_TESTS_SETTINGS_H

#include "app/settings/settings.h"

Settings settings_fresh(void);                                         // to config_free()
Status settings_apply(Config *config, const char *text, Error *error); // as a file called talk.toml
Status settings_apply_named(Config *config, const char *name, const char *text, Error *error);

// A key's value as it is printed, until the next call, and where it comes from.
const char *settings_value(const Config *config, const char *name);
const char *settings_origin(const Config *config, const char *name);
char *
settings_all(const Config *config); // every key in effect as one text, to free(): to see that nothing changed

#endif
