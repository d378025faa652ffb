// The model that comes with palaver, and what other programs make of it (tests/golden/make_parley.py).
#ifndef PALAVER_TESTS_PARLEY_H
#define PALAVER_TESTS_PARLEY_H

#define PARLEY "assets/parley-9m"
#define GOLDEN_PARLEY "tests/golden/parley"

#endif
