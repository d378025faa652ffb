// Which card is taken, and what is said where none is: kernels/cuda/devices.h. No GPU is asked.
#include "tests/support/test.h"
#include "kernels/cuda/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void every_state_of_a_driver_has_its_line(void **state) {
    (void)state;
    enum { NOT_INITIALIZED = 3 };
    static const struct {
        DevicesFound found;
        bool fully;
        const char *said; // NULL: there is a card
    } CASES[] = {
        {{.driver = 13000, .runtime = 13000, .n = 1}, false, NULL},
        {{.driver = 13000, .runtime = 13010, .n = 2, .let_seen = "0,1"}, false, NULL},
        // Nothing is there.
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .runtime = 13000}, false, "no NVIDIA GPU"},
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .runtime = 13000},
         true,
         "no NVIDIA GPU (none on the PCI bus, and no driver)"},
        {{.code = DEVICES_NO_DEVICE, .driver = 13010, .runtime = 13000}, false, "no NVIDIA GPU"},
        {{.code = DEVICES_NO_DEVICE, .driver = 13010, .runtime = 13000},
         true,
         "no NVIDIA GPU (its driver, for CUDA 13.1, finds none)"},
        {{.code = 0, .driver = 13000, .runtime = 13000}, false, "no NVIDIA GPU"},
        // A card, and no driver; one that is too old, on the bus or where there is no such bus.
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .runtime = 13000, .on_bus = true},
         false,
         "an NVIDIA GPU without NVIDIA's driver: install 580 or newer (a container: start it with --gpus "
         "all)"},
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .driver = 12080, .runtime = 13020, .on_bus = true},
         false,
         "the NVIDIA driver knows CUDA 12.8 only, palaver needs 13.0: update the driver to 580 or newer"},
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .driver = 11040, .runtime = 14000},
         true,
         "the NVIDIA driver knows CUDA 11.4 only, palaver needs 14.0: update the driver to the newest"},
        // A card that is not found.
        {{.code = DEVICES_NO_DEVICE, .driver = 13000, .runtime = 13000, .on_bus = true},
         false,
         "the NVIDIA driver does not find the GPU that is there: nvidia-smi says why"},
        {{.code = DEVICES_NO_DEVICE, .driver = 13000, .runtime = 13000, .on_bus = true, .let_seen = ""},
         false,
         "CUDA_VISIBLE_DEVICES=\"\" leaves no NVIDIA GPU: unset it to use one"},
        // Drivers that fail.
        {{.code = DEVICES_STUB_LIBRARY, .runtime = 13000},
         false,
         "a stub of CUDA's stands for the NVIDIA driver: take its folder out of LD_LIBRARY_PATH"},
        {{.code = DEVICES_DRIVER_MISMATCH, .driver = 13000, .runtime = 13000},
         false,
         "the NVIDIA driver was updated, and the old one still runs: restart the machine"},
        {{.code = DEVICES_NOT_READY, .driver = 13000, .runtime = 13000},
         false,
         "the NVIDIA driver is not ready yet: wait, or start nvidia-fabricmanager"},
        {{.code = NOT_INITIALIZED, .trouble = "initialization error", .driver = 13000, .runtime = 13000},
         false,
         "the NVIDIA driver fails: initialization error; nvidia-smi may say why"},
        // It says that it is too old, and its number that it is not.
        {{.code = DEVICES_INSUFFICIENT_DRIVER, .trouble = "too old", .driver = 13000, .runtime = 13000},
         false,
         "the NVIDIA driver fails: too old; nvidia-smi may say why"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Error error = {0};
        Status status = devices_check(&CASES[i].found, CASES[i].fully, &error);
        assert_int_equal(status, CASES[i].said ? STATUS_DEVICE : STATUS_OK);
        assert_string_equal(error.message, CASES[i].said ? CASES[i].said : "");
    }
}

static void the_first_card_that_will_do(void **state) {
    (void)state;
    static const DeviceFacts cards[] = {{"Old", 75, 8000000000}, {"New", 120, 32000000000}, {"Newer", 80, 0}};
    static const struct {
        const char *device;
        int from, n, index;
        const char *said; // NULL: it is chosen
    } CASES[] = {
        {"cuda", 1, 2, 0, NULL},
        {"cuda", 0, 3, 1, NULL},
        {"cuda:2", 0, 3, 2, NULL},
        {"cuda:0", 1, 1, 0, NULL},
        {"cuda", 0, 1, 0,
         "Old has compute capability 7.5, palaver needs 8.0 (RTX 30, A100 or newer): --device cpu does "
         "without"},
        {"cuda:0", 0, 3, 0,
         "Old has compute capability 7.5, palaver needs 8.0 (RTX 30, A100 or newer): take cuda:1, New"},
        {"cuda:3", 0, 3, 0, "device \"cuda:3\": there are 3, cuda:0 and on"},
        {"cuda:1", 0, 1, 0, "device \"cuda:1\": there is 1, cuda:0"},
        {"cuda:", 0, 1, 0, "device \"cuda:\": there is 1, cuda:0"},
        {"cuda:1x", 0, 3, 0, "device \"cuda:1x\": there are 3, cuda:0 and on"},
        {"cuda:-1", 0, 3, 0, "device \"cuda:-1\": there are 3, cuda:0 and on"},
        {"cuda:99999999999999999999", 0, 1, 0, "device \"cuda:99999999999999999999\": there is 1, cuda:0"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Error error = {0};
        int index = -1;
        Status status = devices_choose(CASES[i].device, cards + CASES[i].from, CASES[i].n, &index, &error);
        assert_string_equal(error.message, CASES[i].said ? CASES[i].said : "");
        assert_int_equal(status, !CASES[i].said                      ? STATUS_OK
                                 : !strncmp(CASES[i].said, "dev", 3) ? STATUS_USAGE
                                                                     : STATUS_DEVICE);
        if (!CASES[i].said) assert_int_equal(index, CASES[i].index);
    }
}

static void several_cards_are_alike(void **state) {
    (void)state;
    static const DeviceFacts cards[] = {
        {"New", 90, 1}, {"New", 90, 1}, {"Old", 75, 1}, {"New", 90, 1}, {"Other", 90, 1}};
    static const struct {
        const char *device;
        int from, n_cards, n, indexes[3];
        const char *said; // NULL: they are chosen
    } CASES[] = {
        {"cuda:0,1", 0, 2, 2, {0, 1}, NULL},
        {"cuda:3,0,1", 0, 5, 3, {3, 0, 1}, NULL},
        {"cuda:all", 0, 2, 2, {0, 1}, NULL},
        {"cuda:all", 0, 1, 1, {0}, NULL},
        {"cuda:0,0", 0, 2, 0, {0}, "device \"cuda:0,0\" names card 0 twice"},
        {"cuda:1,0,1", 0, 2, 0, {0}, "device \"cuda:1,0,1\" names card 1 twice"},
        {"cuda:0,2", 0, 2, 0, {0}, "device \"cuda:0,2\": there are 2, cuda:0 and on"},
        {"cuda:0,1", 0, 1, 0, {0}, "device \"cuda:0,1\": there is 1, cuda:0"},
        {"cuda:0,", 0, 2, 0, {0}, "device \"cuda:0,\": there are 2, cuda:0 and on"},
        {"cuda:,1", 0, 2, 0, {0}, "device \"cuda:,1\": there are 2, cuda:0 and on"},
        {"cuda:0,-1", 0, 2, 0, {0}, "device \"cuda:0,-1\": there are 2, cuda:0 and on"},
        {"cuda:0,1x", 0, 2, 0, {0}, "device \"cuda:0,1x\": there are 2, cuda:0 and on"},
        {"cuda:0,1,3,4", 0, 5, 0, {0}, "device \"cuda:0,1,3,4\": at most 3 cards"},
        {"cuda:0,4",
         0,
         5,
         0,
         {0},
         "device \"cuda:0,4\": cuda:0 is New, cuda:4 Other; cards that work together must be alike: name "
         "those that "
         "are"},
        {"cuda:1,2",
         0,
         5,
         0,
         {0},
         "Old has compute capability 7.5, palaver needs 8.0 (RTX 30, A100 or newer): take cuda:0, New"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Error error = {0};
        int indexes[3], n;
        Status status = devices_choose_several(CASES[i].device, cards + CASES[i].from, CASES[i].n_cards, 3,
                                               indexes, &n, &error);
        assert_string_equal(error.message, CASES[i].said ? CASES[i].said : "");
        assert_int_equal(status == STATUS_OK, CASES[i].said == NULL);
        if (status) continue;
        assert_int_equal(n, CASES[i].n);
        assert_memory_equal(indexes, CASES[i].indexes, (size_t)n * sizeof *indexes);
    }
}

static void cards_are_listed_as_they_are_asked_for(void **state) {
    (void)state;
    static const DeviceFacts cards[] = {{"Old", 75, 8000000000}, {"New", 120, 32000000000}};
    char text[200], little[20];
    devices_list(cards, 2, text, sizeof text);
    assert_string_equal(text, "cuda:0 Old, 8 GB (compute capability 7.5: too old); cuda:1 New, 32 GB");
    devices_list(cards, 2, little, sizeof little);
    assert_string_equal(little, "cuda:0 Old, 8 GB (c");
    devices_list(cards, 0, text, sizeof text);
    assert_string_equal(text, "");
}

// ---- the bus ------------------------------------------------------------------------------------------------------

static void put(const char *root, const char *device, const char *name, const char *text) {
    char path[500], folder[400];
    snprintf(folder, sizeof folder, "%s/sys/bus/pci/devices/%s", root, device);
    for (char *slash = folder + strlen(root) + 1; *slash; slash++) {
        if (*slash != '/') continue;
        *slash = 0, mkdir(folder, 0755), *slash = '/';
    }
    mkdir(folder, 0755);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_card_is_seen_on_the_bus(void **state) {
    (void)state;
    char root[] = "/tmp/palaver-bus-XXXXXX", command[100];
    assert_non_null(mkdtemp(root));
    assert_false(devices_on_bus(root)); // no bus
    put(root, "0000:00:01.0", "vendor", "0x1002\n");
    put(root, "0000:00:01.0", "class", "0x030000\n");
    assert_false(devices_on_bus(root)); // somebody else's
    put(root, "0000:01:00.1", "vendor", "0x10de\n");
    put(root, "0000:01:00.1", "class", "0x040300\n");
    assert_false(devices_on_bus(root)); // a card's sound alone
    put(root, "0000:02:00.0", "vendor", "0x10de\n");
    assert_false(devices_on_bus(root)); // of no class
    put(root, "0000:02:00.0", "class", "0x030200\n");
    assert_true(devices_on_bus(root));
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_of_a_driver_has_its_line),
        cmocka_unit_test(the_first_card_that_will_do),
        cmocka_unit_test(several_cards_are_alike),
        cmocka_unit_test(cards_are_listed_as_they_are_asked_for),
        cmocka_unit_test(a_card_is_seen_on_the_bus),
    };
    return test_main("cards", argc, argv, tests);
}
