// palaver pull and what a hub, or the way to it, does wrong: one line, and nothing that is taken for a model.
#include "tests/support/stores/hub.h"
#include "tests/support/program.h"
#include "tests/support/test.h"
#include "app/models/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// One line besides what is fetched.
static void refuses(const char *arguments, const char *part) {
    Run run;
    char words[300];
    snprintf(words, sizeof words, "pull|%s", arguments);
    program_run(&run, words, "");
    expect_status(&run, 1);
    expect_err(&run, part);
    assert_in_range(program_count(run.err, "\n"), 1, 2);
    program_free(&run);
}

static void test_refused(void **state) {
    (void)state;
    refuses("acme/none", "acme/none: 404, the hub has nothing of this name (what is private needs HF_TOKEN)");
    refuses("acme/babbler@nope", "404");
    refuses("acme/forbidden", "403, not for you");
    refuses("acme/gated", "401, there is none of this name, or it needs a token: set HF_TOKEN");
    refuses("acme/gone", "small-Q8_0.gguf: 404");
    refuses("acme/always429", "429, the hub has had too many requests");
    refuses("acme/always503", "the server answers 503: it is out of order");
    refuses("acme/badlist", "acme/badlist: line 1, column 1: not valid JSON");
    refuses("acme/nolist", "the hub's answer is no list of files");
    refuses("acme/endlesslist", "the answer does not end where it should");
    refuses("acme/circle", "round in circles");
    refuses("acme/away", "which is no web address");
    refuses("acme/nowhere", "elsewhere, but not where");
    refuses("acme/endless", "the server sends more than it said");
    refuses("acme/otherpart", "the server sends another part than was asked for");
    refuses("acme/othersize", "the server says another size than the hub");
    refuses("acme/damaged", "it came damaged");
    hub_pulls("acme/damaged", 0, "is here"); // the second time it does not
    hub_pulls("acme/twice", 0, "is here");   // 503 and 500 twice each
}

static void test_short(void **state) {
    (void)state;
    refuses("acme/short", "the connection broke");
}

// A server that says nothing more is given up and asked again; one that never does, is told of.
static void test_silence(void **state) {
    const Hub *hub = *state;
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1", 1);
    hub_pulls("acme/falters", 0, "is here");
    assert_int_equal(hub_asked(hub, "files /acme/falters"), 2);
    refuses("acme/silent", "small-Q8_0.gguf: the server has gone silent");
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "soon", 1);
    hub_pulls("acme/babbler", 2, "HF_HUB_DOWNLOAD_TIMEOUT=soon: expected seconds, 1 to 3600");
    unsetenv("HF_HUB_DOWNLOAD_TIMEOUT");
}

// Behind TLS only who is trusted, and is who it says; and nobody is sent from there to where all can read it.
static void test_certificates(void **state) {
    const Hub *hub = *state;
    char secure[64], stranger[64];
    snprintf(secure, sizeof secure, "https://127.0.0.1:%d", hub->secure);
    snprintf(stranger, sizeof stranger, "https://127.0.0.1:%d", hub->stranger);
    setenv("HF_ENDPOINT", secure, 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("SSL_CERT_FILE", hub_path(hub, "log.pem.cert"), 1);
    setenv("HF_TOKEN", "secret", 1);
    hub_pulls("acme/gated", 0, "is here");
    assert_int_equal(hub_asked(hub, "sealed /acme/gated"), 1); // which refuses whoever has a token with him
    unsetenv("HF_TOKEN");
    refuses("acme/opens", "the server sends us from https to http://127.0.0.1");
    setenv("HF_ENDPOINT", stranger, 1);
    setenv("SSL_CERT_FILE", hub_path(hub, "log.other.pem.cert"), 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("HF_ENDPOINT", secure, 1);
    setenv("SSL_CERT_FILE", "/no/such/file", 1);
    refuses("acme/babbler", "the certificates to trust cannot be read");
    unsetenv("SSL_CERT_FILE");
}

static void test_token(void **state) {
    const Hub *hub = *state;
    setenv("HF_TOKEN", "secret", 1);
    hub_pulls("acme/gated", 0, "is here");
    assert_true(hub_asked(hub, "Bearer secret") >= 2);
    assert_true(hub_asked(hub, "files ") >= 1);               // another host, as its port is another
    assert_int_equal(hub_asked(hub, "files /acme/gated"), 1); // which refuses whoever has a token with him
    setenv("HF_TOKEN", "wrong", 1);
    refuses("acme/gated", "403, not for you");
    setenv("HF_TOKEN", "two words", 1);
    hub_pulls("acme/gated", 2, "HF_TOKEN is no token");
    unsetenv("HF_TOKEN");
}

static void test_proxy(void **state) {
    const Hub *hub = *state;
    char address[64];
    snprintf(address, sizeof address, "http://127.0.0.1:%d", hub->proxy);
    setenv("http_proxy", address, 1);
    setenv("HF_ENDPOINT", "http://hub.invalid", 1); // whose name only the proxy knows
    setenv("HF_TOKEN", "secret", 1);
    hub_pulls("acme/gated", 0,
              "[HF_TOKEN goes to http://hub.invalid unencrypted: whoever is on the way can read it]");
    assert_int_equal(hub_asked(hub, "proxy http://hub.invalid/"), 2); // the list, and where the file is
    assert_int_equal(hub_asked(hub, "proxy http://127.0.0.1:"), 1);
    unsetenv("http_proxy");
    unsetenv("HF_TOKEN");
}

static void test_offline(void **state) {
    const Hub *hub = *state;
    setenv("HF_HUB_OFFLINE", "1", 1);
    refuses("acme/babbler", "HF_HUB_OFFLINE is set: nothing is fetched");
    setenv("HF_HUB_OFFLINE", "True", 1);
    refuses("acme/babbler", "HF_HUB_OFFLINE is set: nothing is fetched");
    hub_has(hub, "log", false); // nobody was asked anything
    setenv("HF_HUB_OFFLINE", "0", 1);
    hub_pulls("acme/babbler", 0, "is here");
    unsetenv("HF_HUB_OFFLINE");
}

static void test_in_clear(void **state) {
    (void)state;
    static const char *const clear[] = {"http://hub", "HTTP://10.0.0.1:80/x", "http://127.example.org",
                                        "http://localhost.org"};
    static const char *const fine[] = {"https://hub", "http://127.0.0.1:8080/", "http://localhost:1",
                                       "http://[::1]:80/", "http://LOCALHOST"};
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++) assert_true(hub_is_in_clear(clear[i]));
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) assert_false(hub_is_in_clear(fine[i]));
}

static void test_addresses(void **state) {
    (void)state;
    hub_pulls("hf.co/acme/babbler", 0, "is here: palaver acme/babbler");
    hub_pulls("https://huggingface.co/acme/babbler", 0, "is here: palaver acme/babbler");
    hub_pulls("https://example.org/acme/babbler", 2, "palaver pull wants ORG/NAME");
}

static void test_no_way(void **state) {
    const Hub *hub = *state;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "https://127.0.0.1:%d", hub->port);
    setenv("HF_ENDPOINT", endpoint, 1);
    refuses("acme/babbler", "the connection is not safe");
    setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
    refuses("acme/babbler", "no way there");
    setenv("http_proxy", "http://no-such-proxy.invalid:3128", 1);
    refuses("acme/babbler", "no such proxy");
    unsetenv("http_proxy");
    setenv("HF_ENDPOINT", "ftp://example.org", 1);
    hub_pulls("acme/babbler", 2, "HF_ENDPOINT=ftp://example.org: expected https://HOST");
}

static void test_names(void **state) {
    (void)state;
    static const char *const wrong[] = {"babbler",        "acme/",           "/babbler",
                                        "acme/bab/bler",  "acme/../babbler", "a b/c",
                                        "acme/bab--bler", "acme/x@../y",     "acme/x@"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        hub_pulls(wrong[i], 2, "palaver pull wants ORG/NAME");
    program_says("pull", "", 2, "which model?");
    program_says("pull|", "", 2, "which model?");
    program_says("pull|a/b|--temperature=1", "", 2, "--temperature has no meaning for palaver pull");
    program_says("inspect|acme/unheard-of", "", 3, "palaver pull acme/unheard-of fetches it from a hub");
}

#define test(name) cmocka_unit_test_setup_teardown(test_##name, hub_set_up, hub_tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        test(refused), test(short),    test(silence),   test(certificates), test(token), test(proxy),
        test(offline), test(in_clear), test(addresses), test(no_way),       test(names),
    };
    return test_main("pull: what hubs say", argc, argv, tests);
}
