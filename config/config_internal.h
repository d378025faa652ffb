// What the files of config*.c share.
#ifndef PALAVER_CONFIG_INTERNAL_H
#define PALAVER_CONFIG_INTERNAL_H

#include "config/config.h"
#include "config/layers.h"

// Moves all of `added` into the config's layers and computes the sections anew. All or nothing; `added` is
// empty afterwards in either case.
Status config_merge(Config *config, ConfigLayers *added, Error *error);

// What a parsed file says, which is `name` in messages and origins; takes `root` over.
Status config_apply_tree(Config *config, ConfigLayer layer, const char *name, TomlNode *root, Error *error);

#endif
