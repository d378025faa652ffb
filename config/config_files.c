// Where files of settings are.
#include "config/config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

Status config_apply_file(Config *config, ConfigLayer layer, const char *path, Error *error) {
    TomlNode *root;
    Status status = toml_parse_file(path, &root, error);
    return status ? status : config_apply_tree(config, layer, path, root, error);
}

// Written like snprintf; 0 when there is neither XDG_CONFIG_HOME nor HOME.
static int user_path(char *buffer, size_t size) {
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (folder && *folder == '/') return snprintf(buffer, size, "%s/palaver/palaver.toml", folder);
    if (home && *home) return snprintf(buffer, size, "%s/.config/palaver/palaver.toml", home);
    if (size) *buffer = 0;
    return 0;
}

Status config_apply_user_files(Config *config, Error *error) {
    char path[4096];
    int length = user_path(path, sizeof path);
    Status status = STATUS_OK;
    if (length > 0 && (size_t)length < sizeof path && !access(path, F_OK))
        status = config_apply_file(config, CONFIG_FILES, path, error);
    if (!status && !access("palaver.toml", F_OK))
        status = config_apply_file(config, CONFIG_FILES, "palaver.toml", error);
    return status;
}
