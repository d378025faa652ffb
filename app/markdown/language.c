#include "app/markdown/language.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 24 };

#define C_WORDS                                                                                              \
    " auto break case char const continue default do double else enum extern float for goto if inline int "  \
    "long register restrict return short signed sizeof static struct switch typedef union unsigned void "    \
    "volatile while bool true false NULL size_t uint8_t int32_t uint32_t int64_t uint64_t "
#define C_LIKE .line_comment = {"//"}, .comment = "/*", .end = "*/", .quotes = "\"'"

static const Language languages[] = {
    {.names = " c h ", .words = C_WORDS, C_LIKE},
    {.names = " cpp c++ cc cxx hpp cuda cu ",
     .words = C_WORDS
     " alignas class concept consteval constexpr const_cast decltype delete dynamic_cast explicit export "
     "final "
     "friend mutable namespace new noexcept nullptr operator override private protected public requires "
     "static_cast template this throw try catch typename using virtual co_await co_return co_yield "
     "__global__ __device__ __shared__ __host__ ",
     C_LIKE},
    {.names = " csharp cs c# ",
     .words =
         " abstract as async await base bool break byte case catch char class const continue decimal default "
         "delegate do double else enum event explicit extern false finally fixed float for foreach get goto "
         "if "
         "implicit in int interface internal is lock long namespace new null object operator out override "
         "params private protected public readonly record ref return sealed set short sizeof static string "
         "struct switch this throw true try typeof uint ulong using var virtual void volatile when where "
         "while yield ",
     C_LIKE},
    {.names = " java ",
     .words =
         " abstract assert boolean break byte case catch char class const continue default do double else "
         "enum "
         "extends false final finally float for goto if implements import instanceof int interface long "
         "native "
         "new null package permits private protected public record return sealed short static strictfp super "
         "switch synchronized this throw throws transient true try var void volatile while yield String ",
     C_LIKE},
    {.names = " javascript js jsx mjs node ",
     .words =
         " async await break case catch class const continue debugger default delete do else export extends "
         "false finally for from function get if import in instanceof let new null of return set static "
         "super "
         "switch this throw true try typeof undefined var void while with yield ",
     .long_quotes = {"`"},
     C_LIKE},
    {.names = " typescript ts tsx ",
     .words =
         " abstract any as async await boolean break case catch class const continue declare default delete "
         "do "
         "else enum export extends false finally for from function get if implements import in infer "
         "instanceof interface is keyof let module namespace never new null number object of private "
         "protected "
         "public readonly return satisfies set static string super switch this throw true try type typeof "
         "undefined unknown var void while yield ",
     .long_quotes = {"`"},
     C_LIKE},
    {.names = " python py python3 ipython ",
     .words = " and as assert async await break case class continue def del elif else except False finally "
              "for from "
              "global if import in is lambda match None nonlocal not or pass raise return self True try "
              "while with "
              "yield ",
     .line_comment = {"#"},
     .quotes = "\"'",
     .long_quotes = {"\"\"\"", "'''"}},
    {.names = " go golang ",
     .words =
         " any bool break byte case chan const continue default defer else error fallthrough false for func "
         "go "
         "goto if import int int64 interface map nil package range return rune select string struct switch "
         "true type uint8 var float64 make append len ",
     .long_quotes = {"`"},
     C_LIKE},
    {.names = " rust rs ",
     .words = " as async await bool break char const continue crate dyn else enum extern f32 f64 false fn "
              "for i32 i64 "
              "if impl in let loop match mod move mut pub ref return self Self static str String struct "
              "super trait "
              "true type u8 u32 u64 unsafe use usize where while Some None Ok Err Vec Option Result ",
     .line_comment = {"//"},
     .comment = "/*",
     .end = "*/",
     .quotes = "\""},
    {.names = " ruby rb ",
     .words =
         " alias and begin break case class def defined? do else elsif end ensure false for if in module "
         "next nil "
         "not or puts redo require rescue retry return self super then true undef unless until when while "
         "yield ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " php ",
     .words = " abstract and array as break case catch class clone const continue declare default do echo "
              "else elseif "
              "extends false final finally fn for foreach function global if implements include instanceof "
              "interface match namespace new null or private protected public readonly require return static "
              "switch this throw trait true try use var while yield ",
     .line_comment = {"//", "#"},
     .comment = "/*",
     .end = "*/",
     .quotes = "\"'"},
    {.names = " swift ",
     .words =
         " actor any as associatedtype async await break case catch class continue default defer deinit do "
         "else "
         "enum extension false fileprivate for func guard if import in init inout internal is let nil open "
         "operator override private protocol public repeat return self Self static struct subscript super "
         "switch throw throws true try typealias var where while Int String Bool Double ",
     .line_comment = {"//"},
     .comment = "/*",
     .end = "*/",
     .quotes = "\"",
     .long_quotes = {"\"\"\""}},
    {.names = " kotlin kt kts ",
     .words =
         " abstract as break by catch class companion const constructor continue data do else enum external "
         "false "
         "final finally for fun if import in infix init inline inner interface internal is lateinit null "
         "object open operator out override package private protected public return sealed super suspend "
         "this "
         "throw true try typealias val var vararg when where while Int String Boolean ",
     .long_quotes = {"\"\"\""},
     C_LIKE},
    {.names = " bash sh shell zsh console fish ksh ",
     .words = " alias break case cd continue declare do done echo elif else esac eval exec exit export fi "
              "for function "
              "if in local read readonly return set shift source sudo then trap unset until while ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " powershell ps1 pwsh ",
     .words = " begin break catch class continue do else elseif end exit filter finally for foreach function "
              "if in "
              "param process return switch throw try until while ",
     .line_comment = {"#"},
     .comment = "<#",
     .end = "#>",
     .quotes = "\"'",
     .any_case = true},
    {.names = " sql postgres postgresql mysql sqlite plsql ",
     .words =
         " add all alter and as asc begin between by case cast check column commit constraint create cross "
         "default delete desc distinct drop else end exists false foreign from full group having if in index "
         "inner insert int integer into is join key left like limit not null offset on or order outer "
         "primary "
         "references returning right rollback select set table text then true union unique update using "
         "values varchar view when where with ",
     .line_comment = {"--"},
     .comment = "/*",
     .end = "*/",
     .quotes = "'\"",
     .any_case = true},
    {.names = " html xml svg xhtml vue ",
     .words = " ",
     .comment = "<!--",
     .end = "-->",
     .quotes = "\"",
     .tags = true},
    {.names = " css scss sass less ",
     .words = " auto block bold center fixed flex grid hidden important inherit initial inline none relative "
              "absolute "
              "solid sticky unset ",
     .comment = "/*",
     .end = "*/",
     .quotes = "\"'"},
    {.names = " json jsonc json5 jsonl ",
     .words = " true false null ",
     .line_comment = {"//"},
     .quotes = "\""},
    {.names = " yaml yml ",
     .words = " true false null yes no on off ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " toml ini conf cfg properties ",
     .words = " true false ",
     .line_comment = {"#", ";"},
     .quotes = "\"'"},
    {.names = " lua ",
     .words = " and break do else elseif end false for function goto if in local nil not or repeat return "
              "then true "
              "until while ",
     .line_comment = {"--"},
     .comment = "--[[",
     .end = "]]",
     .quotes = "\"'"},
    {.names = " r ",
     .words = " break else FALSE for function if in Inf library NA NaN next NULL repeat return TRUE while ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " perl pl ",
     .words =
         " and cmp die do each else elsif eq for foreach if last local my ne next not or our package print "
         "return shift sub undef unless until use while ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " scala ",
     .words =
         " abstract case catch class def do else enum extends false final finally for given if implicit "
         "import "
         "lazy match new null object override package private protected return sealed super then this throw "
         "trait true try type val var while with yield ",
     .long_quotes = {"\"\"\""},
     C_LIKE},
    {.names = " haskell hs ",
     .words = " case class data deriving do else forall if import in infix infixl infixr instance let module "
              "newtype "
              "of then type where ",
     .line_comment = {"--"},
     .comment = "{-",
     .end = "-}",
     .quotes = "\""},
    {.names = " julia jl ",
     .words = " abstract begin break catch const continue do else elseif end export false finally for "
              "function global "
              "if import in let local macro module mutable nothing quote return struct true try using while ",
     .line_comment = {"#"},
     .quotes = "\"",
     .long_quotes = {"\"\"\""}},
    {.names = " makefile make mk ",
     .words = " define else endef endif export ifdef ifeq ifndef ifneq include override ",
     .line_comment = {"#"},
     .quotes = "\"'"},
    {.names = " dockerfile docker ",
     .words = " ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL "
              "USER VOLUME "
              "WORKDIR AS ",
     .line_comment = {"#"},
     .quotes = "\"'"},
};

static bool among(const char *list, const char *word, size_t n, bool any_case) {
    char wanted[LONGEST + 3] = " ";
    if (!n || n > LONGEST) return false;
    for (size_t i = 0; i < n; i++) wanted[i + 1] = any_case ? (char)tolower((unsigned char)word[i]) : word[i];
    wanted[n + 1] = ' ';
    wanted[n + 2] = 0;
    return strstr(list, wanted) != NULL;
}

const Language *language_find(const char *info, size_t n) {
    size_t size = 0;
    if (n && info[0] == '{') info++, n--;
    if (n && info[0] == '.') info++, n--;
    while (size < n && !strchr(" \t{},:", info[size])) size++;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        if (among(languages[i].names, info, size, true)) return &languages[i];
    return NULL;
}

bool language_has_word(const Language *language, const char *word, size_t n) {
    return among(language->words, word, n, language->any_case);
}
