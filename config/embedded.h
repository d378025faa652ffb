// The TOML files that are part of the program. The Makefile turns each into an object (`ld -r -b binary`)
// whose symbols carry the file's path; the bytes end without a NUL.
#ifndef PALAVER_CONFIG_EMBEDDED_H
#define PALAVER_CONFIG_EMBEDDED_H

#define EMBEDDED(name)                                                                                       \
    extern const char _binary_config_##name##_toml_start[], _binary_config_##name##_toml_end[]

EMBEDDED(default);

#endif
