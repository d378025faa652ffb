// Grammars: which texts fit, by tables; what is refused.
#include "engine/grammar/grammar.h"
#include "tests/support/grammars.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fit {
    const char *grammar;
    const char *fit[6], *unfit[6]; // up to a NULL
} Fit;

static void check_fits(GrammarKind kind, const Fit *fit, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 6 && fit[i].fit[k]; k++)
            if (!grammars_fit(kind, fit[i].grammar, fit[i].fit[k]))
                fail_msg("%s: does not fit: %s", fit[i].grammar, fit[i].fit[k]);
        for (size_t k = 0; k < 6 && fit[i].unfit[k]; k++)
            if (grammars_fit(kind, fit[i].grammar, fit[i].unfit[k]))
                fail_msg("%s: fits: %s", fit[i].grammar, fit[i].unfit[k]);
    }
}

static void gbnf(void **state) {
    (void)state;
    static const Fit all[] = {
        {GRAMMARS_ARITHMETIC,
         {"a=1\n", "(x1 +2)*3 = y\n", "1=1\n2=2\n"},
         {"", "a=1", "=1\n", "(a=1\n", "A=1\n"}},
        {GRAMMARS_JSON, {"{}", "[[[]],{\"ä\":[1,true]}]", "\"\""}, {"{", "[1,]", "{1:2}", "\"\\\"", "[[]"}},
        {"root ::= (\"- \" [^\\r\\n] + \"\\n\"){2,3}",
         {"- a\n- b\n", "- a\n- b\n- c\n"},
         {"- a\n", "a\n", "- a\n- \n"}},
        {"root ::= \"\\x41\\u00e4\\U0001F600\" .?", {"Aä😀", "Aä😀\n", "Aä😀é"}, {"Aä", "Aä😀ab"}},
        {"root ::= [а-я]{2,} [^а-я]", {"дад.", "да€"}, {"д.", "дад", "ab."}},
        {"root ::= \"ab\"* \"c\"{2} | ()", {"", "cc", "ababcc"}, {"abcc ", "ac", "c", "abb"}},
        {"root ::= a\na ::= \"(\" a \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
        {"root ::= x x\nx ::= (\"a\"*)* | \"b\"", {"", "aaa", "bb", "ab"}, {"bbb", "c"}},
    };
    check_fits(GRAMMAR_GBNF, all, sizeof all / sizeof *all);
}

static void regex(void **state) {
    (void)state;
    static const Fit all[] = {
        {"[a-c]+\\d{2,3}?", {"a12", "cab123"}, {"12", "a1", "a1234", "a12 "}},
        {"^(yes|no)$", {"yes", "no"}, {"", "yesno", "yes\n"}},
        {"a|b*|^c$", {"", "a", "bbb", "c"}, {"ab", "cc"}},
        {"(?:x|(?P<n>y){2})(?<m>z)?", {"x", "yy", "xz", "yyz"}, {"y", "z"}},
        {".\\.[^.]", {"a.b", "ä.€", "..\n"}, {"a..", "\n.a", "a.bc"}},
        {"[\\w-]+@\\S\\s[]a]", {"a-b@x ]", "_@. a"}, {"@x a", "a@  a", "a@x b"}},
        {"\\x41\\u00e4\\t\\/\\{2}", {"Aä\t/{2}"}, {"Aä\t/{{"}},
        {"(((a{0,3}){2}){2})?", {"", "aaaaaaaaaaaa"}, {"aaaaaaaaaaaaa"}},
    };
    check_fits(GRAMMAR_REGEX, all, sizeof all / sizeof *all);
}

static void schema(void **state) {
    (void)state;
    static const Fit all[] = {
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"const\": null}}, "
         "\"required\": "
         "[\"b\"]}",
         {"{\"a\":1,\"b\":null}", "{\"b\": null}"},
         {"{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,}", "{\"a\":01,\"b\":null}"}},
        {"{\"type\": \"integer\", \"minimum\": -7, \"maximum\": 102}",
         {"-7", "-1", "0", "9", "99", "102"},
         {"-8", "103", "-0", "00", "110", "1."}},
        {"{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1.5}",
         {"1.5", "0.001", "1", "1.499"},
         {"0", "0.0", "1.501", "-1", "2", "1e0"}},
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
         {"\"ab\"", "\"\\n\\\"ä\"", "\"\\ud83d\\ude00a\""},
         {"\"a\"", "\"abcd\"", "\"\\ud83d\"", "ab", "\"a\nb\""}},
        {"{\"type\": \"string\", \"pattern\": \"^\\\\\\\\x+$\"}",
         {"\"\\\\x\"", "\"\\\\xx\""},
         {"\"\\x\"", "\"x\""}},
        {"{\"pattern\": \"b\"}", {"\"b\"", "\"abc\"", "\"\\\"b\\n\""}, {"\"\"", "\"a\"", "\"b"}},
        {"{\"prefixItems\": [{\"const\": 1}], \"items\": {\"type\": \"boolean\"}, \"minItems\": 1, "
         "\"maxItems\": 3}",
         {"[1]", "[1,true, false]"},
         {"[]", "[true]", "[1,1]", "[1,true,true,true]"}},
        {"{\"properties\": {\"ab\": {\"const\": 1}}, \"additionalProperties\": {\"const\": 2}}",
         {"{}", "{\"ab\":1}", "{\"ab\":1,\"a\":2}", "{\"abc\":2, \"\":2}", "{\"ac\":2}"},
         {"{\"ab\":2}", "{\"ab\":1,\"ab\":2}", "{\"a\":1}", "{\"\\u0061b\":2}"}},
        {"{\"$ref\": \"#/$defs/t\", \"$defs\": {\"t\": {\"type\": \"array\", \"items\": {\"$ref\": "
         "\"#/$defs/t\"}}}}",
         {"[]", "[[],[[]]]"},
         {"[", "[1]", "[[]"}},
        {"{\"allOf\": [{\"type\": [\"integer\", \"string\"], \"minimum\": 3}, {\"type\": \"number\", "
         "\"maximum\": 5}]}",
         {"3", "5"},
         {"2", "6", "\"\"", "3.5"}},
        {"{\"oneOf\": [{\"type\": \"null\"}, {\"enum\": [\"a\", {\"b\": []}]}]}",
         {"null", "\"a\"", "{\"b\":[]}"},
         {"{\"b\": 1}", "\"b\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"\"2024-02-28\"", "\"1999-12-31\""},
         {"\"2023-02-29\"", "\"2023-13-01\"", "\"0000-01-01\"", "\"2023-04-31\""}},
        {"{\"type\": \"integer\", \"multipleOf\": 12}",
         {"0", "12", "-144", "1008"},
         {"1", "00", "-0", "13", "120.0"}},
        {"{\"multipleOf\": 5, \"minimum\": -5, \"exclusiveMaximum\": 15}",
         {"-5", "0", "5", "10"},
         {"-10", "15", "3"}},
        {"{\"patternProperties\": {\"^[a-z]$\": {\"const\": 1}}}",
         {"{}", "{\"a\":1, \"b\":1}"},
         {"{\"ab\":1}", "{\"a\":2}"}},
        {"{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": true}, \"patternProperties\": {\"a\": "
         "{\"minimum\": 5}}}",
         {"{\"a\":7, \"b\":[]}"},
         {"{\"a\":4}"}},
        {"{\"propertyNames\": {\"maxLength\": 2}, \"additionalProperties\": {\"const\": 0}, "
         "\"maxProperties\": 2}",
         {"{}", "{\"ab\":0, \"c\":0}"},
         {"{\"abc\":0}", "{\"a\":0,\"b\":0,\"c\":0}"}},
        {"{\"propertyNames\": {\"enum\": [\"a\"]}, \"properties\": {\"a\": {\"const\": 1}, \"b\": true}}",
         {"{}", "{\"a\":1}"},
         {"{\"b\":1}"}},
        {"{\"oneOf\": [{\"type\": \"integer\", \"maximum\": 3}, {\"type\": \"number\", \"exclusiveMinimum\": "
         "3}]}",
         {"3", "3.5", "4"},
         {"2.5"}},
        {"{\"oneOf\": [{\"oneOf\": [{\"const\": 1}, {\"const\": 2}]}, {\"anyOf\": [{\"const\": 3}, "
         "{\"type\": \"null\"}]}]}",
         {"1", "2", "3", "null"},
         {"4"}},
        {"{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"a\": {\"const\": 1}, "
         "\"b\": {\"const\": "
         "2}}, \"oneOf\": [{\"required\": [\"a\"], \"properties\": {\"b\": false}}, {\"required\": "
         "[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
         {"{}"}},
        {"{\"allOf\": [{\"anyOf\": [{\"const\": 1}, {\"const\": 2}]}, {\"anyOf\": [{\"const\": 2}, "
         "{\"const\": 3}]}]}",
         {"2"},
         {"1", "3"}},
        {"{\"type\": \"string\", \"enum\": [\"ab\", \"abc\", \"b\"], \"pattern\": \"^a\", "
         "\"contentEncoding\": \"x\"}",
         {"\"ab\"", "\"abc\""},
         {"\"b\""}},
        {"{\"pattern\": \"^[a-z]+(-[a-z]+)*$\", \"minLength\": 3, \"maxLength\": 5}",
         {"\"abc\"", "\"a-bcd\""},
         {"\"ab\"", "\"a-\"", "\"abcdef\"", "\"-ab\""}},
        {"{\"pattern\": \"^[a-zé]+$\", \"minLength\": 2, \"maxLength\": 4}",
         {"\"aé\"", "\"abcd\""},
         {"\"a\"", "\"abcde\"", "\"A\""}},
        {"{\"pattern\": \"^\\\\d{3,5}$\", \"maxLength\": 4}",
         {"\"123\"", "\"1234\""},
         {"\"12\"", "\"12345\""}},
        {"{\"pattern\": \"^a|b+$\", \"maxLength\": 2}", {"\"a\"", "\"ax\"", "\"bb\""}, {"\"axx\"", "\"x\""}},
        {"{\"pattern\": \"^$|^b+$\", \"maxLength\": 2}", {"\"\"", "\"bb\""}, {"\"bbb\"", "\"a\""}},
        {"{\"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"é$\"}, {\"maxLength\": 4}]}",
         {"\"aé\"", "\"\\n\\naé\""},
         {"\"a\"", "\"é\"", "\"\\n\\n\\naé\""}},
        {"{\"format\": \"date\", \"pattern\": \"^20\", \"maxLength\": 10}",
         {"\"2024-02-28\""},
         {"\"1999-12-31\"", "\"20\""}},
        {"{\"enum\": [0.1, 1.10, [1e23], -2.5e-7]}",
         {"0.1", "1.1", "[1e23]", "-2.5e-7"},
         {"0.10000000000000001", "1.1000000000000001", "1.10"}},
        {"{\"$ref\": \"#/$defs/a%25%20b\", \"$defs\": {\"a% b\": {\"const\": 1}}}", {"1"}, {"2"}},
        {"true", {"null", "[{\"a\": -1.5e+10}]"}, {"", "nul", "[,]"}},
    };
    check_fits(GRAMMAR_JSON_SCHEMA, all, sizeof all / sizeof *all);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        GrammarKind kind;
        const char *text, *why;
    } all[] = {
        {GRAMMAR_GBNF, "", "no rule named root"},
        {GRAMMAR_GBNF, "root ::= a", "no rule named a"},
        {GRAMMAR_GBNF, "root ::= \"a\n\"", "line 1: a text that is not closed"},
        {GRAMMAR_GBNF, "root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule that is there already"},
        {GRAMMAR_GBNF, "root ::= [b-a]", "range"},
        {GRAMMAR_GBNF, "root ::= ([a]", ") is missing"},
        {GRAMMAR_GBNF, "root ::= \"a\" root \"b\"", "no text fits"},
        {GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF, "root ::= e x\ne ::= \"\"?\nx ::= e x \"a\" | \"b\"", "left recursion"},
        {GRAMMAR_GBNF,
         "root ::= a a a\na ::= [a]{60000} [b]{60000} [c]{60000} [d]{60000} [e]{60000} [f]{60000} [g]{60000} "
         "[h]{60000} "
         "[i]{60000}",
         "too large"},
        {GRAMMAR_GBNF, "root ::= \"a\"{99999999999}", "a repetition of more than"},
        {GRAMMAR_REGEX, "a(b", "character 4: a ) is missing"},
        {GRAMMAR_REGEX, "(a)\\1", "a reference back"},
        {GRAMMAR_REGEX, "a(?=b)", "looking around"},
        {GRAMMAR_REGEX, "a$b", "^ and $"},
        {GRAMMAR_REGEX, "*a", "nothing to repeat"},
        {GRAMMAR_REGEX, "a)", ") without ("},
        {GRAMMAR_JSON_SCHEMA, "{", "line 1"},
        {GRAMMAR_JSON_SCHEMA, "{\"not\": {}}", "#/not: "},
        {GRAMMAR_JSON_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"strin\"}}}", "#/properties/a: type is"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"contains\": true}}", "#/items/contains: "},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"http://x.org/y\"}", "#/$ref: only references within"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"#/$defs/x\"}", "#/$ref: it leads nowhere"},
        {GRAMMAR_JSON_SCHEMA, "{\"$ref\": \"#\"}", "left recursion"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\": [{\"$ref\": \"#\"}]}", "nest too deeply"},
        {GRAMMAR_JSON_SCHEMA, "{\"oneOf\": [{\"type\": \"number\"}, {\"type\": \"integer\"}]}",
         "#/oneOf/1: a value may fit"},
        {GRAMMAR_JSON_SCHEMA, "{\"oneOf\": [{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
         "#/oneOf/1: a value may fit"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": [\"a\"]}}", "#/items/pattern: it is a string"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": \"a.*b.*c\", \"maxLength\": 9000}}",
         "#/items: pattern, format"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"pattern\": \"^[a$\", \"maxLength\": 2}}",
         "#/items/pattern: the pattern's"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"^a{3}$\", \"maxLength\": 2}", "no text fits"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"oneOf\": []}}", "#/items: anyOf and oneOf are lists"},
        {GRAMMAR_JSON_SCHEMA, "{\"anyOf\": 7}", "#: anyOf and oneOf are lists"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"multipleOf\": 0}}", "#/items/multipleOf: only multiples"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"multipleOf\": 0.01}}", "#/items/multipleOf: only multiples"},
        {GRAMMAR_JSON_SCHEMA, "{\"patternProperties\": {\"a\": {}, \"b\": {}}}",
         "#/patternProperties: only one pattern"},
        {GRAMMAR_JSON_SCHEMA, "{\"allOf\": [{}, {\"not\": {}}]}", "#/allOf/1/not: "},
        {GRAMMAR_JSON_SCHEMA,
         "{\"allOf\": [{\"patternProperties\": {\"a\": true}}, {\"additionalProperties\": {\"type\": "
         "\"null\"}}]}",
         "#/allOf/1: patternProperties and additionalProperties"},
        {GRAMMAR_JSON_SCHEMA, "{\"format\": \"color\"}", "#/format: no format that palaver knows"},
        {GRAMMAR_REGEX, "\\ud800a", "half a character"},
        {GRAMMAR_JSON_SCHEMA, "false", "no text fits"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"properties\": {\"no\": false, \"a\": {}, \"b\": {\"items\": {\"type\": \"integer\", "
         "\"minimum\": 5, "
         "\"maximum\": 4}, \"minItems\": 1}}, \"required\": [\"b\"]}",
         "#/properties/b/items: no text fits"},
        {GRAMMAR_JSON_SCHEMA, "{\"items\": {\"enum\": []}, \"minItems\": 1}", "#/items: no text fits"},
        {GRAMMAR_JSON_SCHEMA, "{\"pattern\": \"(?=a)\"}",
         "#/pattern: the pattern's character 4: looking around"},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
         "no text fits"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Error error = {0};
        Grammar *grammar;
        if (!grammar_compile(all[i].kind, all[i].text, strlen(all[i].text), &grammar, &error))
            fail_msg("%s: was taken", all[i].text);
        if (!strstr(error.message, all[i].why))
            fail_msg("%s: %s, not %s", all[i].text, error.message, all[i].why);
        assert_null(grammar);
    }
}

// What a hostile schema would compare or write out without end is refused soon, with one line. `piece` is repeated with
// numbers for its %d.
static void hostile(void **state) {
    (void)state;
    static const struct {
        const char *begin, *piece, *end, *why;
        int n;
    } all[] = {
        {"{\"required\": [", "\"%d\",", "\"\"]}", "too many names or values to be compared", 60000},
        {"{\"allOf\": [{\"required\": [\"\"]}, {\"required\": [", "\"%d\",", "\"\"]}]}", "too many", 60000},
        {"{\"oneOf\": [", "{\"const\": %d},", "true]}", "too many schemas to be told apart", 10000},
        {"{\"oneOf\": [", "{\"enum\": [%d, \"a\"]},", "true]}", "#/oneOf/1: a value may fit", 200},
        {"{\"anyOf\": [", "{\"const\": %d},", "true]}", "or there are too many", 20000},
        {"{\"allOf\": [", "{\"anyOf\": [{\"minLength\": %d}, {\"maxLength\": 9}]},", "true]}",
         "anyOf: it is asked for twice", 40},
        {"{\"properties\": {", "\"a%d\": {\"maxLength\": 60000},", "\"\": {}}}", "too large", 60},
        {"", "{\"items\": ", "", "line 1", 3000},
        {"{\"pattern\": \"", "(a{0,%d}", "\"}", "too many groups", 1000},
        {"{\"pattern\": \"^[^", "\\\\u{1%04d}", "]\"}", "too many characters", 9999},
        {"{\"pattern\": \"", "\\\\p{L%d}", "\"}", "this escape", 1},
        {"{\"pattern\": \"", "\xff%d", "\"}", "not UTF-8", 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *text = malloc(1 << 20);
        assert_non_null(text);
        size_t n = (size_t)sprintf(text, "%s", all[i].begin);
        for (int k = 0; k < all[i].n; k++) n += (size_t)snprintf(text + n, 128, all[i].piece, k);
        n += (size_t)sprintf(text + n, "%s", all[i].end);
        Error error = {0};
        Grammar *grammar;
        if (!grammar_compile(GRAMMAR_JSON_SCHEMA, text, n, &grammar, &error))
            fail_msg("%s%s: was taken", all[i].begin, all[i].piece);
        if (!strstr(error.message, all[i].why))
            fail_msg("%s%s: %s", all[i].begin, all[i].piece, error.message);
        free(text);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gbnf),    cmocka_unit_test(regex),   cmocka_unit_test(schema),
        cmocka_unit_test(refused), cmocka_unit_test(hostile),
    };
    return test_main("grammar", argc, argv, tests);
}
